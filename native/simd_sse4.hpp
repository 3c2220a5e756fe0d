// 128-bit vectors of x86 (SSE4.1 and POPCNT); see decode.hpp.
#pragma once

#include <immintrin.h>

#include "expand.hpp"
#include "layer.hpp"
#include "vectors.hpp"

namespace {

struct Sse4 {
  using V = __m128i;
  static constexpr int kLanes = 16;

  static SAKURA_INLINE V load(const void* p) { return _mm_loadu_si128(static_cast<const V*>(p)); }
  static SAKURA_INLINE void store(void* p, V v) { _mm_storeu_si128(static_cast<V*>(p), v); }
  static SAKURA_INLINE V table(const void* p) { return load(p); }
  static SAKURA_INLINE V set8(int b) { return _mm_set1_epi8(static_cast<char>(b)); }
  static SAKURA_INLINE V set16(int w) { return _mm_set1_epi16(static_cast<short>(w)); }
  static SAKURA_INLINE V or_(V a, V b) { return _mm_or_si128(a, b); }
  static SAKURA_INLINE V and_(V a, V b) { return _mm_and_si128(a, b); }
  static SAKURA_INLINE V xor_(V a, V b) { return _mm_xor_si128(a, b); }
  static SAKURA_INLINE V add8(V a, V b) { return _mm_add_epi8(a, b); }
  static SAKURA_INLINE V sub8(V a, V b) { return _mm_sub_epi8(a, b); }
  static SAKURA_INLINE V abs8(V a) { return _mm_abs_epi8(a); }
  static SAKURA_INLINE V gt8(V a, V b) { return _mm_cmpgt_epi8(a, b); }
  static SAKURA_INLINE V eq8(V a, V b) { return _mm_cmpeq_epi8(a, b); }
  static SAKURA_INLINE V sel(V mask, V a, V b) { return _mm_blendv_epi8(b, a, mask); }
  static SAKURA_INLINE V look(V rows, V i) { return _mm_shuffle_epi8(rows, i); }
  static SAKURA_INLINE V add16(V a, V b) { return _mm_add_epi16(a, b); }
  static SAKURA_INLINE V sub16(V a, V b) { return _mm_sub_epi16(a, b); }
  static SAKURA_INLINE V mul16(V a, V b) { return _mm_mullo_epi16(a, b); }
  static SAKURA_INLINE V mulhi16(V a, V b) { return _mm_mulhi_epu16(a, b); }
  static SAKURA_INLINE V abs16(V a) { return _mm_abs_epi16(a); }
  static SAKURA_INLINE V min16(V a, V b) { return _mm_min_epi16(a, b); }
  static SAKURA_INLINE V gt16(V a, V b) { return _mm_cmpgt_epi16(a, b); }
  static SAKURA_INLINE V eq16(V a, V b) { return _mm_cmpeq_epi16(a, b); }
  static SAKURA_INLINE V sign16(V a) { return _mm_srai_epi16(a, 15); }
  static SAKURA_INLINE V srl8(V a) { return _mm_srli_epi16(a, 8); }
  static SAKURA_INLINE V sll8(V a) { return _mm_slli_epi16(a, 8); }
  static SAKURA_INLINE V srl16(V a, int bits) { return _mm_srl_epi16(a, _mm_cvtsi32_si128(bits)); }
  static SAKURA_INLINE V low8(V a) { return _mm_and_si128(a, set16(255)); }
  static SAKURA_INLINE V join(V even, V odd) { return _mm_or_si128(low8(even), sll8(odd)); }
  static SAKURA_INLINE V pack16(V a, V b) { return _mm_packus_epi16(a, b); }
  static SAKURA_INLINE V widen(const uint8_t* p) { return _mm_cvtepu8_epi16(_mm_loadl_epi64(reinterpret_cast<const V*>(p))); }
  static SAKURA_INLINE bool any(V a) { return _mm_movemask_epi8(a) != 0; }
  static SAKURA_INLINE V first16(int count) { return load(first_lanes(count, 8)); }

