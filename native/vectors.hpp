// Float vectors of eight, by the compilers' vector extension: one text for every instruction set.
#pragma once

#include "layer.hpp"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace {

typedef float F8 __attribute__((vector_size(32)));
typedef int32_t I8 __attribute__((vector_size(32)));
typedef uint32_t U8 __attribute__((vector_size(32)));
typedef int16_t H8 __attribute__((vector_size(16)));
typedef double D4 __attribute__((vector_size(32)));
typedef int64_t L4 __attribute__((vector_size(32)));
typedef float F4 __attribute__((vector_size(16)));

constexpr int kFloats = 8;

template <class V, class T>
SAKURA_INLINE V load_vector(const T* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

template <class V, class T>
SAKURA_INLINE void store_vector(T* p, const V& v) {
  __builtin_memcpy(p, &v, sizeof v);
}

SAKURA_INLINE F8 spread(float x) { return F8{x, x, x, x, x, x, x, x}; }

SAKURA_INLINE F8 magnitude(F8 x) { return reinterpret_cast<F8>(reinterpret_cast<I8>(x) & 0x7fffffff); }

// a where the mask is set, else b.
SAKURA_INLINE F8 choose(I8 mask, F8 a, F8 b) { return mask ? a : b; }

SAKURA_INLINE bool all_set(I8 mask) {
  const L4 parts = reinterpret_cast<L4>(mask);
  return ((parts[0] & parts[1]) & (parts[2] & parts[3])) == -1;
}

SAKURA_INLINE double total(F8 x) {
  const F4 low = __builtin_shufflevector(x, x, 0, 1, 2, 3), high = __builtin_shufflevector(x, x, 4, 5, 6, 7);
  const D4 both = __builtin_convertvector(low, D4) + __builtin_convertvector(high, D4);
  return (both[0] + both[1]) + (both[2] + both[3]);
}

// Conversions that compilers do value by value unless told how.
#if defined(__AVX2__)
SAKURA_INLINE F8 floats_of(const int16_t* p) {
  const __m128i q = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return reinterpret_cast<F8>(_mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(q)));
}
SAKURA_INLINE I8 integers_of(F8 x) { return reinterpret_cast<I8>(_mm256_cvttps_epi32(reinterpret_cast<__m256>(x))); }
// Values that fit in 16 bits, with or without a sign.
SAKURA_INLINE H8 narrow(I8 x) {
  const __m256i v = reinterpret_cast<__m256i>(x), places = _mm256_set1_epi64x(0x0d0c090805040100);
  const __m256i halves = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(v, places), 0x08);
  return reinterpret_cast<H8>(_mm256_castsi256_si128(halves));
}
#else
SAKURA_INLINE F8 floats_of(const int16_t* p) { return __builtin_convertvector(load_vector<H8>(p), F8); }
SAKURA_INLINE I8 integers_of(F8 x) { return __builtin_convertvector(x, I8); }
SAKURA_INLINE H8 narrow(I8 x) { return __builtin_convertvector(x, H8); }
#endif

SAKURA_INLINE F8 low_pairs(F8 a, F8 b) { return __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13); }
SAKURA_INLINE F8 high_pairs(F8 a, F8 b) { return __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15); }
SAKURA_INLINE F8 first_quads(F8 a, F8 b) { return __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13); }
SAKURA_INLINE F8 second_quads(F8 a, F8 b) { return __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15); }
SAKURA_INLINE F8 low_halves(F8 a, F8 b) { return __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11); }
SAKURA_INLINE F8 high_halves(F8 a, F8 b) { return __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15); }

// Rows to columns.
SAKURA_INLINE void transpose(F8 (&m)[kFloats]) {
  F8 pairs[kFloats], quads[kFloats];
  for (int i = 0; i < kFloats; i += 2) {
    pairs[i] = low_pairs(m[i], m[i + 1]);
    pairs[i + 1] = high_pairs(m[i], m[i + 1]);
  }
  for (int i = 0; i < kFloats; i += 4) {
    quads[i] = first_quads(pairs[i], pairs[i + 2]);
    quads[i + 1] = second_quads(pairs[i], pairs[i + 2]);
    quads[i + 2] = first_quads(pairs[i + 1], pairs[i + 3]);
    quads[i + 3] = second_quads(pairs[i + 1], pairs[i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    m[i] = low_halves(quads[i], quads[4 + i]);
    m[4 + i] = high_halves(quads[i], quads[4 + i]);
  }
}

// Shrinks of a column, ready for vectors: 0 for size 0, then one for size 1, one for the rest.
SAKURA_INLINE F8 pull_of(F8 size, float pull1, float pull2) {
  const F8 small = reinterpret_cast<F8>((size > 0.5f) & reinterpret_cast<I8>(spread(pull1)));
  return choose(size > 1.5f, spread(pull2), small);
}

SAKURA_INLINE H8 bf16_of(F8 x) {
  const U8 bits = reinterpret_cast<U8>(x);
  return narrow(reinterpret_cast<I8>((bits + 0x7fff + (bits >> 16 & 1)) >> 16));
}

SAKURA_INLINE void store_row(F8 x, int count, float* out) {
  if (count >= kFloats) return store_vector(out, x);
  for (int j = 0; j < count; ++j) out[j] = x[j];
}

SAKURA_INLINE void store_row(F8 x, int count, uint16_t* out) {
  const H8 rounded = bf16_of(x);
  if (count >= kFloats) return store_vector(out, rounded);
  for (int j = 0; j < count; ++j) out[j] = static_cast<uint16_t>(rounded[j]);
}

}  // namespace
