// 256-bit vectors of x86 (AVX2); see decode.hpp. Lookups and packs work in each half.
#pragma once

#include "simd_sse4.hpp"
#include "vectors.hpp"

namespace {

struct Avx2 {
  using V = __m256i;
  static constexpr int kLanes = 32;

  static SAKURA_INLINE V load(const void* p) { return _mm256_loadu_si256(static_cast<const V*>(p)); }
  static SAKURA_INLINE void store(void* p, V v) { _mm256_storeu_si256(static_cast<V*>(p), v); }
  static SAKURA_INLINE V table(const void* p) { return _mm256_broadcastsi128_si256(Sse4::load(p)); }
  static SAKURA_INLINE V set8(int b) { return _mm256_set1_epi8(static_cast<char>(b)); }
  static SAKURA_INLINE V set16(int w) { return _mm256_set1_epi16(static_cast<short>(w)); }
  static SAKURA_INLINE V or_(V a, V b) { return _mm256_or_si256(a, b); }
  static SAKURA_INLINE V and_(V a, V b) { return _mm256_and_si256(a, b); }
  static SAKURA_INLINE V xor_(V a, V b) { return _mm256_xor_si256(a, b); }
  static SAKURA_INLINE V add8(V a, V b) { return _mm256_add_epi8(a, b); }
  static SAKURA_INLINE V sub8(V a, V b) { return _mm256_sub_epi8(a, b); }
  static SAKURA_INLINE V abs8(V a) { return _mm256_abs_epi8(a); }
  static SAKURA_INLINE V gt8(V a, V b) { return _mm256_cmpgt_epi8(a, b); }
  static SAKURA_INLINE V eq8(V a, V b) { return _mm256_cmpeq_epi8(a, b); }
  static SAKURA_INLINE V sel(V mask, V a, V b) { return _mm256_blendv_epi8(b, a, mask); }
  static SAKURA_INLINE V look(V rows, V i) { return _mm256_shuffle_epi8(rows, i); }
  static SAKURA_INLINE V add16(V a, V b) { return _mm256_add_epi16(a, b); }
  static SAKURA_INLINE V sub16(V a, V b) { return _mm256_sub_epi16(a, b); }
  static SAKURA_INLINE V mul16(V a, V b) { return _mm256_mullo_epi16(a, b); }
  static SAKURA_INLINE V mulhi16(V a, V b) { return _mm256_mulhi_epu16(a, b); }
  static SAKURA_INLINE V abs16(V a) { return _mm256_abs_epi16(a); }
  static SAKURA_INLINE V min16(V a, V b) { return _mm256_min_epi16(a, b); }
  static SAKURA_INLINE V gt16(V a, V b) { return _mm256_cmpgt_epi16(a, b); }
  static SAKURA_INLINE V eq16(V a, V b) { return _mm256_cmpeq_epi16(a, b); }
  static SAKURA_INLINE V sign16(V a) { return _mm256_srai_epi16(a, 15); }
  static SAKURA_INLINE V srl8(V a) { return _mm256_srli_epi16(a, 8); }
  static SAKURA_INLINE V sll8(V a) { return _mm256_slli_epi16(a, 8); }
  static SAKURA_INLINE V srl16(V a, int bits) { return _mm256_srl_epi16(a, _mm_cvtsi32_si128(bits)); }
  static SAKURA_INLINE V low8(V a) { return _mm256_and_si256(a, set16(255)); }
  static SAKURA_INLINE V join(V even, V odd) { return _mm256_or_si256(low8(even), sll8(odd)); }
  static SAKURA_INLINE V pack16(V a, V b) { return _mm256_permute4x64_epi64(_mm256_packus_epi16(a, b), 0xd8); }
  static SAKURA_INLINE V widen(const uint8_t* p) { return _mm256_cvtepu8_epi16(Sse4::load(p)); }
  static SAKURA_INLINE bool any(V a) { return _mm256_movemask_epi8(a) != 0; }
  static SAKURA_INLINE V first16(int count) { return load(first_lanes(count, 16)); }

