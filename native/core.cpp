// Codec core of SAKURA: entropy coder and dequantiser (docs/codec.md), bit-identical to src/sakura/codec/rans.py and quantize.py.
//
// Plain C ABI over caller-owned buffers; freestanding C++20: no libc, no heap, no exceptions, so the same file can become a
// Python-loadable .so, a WebAssembly module or an Android library. Whatever the bytes say, nothing outside the buffers is touched:
// a slot is eight bits into a table of 256 entries, every unit is checked against the index array, every read against the stream.

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define SAKURA_EXPORT extern "C" __declspec(dllexport)
#else
#define SAKURA_EXPORT extern "C" __attribute__((visibility("default")))
#endif

namespace {

constexpr int32_t kAbiVersion = 1;
constexpr int kMaxLanes = 64;
constexpr int kMaxWidth = 64;
constexpr uint32_t kStateLow = 256;  // states live in [256, 65536)
constexpr int kStartTables = 3;      // tables 0..2 code start symbols; then four contexts for each refined class
constexpr int kContexts = 4;
constexpr int kTables = 39;
constexpr int kMaxIndex = 7;

// Where and how each unit is coded; parallel arrays in coding order, as LayerPlan has them.
struct Units {
  const int32_t* offset;
  const uint8_t* width;
  const uint8_t* table;
  const int16_t* edge;
};

struct Reader {
  const uint8_t* next;
  const uint8_t* end;
};

// A unit that cannot be decoded safely is the caller's fault, not the stream's.
bool is_valid_unit(const Units& units, int32_t u, int32_t num_values) {
  const int width = units.width[u], table = units.table[u];
  const bool fits = units.offset[u] >= 0 && width >= 1 && width <= kMaxWidth && units.offset[u] <= num_values - width;
  const bool is_start = table < kStartTables;
  return fits && (is_start || (table < kTables && (table - kStartTables) % kContexts == 0));
}

// One step of one lane: the entry of its slot, and the state that follows. Reads at most one byte.
template <bool kChecked>
inline bool step_lane(uint32_t entry, uint32_t& state, Reader& in) {
  uint32_t x = (entry >> 8 & 255) * (state >> 8) + (entry >> 16);
  if constexpr (kChecked) {
    if (x < kStateLow) {
      if (in.next == in.end) return false;
      x = x << 8 | *in.next++;
    }
  } else {
    // Without a branch: low states are unpredictable. The caller left a readable byte for every lane.
    const uint32_t is_low = x < kStateLow;
    x = x << 8 * is_low | (*in.next & (0u - is_low));
    in.next += is_low;
  }
  state = x;
  return true;
}

// Symbols of one unit; the table of value i is slots + row[i]. Lanes read in the order even, then odd.
template <bool kChecked>
bool decode_unit(const uint32_t* slots, const uint16_t* row, int width, int num_lanes, uint32_t* state, Reader& in, uint8_t* symbols) {
  for (int start = 0; start < width; start += num_lanes) {
    const int active = width - start < num_lanes ? width - start : num_lanes;
    for (int parity = 0; parity < 2; ++parity) {
      for (int lane = parity; lane < active; lane += 2) {
        const uint32_t entry = slots[row[start + lane] + (state[lane] & 255)];
        symbols[start + lane] = static_cast<uint8_t>(entry);
        if (!step_lane<kChecked>(entry, state[lane], in)) return false;
      }
    }
  }
  return true;
}

// Row of each value's table after the unit's first: its context is min(|index|, 2), plus one in the open edge bin (edge >= 2).
void find_rows(const int16_t* __restrict index, int width, int16_t edge, uint16_t* __restrict row) {
  for (int i = 0; i < width; ++i) {
    const int16_t size = index[i] < 0 ? static_cast<int16_t>(-index[i]) : index[i];
    const int16_t near = size < 2 ? size : int16_t{2};
    row[i] = static_cast<uint16_t>(256 * (near + (size == edge)));
  }
}

void apply_start(const uint8_t* symbols, int width, int16_t* index) {
  for (int i = 0; i < width; ++i) index[i] = static_cast<int16_t>(symbols[i] - kMaxIndex);
}

void apply_refinement(const uint8_t* symbols, int width, int16_t* index) {
  for (int i = 0; i < width; ++i) {
    const int away = symbols[i] - 1;
    index[i] = static_cast<int16_t>(3 * index[i] + (index[i] < 0 ? -away : away));
  }
}

// Selections by arithmetic, so that no branch depends on the data: size 0 is pulled by 0 and gives +0, and x * -step is the same
// float as -(x * step).
void dequantize_column(const int16_t* __restrict q, int width, float step, const float* shrink, float* __restrict out) {
  const float pull[3] = {0.0f, shrink[0], shrink[1]};
  const float scale[2] = {step, -step};
  for (int i = 0; i < width; ++i) {
    const int32_t index = q[i];
    const int32_t is_negative = index < 0;
    const int32_t size = is_negative ? -index : index;
    out[i] = (static_cast<float>(size) - pull[size < 2 ? size : 2]) * scale[is_negative];
  }
}

}  // namespace

SAKURA_EXPORT int32_t sakura_abi_version() { return kAbiVersion; }

