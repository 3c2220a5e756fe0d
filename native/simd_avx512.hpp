// 512-bit vectors of x86 (AVX-512 F, DQ, BW, VL, VBMI2, VNNI); see decode.hpp. Lookups and packs work in each quarter.
#pragma once

#include "simd_avx2.hpp"

namespace {

struct Avx512 {
  using V = __m512i;
  static constexpr int kLanes = 64;

  static SAKURA_INLINE V load(const void* p) { return _mm512_loadu_si512(p); }
  static SAKURA_INLINE void store(void* p, V v) { _mm512_storeu_si512(p, v); }
  static SAKURA_INLINE V table(const void* p) { return _mm512_broadcast_i32x4(Sse4::load(p)); }
  static SAKURA_INLINE V set8(int b) { return _mm512_set1_epi8(static_cast<char>(b)); }
  static SAKURA_INLINE V set16(int w) { return _mm512_set1_epi16(static_cast<short>(w)); }
  static SAKURA_INLINE V or_(V a, V b) { return _mm512_or_si512(a, b); }
  static SAKURA_INLINE V and_(V a, V b) { return _mm512_and_si512(a, b); }
  static SAKURA_INLINE V andnot(V a, V b) { return _mm512_andnot_si512(a, b); }
  static SAKURA_INLINE V xor_(V a, V b) { return _mm512_xor_si512(a, b); }
  static SAKURA_INLINE V add8(V a, V b) { return _mm512_add_epi8(a, b); }
  static SAKURA_INLINE V sub8(V a, V b) { return _mm512_sub_epi8(a, b); }
  static SAKURA_INLINE V abs8(V a) { return _mm512_abs_epi8(a); }
  static SAKURA_INLINE V gt8(V a, V b) { return _mm512_movm_epi8(_mm512_cmpgt_epi8_mask(a, b)); }
  static SAKURA_INLINE V eq8(V a, V b) { return _mm512_movm_epi8(_mm512_cmpeq_epi8_mask(a, b)); }
  static SAKURA_INLINE V sel(V mask, V a, V b) { return _mm512_ternarylogic_epi32(mask, a, b, 0xca); }
  static SAKURA_INLINE V look(V rows, V i) { return _mm512_shuffle_epi8(rows, i); }
  static SAKURA_INLINE V add16(V a, V b) { return _mm512_add_epi16(a, b); }
  static SAKURA_INLINE V sub16(V a, V b) { return _mm512_sub_epi16(a, b); }
  static SAKURA_INLINE V mul16(V a, V b) { return _mm512_mullo_epi16(a, b); }
  static SAKURA_INLINE V mulhi16(V a, V b) { return _mm512_mulhi_epu16(a, b); }
  static SAKURA_INLINE V abs16(V a) { return _mm512_abs_epi16(a); }
  static SAKURA_INLINE V min16(V a, V b) { return _mm512_min_epi16(a, b); }
  static SAKURA_INLINE V gt16(V a, V b) { return _mm512_movm_epi16(_mm512_cmpgt_epi16_mask(a, b)); }
  static SAKURA_INLINE V eq16(V a, V b) { return _mm512_movm_epi16(_mm512_cmpeq_epi16_mask(a, b)); }
  static SAKURA_INLINE V sign16(V a) { return _mm512_srai_epi16(a, 15); }
  static SAKURA_INLINE V srl8(V a) { return _mm512_srli_epi16(a, 8); }
  static SAKURA_INLINE V sll8(V a) { return _mm512_slli_epi16(a, 8); }
  static SAKURA_INLINE V srl16(V a, int bits) { return _mm512_srl_epi16(a, _mm_cvtsi32_si128(bits)); }
  static SAKURA_INLINE V low8(V a) { return _mm512_and_si512(a, set16(255)); }
  static SAKURA_INLINE V join(V even, V odd) { return sel(set16(255), even, sll8(odd)); }
  static SAKURA_INLINE V pack16(V a, V b) {
    return _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), _mm512_packus_epi16(a, b));
  }
  static SAKURA_INLINE V widen(const uint8_t* p) { return _mm512_cvtepu8_epi16(Avx2::load(p)); }
  static SAKURA_INLINE bool any(V a) { return _mm512_test_epi32_mask(a, a) != 0; }
  static SAKURA_INLINE V first16(int count) { return load(first_lanes(count, 32)); }

  static SAKURA_INLINE V halves(__m256i low, __m256i high) { return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1); }
  static SAKURA_INLINE void split(const uint16_t* state, V& even, V& odd) {
    const V a = load(state), b = load(state + 32);
    even = halves(_mm512_cvtepi32_epi16(a), _mm512_cvtepi32_epi16(b));
    odd = halves(_mm512_cvtepi32_epi16(_mm512_srli_epi32(a, 16)), _mm512_cvtepi32_epi16(_mm512_srli_epi32(b, 16)));
  }
  static SAKURA_INLINE V zip(__m256i even, __m256i odd) {
    return _mm512_or_si512(_mm512_cvtepu16_epi32(even), _mm512_slli_epi32(_mm512_cvtepu16_epi32(odd), 16));
  }
  static SAKURA_INLINE void merge(V even, V odd, uint16_t* state) {
    store(state, zip(_mm512_castsi512_si256(even), _mm512_castsi512_si256(odd)));
    store(state + 32, zip(_mm512_extracti64x4_epi64(even, 1), _mm512_extracti64x4_epi64(odd, 1)));
  }

  static SAKURA_INLINE uint8_t* emit(V x, V chosen, uint8_t* end) {
    const __mmask32 mask = _mm512_movepi16_mask(chosen);
    const int count = __builtin_popcount(mask);
    const __m256i bytes = _mm512_cvtepi16_epi8(_mm512_maskz_compress_epi16(mask, x));
    _mm256_mask_storeu_epi8(end - count, _bzhi_u32(~0u, static_cast<uint32_t>(count)), bytes);
    return end - count;
  }

  // Dot products of pairs of 16-bit integers, for eight columns.
  using Sum = __m256i;
  using Row = __m256i;
  static SAKURA_INLINE Sum no_sum() { return _mm256_setzero_si256(); }
  static SAKURA_INLINE Row row(const int16_t* p) { return Avx2::load(p); }
  static SAKURA_INLINE void dot(Sum& sum, int32_t pair, Row row) { sum = _mm256_dpwssd_epi32(sum, _mm256_set1_epi32(pair), row); }
  static SAKURA_INLINE F8 floats(Sum sum) { return Avx2::floats(sum); }

  static SAKURA_INLINE V fill(V x, __mmask32 low, const uint8_t* next) {
    const V bytes = _mm512_maskz_expand_epi16(low, widen(next));
    return _mm512_or_si512(_mm512_mask_slli_epi16(x, low, x, 8), bytes);
  }
  template <int kBlocks>
  static SAKURA_INLINE const uint8_t* refill(V* even, V* odd, const uint8_t* next) {
    static_assert(kBlocks == 1);
    const V limit = set16(kStateLow);
    const __mmask32 low_even = _mm512_cmplt_epu16_mask(*even, limit), low_odd = _mm512_cmplt_epu16_mask(*odd, limit);
    const uint8_t* middle = next + __builtin_popcount(low_even);
    *even = fill(*even, low_even, next);
    *odd = fill(*odd, low_odd, middle);
    return middle + __builtin_popcount(low_odd);
  }
};

}  // namespace