  static SAKURA_INLINE void split(const uint16_t* state, V& even, V& odd) {
    const V a = load(state), b = load(state + 16), mask = _mm256_set1_epi32(0xffff);
    even = _mm256_permute4x64_epi64(_mm256_packus_epi32(_mm256_and_si256(a, mask), _mm256_and_si256(b, mask)), 0xd8);
    odd = _mm256_permute4x64_epi64(_mm256_packus_epi32(_mm256_srli_epi32(a, 16), _mm256_srli_epi32(b, 16)), 0xd8);
  }
  static SAKURA_INLINE void merge(V even, V odd, uint16_t* state) {
    const V a = _mm256_permute4x64_epi64(even, 0xd8), b = _mm256_permute4x64_epi64(odd, 0xd8);
    store(state, _mm256_unpacklo_epi16(a, b));
    store(state + 16, _mm256_unpackhi_epi16(a, b));
  }

  static SAKURA_INLINE V is_low(V x) { return _mm256_cmpeq_epi16(srl8(x), _mm256_setzero_si256()); }
  static SAKURA_INLINE V pair(const void* low, const void* high) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(Sse4::load(low)), Sse4::load(high), 1);
  }
  static SAKURA_INLINE V fill(V x, V low, V bytes) { return _mm256_or_si256(sel(low, sll8(x), x), bytes); }
  static SAKURA_INLINE V spread(uint32_t low_mask, uint32_t high_mask, const uint8_t* low_next, const uint8_t* high_next) {
    return _mm256_shuffle_epi8(pair(low_next, high_next), pair(kExpand.row[low_mask], kExpand.row[high_mask]));
  }

  // Two vectors of states, which take bytes one after the other; the packed mask holds the low halves, then the high ones.
  static SAKURA_INLINE const uint8_t* refill_two(V& a, V& b, const uint8_t* next) {
    const V low_a = is_low(a), low_b = is_low(b);
    const uint32_t mask = static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_packs_epi16(low_a, low_b)));
    const uint32_t a0 = mask & 255, b0 = mask >> 8 & 255, a1 = mask >> 16 & 255, b1 = mask >> 24;
    const uint8_t* at_a1 = next + __builtin_popcount(a0);
    const uint8_t* at_b0 = next + __builtin_popcount(mask & 0xff00ff);
    const uint8_t* at_b1 = next + __builtin_popcount(mask & 0xffffff);
    a = fill(a, low_a, spread(a0, a1, next, at_a1));
    b = fill(b, low_b, spread(b0, b1, at_b0, at_b1));
    return next + __builtin_popcount(mask);
  }

  static SAKURA_INLINE V andnot(V a, V b) { return _mm256_andnot_si256(a, b); }
  static SAKURA_INLINE uint8_t* emit(V x, V chosen, uint8_t* end) {
    const uint32_t mask = static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_packs_epi16(chosen, chosen)));
    end = Sse4::put(_mm256_extracti128_si256(x, 1), mask >> 24, end);
    return Sse4::put(_mm256_castsi256_si128(x), mask & 255, end);
  }

  // Dot products of pairs of 16-bit integers, for eight columns.
  using Sum = V;
  using Row = V;
  static SAKURA_INLINE Sum no_sum() { return _mm256_setzero_si256(); }
  static SAKURA_INLINE Row row(const int16_t* p) { return load(p); }
  static SAKURA_INLINE void dot(Sum& sum, int32_t pair, Row row) {
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_set1_epi32(pair), row));
  }
  static SAKURA_INLINE F8 floats(Sum sum) { return reinterpret_cast<F8>(_mm256_cvtepi32_ps(sum)); }

  template <int kBlocks>
  static SAKURA_INLINE const uint8_t* refill(V* even, V* odd, const uint8_t* next) {
    static_assert(kBlocks == 1 || kBlocks == 2);
    if constexpr (kBlocks == 1) return refill_two(even[0], odd[0], next);
    next = refill_two(even[0], even[kBlocks - 1], next);
    return refill_two(odd[0], odd[kBlocks - 1], next);
  }
};

}  // namespace
