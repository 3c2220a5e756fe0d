// From the finest index of a value to its indices on coarser steps (docs/codec.md, section 4). Knows no bytes.
#pragma once

#include "layer.hpp"

namespace {

// floor((n + 3^p / 2) / 3^p) = (n + half) * factor >> 16 >> shift for every n up to 32767, tested for each; p = 0 leaves n alone.
struct Coarsening {
  uint16_t half;
  uint16_t factor;
  int shift;
};

constexpr int kMaxPasses = 8;
constexpr Coarsening kCoarsening[kMaxPasses + 1] = {{0, 0, 0},        {1, 43691, 1},    {4, 58255, 3},
                                                    {13, 38837, 4},   {40, 25891, 5},   {121, 17261, 6},
                                                    {364, 46029, 9},  {1093, 15343, 9}, {3280, 20457, 11}};

SAKURA_INLINE int coarser(int size, int passes) {
  const Coarsening& by = kCoarsening[passes];
  return passes == 0 ? size : static_cast<int>((static_cast<uint32_t>(size) + by.half) * by.factor >> 16 >> by.shift);
}

SAKURA_INLINE int at_most(int value, int limit) { return value < limit ? value : limit; }

// What one run codes: its table, how much coarser than the finest index it stands, and where the open bins begin.
struct Step {
  int table;
  int passes;  // from the finest index to the index after the unit
  int edge;    // before; ignored by a start
  int next_edge;
};

inline Step step_of(const Tables& tables, const SakuraRun& run, int finest) {
  const bool is_start = run.table < kStartTables;
  const int limit = is_start ? kMaxIndex - tables.start[run.table].lowest : 3 * run.edge + 13;
  return {run.table, run.exponent - finest, run.edge, limit};
}

// Symbol and table of one value.
struct Coded {
  int symbol;
  int table;
};

inline Coded code_value(const Step& step, int finest_index) {
  const int size = finest_index < 0 ? -finest_index : finest_index;
  const int fine = at_most(coarser(size, step.passes), step.next_edge);
  const int signed_fine = finest_index < 0 ? -fine : fine;
  if (step.table < kStartTables) return {signed_fine + kMaxIndex, step.table};
  const int coarse = at_most(coarser(size, step.passes + 1), step.edge);
  const int symbol = coarse == 0 ? signed_fine + 1 : fine - 3 * coarse + 1;
  return {symbol, step.table + at_most(coarse, 2) + (coarse == step.edge)};
}

}  // namespace
