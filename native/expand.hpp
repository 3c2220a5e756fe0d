// Shuffles that spread the next bytes of a stream over the low 16-bit lanes of a group of eight, and gather them back.
#pragma once

#include <stdint.h>

namespace {

// Row m: byte j of the source goes to the j-th lane whose bit is set in m; the other bytes become zero.
struct ExpandTable {
  alignas(64) uint8_t row[256][16];
  constexpr ExpandTable() : row() {
    for (int mask = 0; mask < 256; ++mask) {
      uint8_t taken = 0;
      for (int lane = 0; lane < 8; ++lane) {
        const bool is_low = mask >> lane & 1;
        row[mask][2 * lane] = is_low ? taken : 0x80;
        row[mask][2 * lane + 1] = 0x80;
        taken = static_cast<uint8_t>(taken + is_low);
      }
    }
  }
};

// Row m: the low bytes of the lanes whose bit is set in m, in order, end at byte 7.
struct GatherTable {
  alignas(64) uint8_t row[256][8];
  constexpr GatherTable() : row() {
    for (int mask = 0; mask < 256; ++mask) {
      int place = 8;
      for (int lane = 7; lane >= 0; --lane) {
        if (mask >> lane & 1) row[mask][--place] = static_cast<uint8_t>(2 * lane);
      }
      while (place > 0) row[mask][--place] = 0x80;
    }
  }
};

constexpr ExpandTable kExpand{};
constexpr GatherTable kGather{};

// First n of 32 16-bit lanes: 32 words from kFirst.word + 32 - n.
struct FirstTable {
  alignas(64) uint16_t word[96];
  constexpr FirstTable() : word() {
    for (int i = 0; i < 96; ++i) word[i] = i < 32 ? 0xffff : 0;
  }
};

constexpr FirstTable kFirst{};

// Where to load the mask of the first `count` lanes from, at most `num_lanes`; `count` may be out of range.
inline const uint16_t* first_lanes(int count, int num_lanes) {
  const int clamped = count < 0 ? 0 : count > num_lanes ? num_lanes : count;
  return kFirst.word + 32 - clamped;
}

}  // namespace
