// What every decoder and encoder shares: the order of units, their checks, and the reader that never leaves the stream.
#pragma once

#include "tables.hpp"

#define SAKURA_INLINE inline __attribute__((always_inline))
#define SAKURA_LAMBDA __attribute__((always_inline))

struct SakuraBytes {
  const uint8_t* data;
  int64_t size;
};

// Finest indices of a layer's columns, and the exponent they stand at.
struct SakuraSource {
  const int16_t* index;
  int32_t finest;
};

// Bytes are written downwards from `place`; 8 bytes below the last one may be overwritten.
struct SakuraSink {
  uint8_t* place;
};

namespace {

using Source = SakuraSource;
using Sink = SakuraSink;
using Bytes = SakuraBytes;

// A decoder may look this far past the bytes that a unit can take.
constexpr int kLookahead = 64;
constexpr int kSlack = 8;

struct Unit {
  int16_t* values;
  int width;
};

// Bytes still to be taken. Once fewer are left than a unit and the lookahead may touch, reading goes on in a copy with zeros
// behind it, so that one comparison a unit is all the checking there is.
struct Reader {
  const uint8_t* next;
  const uint8_t* end;
  uint8_t* spare;  // 2 * kReach bytes for the copy, null once it is in use
};

constexpr int kReach = kMaxWidth + kLookahead;

SAKURA_INLINE void make_room(Reader& in) {
  if (in.end - in.next >= kReach || in.spare == nullptr) return;
  const int size = static_cast<int>(in.end - in.next);
  for (int i = 0; i < size; ++i) in.spare[i] = in.next[i];
  for (int i = size; i < 2 * kReach; ++i) in.spare[i] = 0;
  in.next = in.spare;
  in.end = in.spare + size;
  in.spare = nullptr;
}

// Plans come from the caller, never from a stream; one that would leave the index array is refused.
inline bool is_valid_run(const SakuraLayer& layer, const SakuraRun& run) {
  const bool is_start = run.table >= 0 && run.table < kStartTables;
  const bool is_refined = run.table >= kStartTables && run.table < kTables && (run.table - kStartTables) % kContexts == 0;
  const bool fits = run.first >= 0 && run.count >= 0 && run.first <= layer.num_columns - run.count;
  return fits && (is_start || (is_refined && run.edge >= 2 && run.edge <= 32767));
}

SAKURA_INLINE bool is_valid_column(const SakuraLayer& layer, int32_t column) {
  const int32_t width = layer.width[column], offset = layer.offset[column];
  return width >= 1 && width <= kMaxWidth && offset >= 0 && offset <= layer.num_values - width;
}

// Columns of one class lie far apart; without this each waits for memory.
SAKURA_INLINE void prefetch_column(const SakuraLayer& layer, const int16_t* index, int32_t column) {
  if (column < 0 || column >= layer.num_columns) return;
  const char* place = reinterpret_cast<const char*>(index) + 2 * static_cast<int64_t>(layer.offset[column]);
  __builtin_prefetch(place, 1);
  __builtin_prefetch(place + 64, 1);
}

constexpr int kAhead = 12;

inline bool is_valid_layer(const SakuraLayer& layer) {
  if (layer.num_runs < 0 || layer.num_lanes < (layer.num_runs > 0) || layer.num_lanes > kMaxLanes) return false;
  for (int32_t r = 0; r < layer.num_runs; ++r) {
    if (!is_valid_run(layer, layer.runs[r])) return false;
  }
  return true;
}

inline int64_t count_values(const SakuraLayer& layer) {
  int64_t num_values = 0;
  for (int32_t r = 0; r < layer.num_runs; ++r) {
    for (int32_t i = 0; i < layer.runs[r].count; ++i) num_values += layer.width[layer.runs[r].first + i];
  }
  return num_values;
}

// Initial states of the lanes. Returns false when they are not all there, or one is below 256.
inline bool read_states(const Bytes& from, int num_lanes, uint16_t* state) {
  if (from.size < 2 * num_lanes) return false;
  bool is_valid = true;
  for (int lane = 0; lane < num_lanes; ++lane) {
    state[lane] = static_cast<uint16_t>(from.data[2 * lane] | from.data[2 * lane + 1] << 8);
    is_valid = is_valid && state[lane] >= kStateLow;
  }
  return is_valid;
}

// Up to 64 values, without a call to the C library.
SAKURA_INLINE void copy_values(const int16_t* from, int width, int16_t* to) {
  int i = 0;
  for (; i + 8 <= width; i += 8) __builtin_memcpy(to + i, from + i, 16);
  for (; i < width; ++i) to[i] = from[i];
}

inline bool is_at_rest(const Reader& in, int num_lanes, const uint16_t* state) {
  bool is_rest = in.next == in.end;
  for (int lane = 0; lane < num_lanes; ++lane) is_rest = is_rest && state[lane] == kStateLow;
  return is_rest;
}

}  // namespace