// Decodes whole units into `index` until the stream ends. Returns their number, or -1 for arguments that break the contract.
// `*is_clean` becomes 1 when all units were decoded, all bytes used and all states are back at 256.
SAKURA_EXPORT int32_t sakura_decode_layer(const uint8_t* data, int64_t num_bytes, const uint32_t* tables, const int32_t* offset,
                                          const uint8_t* width, const uint8_t* table, const int16_t* edge, int32_t num_units,
                                          int32_t num_lanes, int16_t* index, int32_t num_values, int32_t* is_clean) {
  *is_clean = 0;
  if (num_bytes < 0 || num_units < 0 || num_lanes < 0 || num_lanes > kMaxLanes || (num_units > 0 && num_lanes < 1)) return -1;
  if (num_bytes < 2 * num_lanes) return 0;
  uint32_t state[kMaxLanes];
  for (int lane = 0; lane < num_lanes; ++lane) {
    state[lane] = data[2 * lane] | static_cast<uint32_t>(data[2 * lane + 1]) << 8;
    if (state[lane] < kStateLow) return 0;
  }
  const Units units{offset, width, table, edge};
  Reader in{data + 2 * num_lanes, data + num_bytes};
  uint16_t row[kMaxWidth];
  uint8_t symbols[kMaxWidth];
  for (int32_t u = 0; u < num_units; ++u) {
    if (!is_valid_unit(units, u, num_values)) return -1;
    int16_t* values = index + offset[u];
    const bool is_start = table[u] < kStartTables;
    const uint32_t* slots = tables + 256 * table[u];
    if (is_start) {
      for (int i = 0; i < width[u]; ++i) row[i] = 0;
    } else {
      find_rows(values, width[u], edge[u], row);
    }
    // A lane reads at most a byte a symbol, so this much left means no read of the unit needs a check. One more byte is kept,
    // because the branch-free reader also looks at the byte it does not take.
    const bool is_roomy = in.end - in.next > width[u];
    const bool is_whole = is_roomy ? decode_unit<false>(slots, row, width[u], num_lanes, state, in, symbols)
                                   : decode_unit<true>(slots, row, width[u], num_lanes, state, in, symbols);
    if (!is_whole) return u;
    is_start ? apply_start(symbols, width[u], values) : apply_refinement(symbols, width[u], values);
  }
  bool is_at_rest = in.next == in.end;
  for (int lane = 0; lane < num_lanes; ++lane) is_at_rest = is_at_rest && state[lane] == kStateLow;
  *is_clean = is_at_rest;
  return num_units;
}

// Encodes symbols (unit after unit, each with its own table) backwards from the end of `out`. Returns the number of bytes, which
// then stand at the end of `out`, or -1 when `capacity` is below symbols + 2 * lanes or a symbol has no frequency.
SAKURA_EXPORT int64_t sakura_encode_layer(const uint8_t* symbols, const uint8_t* symbol_table, int64_t num_symbols,
                                          const uint8_t* width, int32_t num_units, int32_t num_lanes, const uint16_t* frequency,
                                          const uint16_t* cumulative, uint8_t* out, int64_t capacity) {
  if (num_lanes < 1 || num_lanes > kMaxLanes || num_symbols < 0 || capacity < num_symbols + 2 * num_lanes) return -1;
  uint32_t state[kMaxLanes];
  for (int lane = 0; lane < num_lanes; ++lane) state[lane] = kStateLow;
  uint8_t* place = out + capacity;
  int64_t stop = num_symbols;
  for (int32_t u = num_units - 1; u >= 0; --u) {
    const int64_t begin = stop - width[u];
    if (width[u] < 1 || begin < 0) return -1;
    for (int64_t start = begin + (width[u] - 1) / num_lanes * num_lanes; start >= begin; start -= num_lanes) {
      const int active = static_cast<int>(stop - start < num_lanes ? stop - start : num_lanes);
      for (int parity = 1; parity >= 0; --parity) {
        for (int lane = (active - 1 - parity) / 2 * 2 + parity; lane >= 0; lane -= 2) {
          if (lane >= active) continue;
          const int64_t i = start + lane;
          if (symbol_table[i] >= kTables || symbols[i] >= 16) return -1;
          const int entry = 16 * symbol_table[i] + symbols[i];
          const uint32_t f = frequency[entry];
          if (f < 1 || f > 255) return -1;
          uint32_t x = state[lane];
          if (x >= f << 8) {
            *--place = static_cast<uint8_t>(x);
            x >>= 8;
          }
          state[lane] = (x / f << 8) + cumulative[entry] + x % f;
        }
      }
    }
    stop = begin;
  }
  if (stop != 0) return -1;
  for (int lane = num_lanes - 1; lane >= 0; --lane) {
    *--place = static_cast<uint8_t>(state[lane] >> 8);
    *--place = static_cast<uint8_t>(state[lane]);
  }
  return out + capacity - place;
}

// Writes float32 coefficients of every column: sign(q) (|q| - shrink) step, 0 for q = 0. The difference is exact in float32, so one
// rounding happens and every platform agrees. Returns 0, or -1 when a column does not fit in `num_values`.
SAKURA_EXPORT int32_t sakura_dequantize(const int16_t* index, int32_t num_values, const int32_t* offset, const uint8_t* width,
                                        const float* step, const float* shrink, int32_t num_columns, float* out) {
  for (int32_t c = 0; c < num_columns; ++c) {
    if (offset[c] < 0 || offset[c] > num_values - width[c]) return -1;
    dequantize_column(index + offset[c], width[c], step[c], shrink + 2 * c, out + offset[c]);
  }
  return 0;
}
