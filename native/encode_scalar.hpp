// The encoder, one value at a time: from the last value of the last unit to the first.
#pragma once

#include "scalar.hpp"
#include "symbols.hpp"

namespace {

inline void put_states(const uint16_t* state, int num_lanes, Sink& out) {
  for (int lane = num_lanes - 1; lane >= 0; --lane) {
    *--out.place = static_cast<uint8_t>(state[lane] >> 8);
    *--out.place = static_cast<uint8_t>(state[lane]);
  }
}

inline void encode_value(const Tables& tables, const Coded& coded, uint16_t& state, Sink& out) {
  const uint32_t f = tables.freq[coded.table][coded.symbol];
  uint32_t x = state;
  if (x >= f << 8) {
    *--out.place = static_cast<uint8_t>(x);
    x >>= 8;
  }
  state = static_cast<uint16_t>((x / f << 8) + tables.below[coded.table][coded.symbol] + x % f);
}

inline void encode_unit_scalar(const Tables& tables, const Step& step, const Unit& unit, int num_lanes, uint16_t* state,
                               Sink& out) {
  for (int start = (unit.width - 1) / num_lanes * num_lanes; start >= 0; start -= num_lanes) {
    const int active = at_most(unit.width - start, num_lanes);
    for (int parity = 1; parity >= 0; --parity) {
      for (int lane = (active - 1 - parity) / 2 * 2 + parity; lane >= 0 && active > parity; lane -= 2) {
        encode_value(tables, code_value(step, unit.values[start + lane]), state[lane], out);
      }
    }
  }
}

// Calls encode(step, unit) for every unit, last first. Returns false for a column outside the index array.
template <class Encode>
SAKURA_INLINE bool visit_backwards(const Tables& tables, const SakuraLayer& layer, const Source& from, const Encode& encode) {
  for (int32_t r = layer.num_runs - 1; r >= 0; --r) {
    const SakuraRun& run = layer.runs[r];
    const Step step = step_of(tables, run, from.finest);
    if (step.passes < 0 || step.passes >= kMaxPasses) return false;
    for (int32_t column = run.first + run.count - 1; column >= run.first; --column) {
      prefetch_column(layer, from.index, column - kAhead);
      if (!is_valid_column(layer, column)) return false;
      encode(step, Unit{const_cast<int16_t*>(from.index) + layer.offset[column], layer.width[column]});
    }
  }
  return true;
}

inline bool encode_layer_scalar(const Tables& tables, const SakuraLayer& layer, const Source& from, Sink& out) {
  uint16_t state[kMaxLanes];
  for (uint16_t& x : state) x = kStateLow;
  const bool is_valid = visit_backwards(tables, layer, from, [&](const Step& step, const Unit& unit) {
    encode_unit_scalar(tables, step, unit, layer.num_lanes, state, out);
  });
  put_states(state, layer.num_lanes, out);
  return is_valid;
}

}  // namespace