  // 16 states in natural order to even and odd lanes, and back.
  static SAKURA_INLINE void split(const uint16_t* state, V& even, V& odd) {
    const V a = load(state), b = load(state + 8), mask = _mm_set1_epi32(0xffff);
    even = _mm_packus_epi32(_mm_and_si128(a, mask), _mm_and_si128(b, mask));
    odd = _mm_packus_epi32(_mm_srli_epi32(a, 16), _mm_srli_epi32(b, 16));
  }
  static SAKURA_INLINE void merge(V even, V odd, uint16_t* state) {
    store(state, _mm_unpacklo_epi16(even, odd));
    store(state + 8, _mm_unpackhi_epi16(even, odd));
  }

  static SAKURA_INLINE V is_low(V x) { return _mm_cmpeq_epi16(srl8(x), _mm_setzero_si128()); }
  // Shifts low states up and fills in the next bytes, lane after lane.
  static SAKURA_INLINE V fill(V x, V low, uint32_t mask, const uint8_t* next) {
    const V bytes = _mm_shuffle_epi8(_mm_loadl_epi64(reinterpret_cast<const V*>(next)), load(kExpand.row[mask]));
    return _mm_or_si128(sel(low, sll8(x), x), bytes);
  }

  static SAKURA_INLINE V andnot(V a, V b) { return _mm_andnot_si128(a, b); }
  // Stores the low bytes of the lanes in the mask right before `end`; returns where they begin.
  static SAKURA_INLINE uint8_t* put(V x, uint32_t mask, uint8_t* end) {
    const V rows = _mm_loadl_epi64(reinterpret_cast<const V*>(kGather.row[mask]));
    _mm_storel_epi64(reinterpret_cast<V*>(end - 8), _mm_shuffle_epi8(x, rows));
    return end - __builtin_popcount(mask);
  }
  static SAKURA_INLINE uint8_t* emit(V x, V chosen, uint8_t* end) {
    return put(x, static_cast<uint32_t>(_mm_movemask_epi8(_mm_packs_epi16(chosen, _mm_setzero_si128()))), end);
  }

  // Dot products of pairs of 16-bit integers, for eight columns.
  struct Row {
    V low, high;
  };
  using Sum = Row;
  static SAKURA_INLINE Sum no_sum() { return {_mm_setzero_si128(), _mm_setzero_si128()}; }
  static SAKURA_INLINE Row row(const int16_t* p) { return {load(p), load(p + 8)}; }
  static SAKURA_INLINE void dot(Sum& sum, int32_t pair, const Row& row) {
    const V both = _mm_set1_epi32(pair);
    sum.low = _mm_add_epi32(sum.low, _mm_madd_epi16(both, row.low));
    sum.high = _mm_add_epi32(sum.high, _mm_madd_epi16(both, row.high));
  }
  static SAKURA_INLINE F8 floats(const Sum& sum) {
    const F4 low = reinterpret_cast<F4>(_mm_cvtepi32_ps(sum.low)), high = reinterpret_cast<F4>(_mm_cvtepi32_ps(sum.high));
    return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7);
  }

  template <int kBlocks>
  static SAKURA_INLINE const uint8_t* refill(V* even, V* odd, const uint8_t* next) {
    V* group[2 * kBlocks];
    for (int k = 0; k < kBlocks; ++k) {
      group[k] = even + k;
      group[kBlocks + k] = odd + k;
    }
#pragma GCC unroll 4
    for (int k = 0; k < kBlocks; ++k) {
      V &a = *group[2 * k], &b = *group[2 * k + 1];
      const V low_a = is_low(a), low_b = is_low(b);
      const uint32_t mask = static_cast<uint32_t>(_mm_movemask_epi8(_mm_packs_epi16(low_a, low_b)));
      const uint8_t* middle = next + __builtin_popcount(mask & 255);
      a = fill(a, low_a, mask & 255, next);
      b = fill(b, low_b, mask >> 8, middle);
      next += __builtin_popcount(mask);
    }
    return next;
  }
};

}  // namespace
