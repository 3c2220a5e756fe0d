// The quantiser of quantize.hpp over vectors: the same indices, found with float32 products and checked against ties.
#pragma once

#include "encode.hpp"
#include "quantize.hpp"
#include "vectors.hpp"

namespace {

// Rounded to the nearest, for sizes below 2^22; beyond, not an integer the caller will keep.
SAKURA_INLINE F8 rounded(F8 x) {
  const F8 magic = spread(12582912.0f);  // 1.5 * 2^23
  return (x + magic) - magic;
}

template <class I>
struct VectorColumns {
  static SAKURA_INLINE void gather(const float* rows, int width, int num_coefs, int count, Column* columns) {
    const int whole = count == kSideBySide ? width / kFloats * kFloats : 0;
    for (int i = 0; i < whole; i += kFloats) {
      for (int j = 0; j < kSideBySide; j += kFloats) {
        F8 block[kFloats];
        for (int k = 0; k < kFloats; ++k) block[k] = load_vector<F8>(rows + static_cast<int64_t>(i + k) * num_coefs + j);
        transpose(block);
        for (int k = 0; k < kFloats; ++k) store_vector(columns[j + k].source + i, block[k]);
      }
    }
    gather_rows(rows, {whole, width}, num_coefs, count, columns);
  }

  static SAKURA_INLINE double energy(const Column& column, int padded) {
    D4 sum[2] = {};
    for (int i = 0; i < padded; i += 8) {
      for (int half = 0; half < 2; ++half) {
        const D4 x = __builtin_convertvector(load_vector<F4>(column.source + i + 4 * half), D4);
        sum[half] += x * x;
      }
    }
    const D4 both = sum[0] + sum[1];
    return (both[0] + both[1]) + (both[2] + both[3]);
  }

  // The quotient by float32 reciprocal is off by less than 2^-22 of itself. Where that could change the rounded index, and where the
  // quotient is too large for the trick, the column is divided in double precision.
  static SAKURA_INLINE void quantize(Column& column, int padded, double step) {
    const F8 reciprocal = spread(static_cast<float>(1.0 / step));
    I8 is_sure = reciprocal == reciprocal;
    for (int i = 0; i < padded; i += kFloats) {
      const F8 x = load_vector<F8>(column.source + i) * reciprocal, nearest = rounded(x), size = magnitude(x);
      is_sure &= (0.5f - magnitude(x - nearest) > size * 0x1p-22f + 0x1p-60f) & (size < 32000.0f);
      const I8 q = integers_of(nearest);
      store_vector(column.index + i, narrow(q));
      store_vector(column.size + i, narrow(q < 0 ? -q : q));
    }
    if (!all_set(is_sure)) quantize_column(column, padded, step);
  }

  static SAKURA_INLINE Left measure(const Column& column, int padded, int passes, int edge, const Scaling& by) {
    using V = typename I::V;
    const V edges = I::set16(edge);
    V beyond = I::set16(0);
    alignas(64) int16_t kept[kMaxWidth];
    for (int i = 0; i < padded; i += I::kLanes / 2) {
      const V fine = coarsen<I>(I::load(column.size + i), passes);
      beyond = I::add16(beyond, I::gt16(fine, edges));  // -1 for each
      I::store(kept + i, I::min16(fine, edges));
    }
    F8 sum = spread(0), other = spread(0);
    for (int i = 0; i < padded; i += 2 * kFloats) {
      const F8 a = floats_of(kept + i), b = floats_of(kept + i + kFloats);
      const F8 left = magnitude(load_vector<F8>(column.source + i)) - (a - pull_of(a, by.pull1, by.pull2)) * by.step;
      const F8 right = magnitude(load_vector<F8>(column.source + i + kFloats)) - (b - pull_of(b, by.pull1, by.pull2)) * by.step;
      sum += left * left;
      other += right * right;
    }
    Left found{total(sum + other), 0};
    if (I::any(beyond)) {
      alignas(64) int16_t counts[I::kLanes / 2];
      I::store(counts, beyond);
      for (const int16_t count : counts) found.clipped -= count;
    }
    return found;
  }
};

template <class I>
void quantize_shard_vector(const SakuraShard& shard, const float* coef, const SakuraSums& sums, int16_t* index) {
   quantize_shard_with<VectorColumns<I>>(shard, coef, sums, index);
}

}  // namespace
