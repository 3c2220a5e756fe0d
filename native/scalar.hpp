// The decoder for any number of lanes, one value at a time: what the vector kernels are tested against, and what few lanes use.
#pragma once

#include "layer.hpp"

namespace {

struct ScalarDecoder {
  const Tables& tables;
  Reader& in;
  uint16_t* state;
  int num_lanes;
};

// Symbols of one unit; the table of value i is slots + row[i]. Lanes read in the order even, then odd. Without a branch: low states
// are unpredictable.
inline void decode_symbols(ScalarDecoder& decoder, const uint32_t* slots, const uint16_t* row, int width, uint8_t* symbols) {
  const uint8_t* next = decoder.in.next;
  for (int start = 0; start < width; start += decoder.num_lanes) {
    const int active = width - start < decoder.num_lanes ? width - start : decoder.num_lanes;
    for (int parity = 0; parity < 2; ++parity) {
      for (int lane = parity; lane < active; lane += 2) {
        const uint32_t before = decoder.state[lane];
        const uint32_t entry = slots[row[start + lane] + (before & 255)];
        const uint32_t x = (entry >> 8 & 255) * (before >> 8) + (entry >> 16);
        const uint32_t is_low = x < kStateLow;
        symbols[start + lane] = static_cast<uint8_t>(entry);
        decoder.state[lane] = static_cast<uint16_t>(x << 8 * is_low | (*next & (0u - is_low)));
        next += is_low;
      }
    }
  }
  decoder.in.next = next;
}

// Row of each value's table after the unit's first: its context is min(|index|, 2), plus one in the open edge bin (edge >= 2).
inline void find_rows(const int16_t* __restrict index, int width, int16_t edge, uint16_t* __restrict row) {
  for (int i = 0; i < width; ++i) {
    const int16_t size = index[i] < 0 ? static_cast<int16_t>(-index[i]) : index[i];
    const int16_t near = size < 2 ? size : int16_t{2};
    row[i] = static_cast<uint16_t>(256 * (near + (size == edge)));
  }
}

inline void apply_start(const uint8_t* symbols, int width, int16_t* index) {
  for (int i = 0; i < width; ++i) index[i] = static_cast<int16_t>(symbols[i] - kMaxIndex);
}

inline void apply_refinement(const uint8_t* symbols, int width, int16_t* index) {
  for (int i = 0; i < width; ++i) {
    const int away = symbols[i] - 1;
    index[i] = static_cast<int16_t>(3 * index[i] + (index[i] < 0 ? -away : away));
  }
}

// Decodes one unit. Returns false, and leaves the values alone, when its bytes are not all there.
inline bool decode_unit(ScalarDecoder& decoder, const SakuraRun& run, const Unit& unit) {
  uint16_t row[kMaxWidth];
  uint8_t symbols[kMaxWidth];
  const bool is_start = run.table < kStartTables;
  if (is_start) {
    for (int i = 0; i < unit.width; ++i) row[i] = 0;
  } else {
    find_rows(unit.values, unit.width, static_cast<int16_t>(run.edge), row);
  }
  make_room(decoder.in);
  decode_symbols(decoder, decoder.tables.slots[run.table], row, unit.width, symbols);
  if (decoder.in.next > decoder.in.end) return false;
  is_start ? apply_start(symbols, unit.width, unit.values) : apply_refinement(symbols, unit.width, unit.values);
  return true;
}

// Decodes whole units into `index` until the stream ends. Returns their number, or -1 for a plan that leaves the index array.
inline int32_t decode_layer_scalar(const Tables& tables, const SakuraLayer& layer, Bytes from, int16_t* index, int32_t* is_clean) {
  uint16_t state[kMaxLanes];
  if (!read_states(from, layer.num_lanes, state)) return 0;
  uint8_t spare[2 * kReach];
  Reader in{from.data + 2 * layer.num_lanes, from.data + from.size, spare};
  ScalarDecoder decoder{tables, in, state, layer.num_lanes};
  int32_t num_units = 0;
  for (int32_t r = 0; r < layer.num_runs; ++r) {
    const SakuraRun& run = layer.runs[r];
    for (int32_t column = run.first; column < run.first + run.count; ++column, ++num_units) {
      if (!is_valid_column(layer, column)) return -1;
      if (!decode_unit(decoder, run, {index + layer.offset[column], layer.width[column]})) return num_units;
    }
  }
  *is_clean = is_at_rest(in, layer.num_lanes, state);
  return num_units;
}

}  // namespace
