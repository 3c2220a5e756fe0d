// The class tables in the forms the kernels read: a slot table for the scalar decoder, 16-byte rows for shuffles.
#pragma once

#include "abi.h"

namespace {

constexpr int kStartTables = 3;  // tables 0..2 code start symbols; then four contexts for each refined class
constexpr int kContexts = 4;
constexpr int kEdgeContext = 3;
constexpr int kFineClasses = 9;
constexpr int kTables = kStartTables + kFineClasses * kContexts;
constexpr int kMaxIndex = 7;
constexpr int kSymbols = 16;  // rows of the frequency array; a start symbol is an index + 7
constexpr int kMaxLanes = 64;
constexpr int kMaxWidth = 64;
constexpr uint32_t kStateLow = 256;  // states live in [256, 65536)

}  // namespace

// An alphabet of up to 16 ranks. `bound` holds, for each rank but the first, the last slot before it, with the top bit flipped so
// that signed comparison orders slots; 127, which no slot exceeds, where there is no such rank.
struct alignas(64) SakuraAlphabet {
  uint8_t freq[16];
  uint8_t below[16];
  uint8_t rcp_low[16];  // floor(65536 / freq), at most 65535
  uint8_t rcp_high[16];
  int8_t bound[16];
  int8_t odd_of_8[16];    // bound[2 j + 1]: last step of a search among 16
  int8_t twos_of_16[16];  // bound[4 j + 2]
  int32_t num_ranks;
  int32_t lowest;  // symbol of rank 0
};

// The ternary alphabets of the contexts 0..2 of a class: rank = 4 * context + symbol.
struct alignas(64) SakuraTernary {
  uint8_t freq[16];
  uint8_t below[16];
  uint8_t rcp_low[16];
  uint8_t rcp_high[16];
  int8_t bound1[16];  // by context
  int8_t bound2[16];
};

struct SakuraTables {
  SakuraAlphabet start[kStartTables];
  SakuraAlphabet edge[kFineClasses];
  SakuraTernary ternary[kFineClasses];
  uint32_t slots[kTables][256];  // symbol | frequency << 8 | (slot - below) << 16
  uint16_t freq[kTables][kSymbols];
  uint16_t below[kTables][kSymbols];
};

namespace {

using Alphabet = SakuraAlphabet;
using Ternary = SakuraTernary;
using Tables = SakuraTables;

inline uint32_t reciprocal(uint32_t freq) { return freq < 2 ? 65535 : 65536 / freq; }

inline int8_t flipped(uint32_t last_slot) { return static_cast<int8_t>(last_slot ^ 128); }

inline void build_slots(const uint16_t* freq, uint32_t* slots) {
  uint32_t slot = 0;
  for (uint32_t symbol = 0; symbol < kSymbols; ++symbol) {
    for (uint32_t i = 0; i < freq[symbol] && slot < 256; ++i) slots[slot++] = symbol | uint32_t{freq[symbol]} << 8 | i << 16;
  }
}

inline void build_alphabet(const uint16_t* freq, Alphabet& to) {
  to = Alphabet{};
  int lowest = 0;
  while (lowest < kSymbols - 1 && freq[lowest] == 0) ++lowest;
  to.lowest = lowest;
  uint32_t below = 0;
  for (int rank = 0; rank < 16; ++rank) {
    const uint32_t f = lowest + rank < kSymbols ? freq[lowest + rank] : 0;
    to.bound[rank] = f > 0 && rank > 0 ? flipped(below - 1) : int8_t{127};
    if (f == 0) continue;
    to.freq[rank] = static_cast<uint8_t>(f);
    to.below[rank] = static_cast<uint8_t>(below);
    to.rcp_low[rank] = static_cast<uint8_t>(reciprocal(f));
    to.rcp_high[rank] = static_cast<uint8_t>(reciprocal(f) >> 8);
    to.num_ranks = rank + 1;
    below += f;
  }
  for (int j = 0; j < 8; ++j) to.odd_of_8[j] = to.bound[2 * j + 1];
  for (int j = 0; j < 4; ++j) to.twos_of_16[j] = to.bound[4 * j + 2];
}

inline void build_ternary(const uint16_t (*freq)[kSymbols], Ternary& to) {
  to = Ternary{};
  for (int context = 0; context < kEdgeContext; ++context) {
    uint32_t below = 0;
    for (int symbol = 0; symbol < 3; ++symbol) {
      const uint32_t f = freq[context][symbol], rank = 4 * context + symbol;
      to.freq[rank] = static_cast<uint8_t>(f);
      to.below[rank] = static_cast<uint8_t>(below);
      to.rcp_low[rank] = static_cast<uint8_t>(reciprocal(f));
      to.rcp_high[rank] = static_cast<uint8_t>(reciprocal(f) >> 8);
      if (symbol == 1) to.bound1[context] = flipped(below - 1);
      if (symbol == 2) to.bound2[context] = flipped(below - 1);
      below += f;
    }
  }
}

// Frequencies (39, 16) of the class tables to all views. Returns false unless every table sums to 256 without a gap.
inline bool build_tables(const uint16_t (*freq)[kSymbols], Tables& to) {
  for (int table = 0; table < kTables; ++table) {
    uint32_t sum = 0, num_runs = 0, before = 0;
    for (int symbol = 0; symbol < kSymbols; ++symbol) {
      const uint32_t f = freq[table][symbol];
      if (f > 255) return false;
      num_runs += f > 0 && before == 0;
      to.freq[table][symbol] = static_cast<uint16_t>(f);
      to.below[table][symbol] = static_cast<uint16_t>(sum);
      before = f;
      sum += f;
    }
    if (sum != 256 || num_runs != 1) return false;
    const bool is_start = table < kStartTables, is_edge = !is_start && (table - kStartTables) % kContexts == kEdgeContext;
    if (!is_start && (freq[table][0] == 0 || (!is_edge && (freq[table][2] == 0 || freq[table][3] > 0)))) return false;
    build_slots(freq[table], to.slots[table]);
  }
  for (int i = 0; i < kStartTables; ++i) build_alphabet(freq[i], to.start[i]);
  for (int i = 0; i < kFineClasses; ++i) {
    const uint16_t(*rows)[kSymbols] = freq + kStartTables + i * kContexts;
    build_ternary(rows, to.ternary[i]);
    build_alphabet(rows[kEdgeContext], to.edge[i]);
  }
  return true;
}

}  // namespace
