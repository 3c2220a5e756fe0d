// 128-bit vectors of WebAssembly (SIMD128); see decode.hpp.
#pragma once

#include <wasm_simd128.h>

#include "expand.hpp"
#include "layer.hpp"
#include "vectors.hpp"

namespace {

struct Wasm {
  using V = v128_t;
  static constexpr int kLanes = 16;

  static SAKURA_INLINE V load(const void* p) { return wasm_v128_load(p); }
  static SAKURA_INLINE void store(void* p, V v) { wasm_v128_store(p, v); }
  static SAKURA_INLINE V table(const void* p) { return load(p); }
  static SAKURA_INLINE V set8(int b) { return wasm_i8x16_splat(static_cast<int8_t>(b)); }
  static SAKURA_INLINE V set16(int w) { return wasm_i16x8_splat(static_cast<int16_t>(w)); }
  static SAKURA_INLINE V or_(V a, V b) { return wasm_v128_or(a, b); }
  static SAKURA_INLINE V and_(V a, V b) { return wasm_v128_and(a, b); }
  static SAKURA_INLINE V andnot(V a, V b) { return wasm_v128_andnot(b, a); }
  static SAKURA_INLINE V xor_(V a, V b) { return wasm_v128_xor(a, b); }
  static SAKURA_INLINE V add8(V a, V b) { return wasm_i8x16_add(a, b); }
  static SAKURA_INLINE V sub8(V a, V b) { return wasm_i8x16_sub(a, b); }
  static SAKURA_INLINE V abs8(V a) { return wasm_i8x16_abs(a); }
  static SAKURA_INLINE V gt8(V a, V b) { return wasm_i8x16_gt(a, b); }
  static SAKURA_INLINE V eq8(V a, V b) { return wasm_i8x16_eq(a, b); }
  static SAKURA_INLINE V sel(V mask, V a, V b) { return wasm_v128_bitselect(a, b, mask); }
  static SAKURA_INLINE V look(V rows, V i) { return wasm_i8x16_swizzle(rows, i); }
  static SAKURA_INLINE V add16(V a, V b) { return wasm_i16x8_add(a, b); }
  static SAKURA_INLINE V sub16(V a, V b) { return wasm_i16x8_sub(a, b); }
  static SAKURA_INLINE V mul16(V a, V b) { return wasm_i16x8_mul(a, b); }
  static SAKURA_INLINE V mulhi16(V a, V b) {
    const V low = wasm_u32x4_extmul_low_u16x8(a, b), high = wasm_u32x4_extmul_high_u16x8(a, b);
    return wasm_i16x8_shuffle(low, high, 1, 3, 5, 7, 9, 11, 13, 15);
  }
  static SAKURA_INLINE V abs16(V a) { return wasm_i16x8_abs(a); }
  static SAKURA_INLINE V min16(V a, V b) { return wasm_i16x8_min(a, b); }
  static SAKURA_INLINE V gt16(V a, V b) { return wasm_i16x8_gt(a, b); }
  static SAKURA_INLINE V eq16(V a, V b) { return wasm_i16x8_eq(a, b); }
  static SAKURA_INLINE V sign16(V a) { return wasm_i16x8_shr(a, 15); }
  static SAKURA_INLINE V srl8(V a) { return wasm_u16x8_shr(a, 8); }
  static SAKURA_INLINE V sll8(V a) { return wasm_i16x8_shl(a, 8); }
  static SAKURA_INLINE V srl16(V a, int bits) { return wasm_u16x8_shr(a, static_cast<uint32_t>(bits)); }
  static SAKURA_INLINE V low8(V a) { return wasm_v128_and(a, set16(255)); }
  static SAKURA_INLINE V join(V even, V odd) { return wasm_v128_or(low8(even), sll8(odd)); }
  static SAKURA_INLINE V pack16(V a, V b) { return wasm_u8x16_narrow_i16x8(a, b); }
  static SAKURA_INLINE V widen(const uint8_t* p) { return wasm_u16x8_load8x8(p); }
  static SAKURA_INLINE bool any(V a) { return wasm_v128_any_true(a); }
  static SAKURA_INLINE V first16(int count) { return load(first_lanes(count, 8)); }

  static SAKURA_INLINE void split(const uint16_t* state, V& even, V& odd) {
    const V a = load(state), b = load(state + 8);
    even = wasm_i16x8_shuffle(a, b, 0, 2, 4, 6, 8, 10, 12, 14);
    odd = wasm_i16x8_shuffle(a, b, 1, 3, 5, 7, 9, 11, 13, 15);
  }
  static SAKURA_INLINE void merge(V even, V odd, uint16_t* state) {
    store(state, wasm_i16x8_shuffle(even, odd, 0, 8, 1, 9, 2, 10, 3, 11));
    store(state + 8, wasm_i16x8_shuffle(even, odd, 4, 12, 5, 13, 6, 14, 7, 15));
  }

  static SAKURA_INLINE V is_low(V x) { return wasm_i16x8_eq(srl8(x), set16(0)); }
  static SAKURA_INLINE V fill(V x, V low, uint32_t mask, const uint8_t* next) {
    const V bytes = wasm_i8x16_swizzle(wasm_v128_load64_zero(next), load(kExpand.row[mask]));
    return wasm_v128_or(sel(low, sll8(x), x), bytes);
  }
  static SAKURA_INLINE uint8_t* emit(V x, V chosen, uint8_t* end) {
    const uint32_t mask = wasm_i16x8_bitmask(chosen);
    wasm_v128_store64_lane(end - 8, wasm_i8x16_swizzle(x, wasm_v128_load64_zero(kGather.row[mask])), 0);
    return end - __builtin_popcount(mask);
  }

  // Dot products of pairs of 16-bit integers, for eight columns.
  struct Row {
    V low, high;
  };
  using Sum = Row;
  static SAKURA_INLINE Sum no_sum() { return {set16(0), set16(0)}; }
  static SAKURA_INLINE Row row(const int16_t* p) { return {load(p), load(p + 8)}; }
  static SAKURA_INLINE void dot(Sum& sum, int32_t pair, const Row& row) {
    const V both = wasm_i32x4_splat(pair);
    sum.low = wasm_i32x4_add(sum.low, wasm_i32x4_dot_i16x8(both, row.low));
    sum.high = wasm_i32x4_add(sum.high, wasm_i32x4_dot_i16x8(both, row.high));
  }
  static SAKURA_INLINE F8 floats(const Sum& sum) {
    const F4 low = reinterpret_cast<F4>(wasm_f32x4_convert_i32x4(sum.low));
    const F4 high = reinterpret_cast<F4>(wasm_f32x4_convert_i32x4(sum.high));
    return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7);
  }

  template <int kBlocks>
  static SAKURA_INLINE const uint8_t* refill(V* even, V* odd, const uint8_t* next) {
#pragma GCC unroll 8
    for (int k = 0; k < 2 * kBlocks; ++k) {
      V& x = k < kBlocks ? even[k] : odd[k - kBlocks];
      const V low = is_low(x);
      const uint32_t mask = wasm_i16x8_bitmask(low);
      x = fill(x, low, mask, next);
      next += __builtin_popcount(mask);
    }
    return next;
  }
};

}  // namespace
