// Dequantiser and inverse channel transform in one: indices of a tile and a head to K or V of its tokens, token-major.
//
// Only columns with a value other than zero take part. float32 output is summed in float32; bfloat16 output, where the instruction
// set has 16-bit dot products, in 32-bit integers: values scaled to 16 bits a tile times a basis of 15 bits, some 40 dB below the
// rounding of the output.
#pragma once

#include "basis.hpp"
#include "dequantize.hpp"
#include "vectors.hpp"

#if defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace {

// Tokens whose sums are in registers together.
template <int kNumber>
struct Rows {
  static constexpr int kCount = kNumber;
};

#if defined(__aarch64__)
SAKURA_INLINE float32x4_t first_half(F8 x) { return reinterpret_cast<float32x4_t>(__builtin_shufflevector(x, x, 0, 1, 2, 3)); }
SAKURA_INLINE float32x4_t second_half(F8 x) { return reinterpret_cast<float32x4_t>(__builtin_shufflevector(x, x, 4, 5, 6, 7)); }
#endif

SAKURA_INLINE F8 fused(F8 a, F8 b, F8 c) {
#if defined(__aarch64__)
  const float32x4_t low = vfmaq_f32(first_half(c), first_half(a), first_half(b)), high = vfmaq_f32(second_half(c), second_half(a), second_half(b));
  return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7);
#elif defined(__FMA__)
  return reinterpret_cast<F8>(_mm256_fmadd_ps(reinterpret_cast<__m256>(a), reinterpret_cast<__m256>(b), reinterpret_cast<__m256>(c)));
#else
  return a * b + c;
#endif
}

// One tile of one head.
struct Part {
  const int16_t* index;     // first value of the first coefficient
  int64_t column_stride;    // values from one coefficient to the next
  const int8_t* exponent;   // by coefficient
  const int8_t* class0;
  double step;
  int width;
};

// The columns that are not all zero, and their largest |q| * 3^exponent.
struct Live {
  int16_t column[kMaxHeadDim];
  int count;
  float largest;
};

SAKURA_INLINE int largest_size(const int16_t* index, int width) {
  int16_t largest = 0;
  for (int i = 0; i < width; ++i) {
    const int16_t size = index[i] < 0 ? static_cast<int16_t>(-index[i]) : index[i];
    largest = size > largest ? size : largest;
  }
  return largest;
}

inline void find_live(const Part& part, int head_dim, Live& live) {
  live.count = 0;
  live.largest = 0;
  for (int e = 0; e < head_dim; ++e) {
    if (part.exponent[e] < 1 - kMaxLayers || part.exponent[e] > kMaxExtra) continue;
    const int16_t* index = part.index + e * part.column_stride;
    const int size = part.width == kMaxWidth ? largest_size(index, kMaxWidth) : largest_size(index, part.width);
    if (size == 0) continue;
    const float reach = static_cast<float>(size) * static_cast<float>(scale_at(part.exponent[e]));
    live.largest = reach > live.largest ? reach : live.largest;
    live.column[live.count++] = static_cast<int16_t>(e);
  }
}

// A column of fewer than 64 tokens, padded with zeros.
struct Sources {
  alignas(64) int16_t index[kMaxWidth];
  const int16_t* ragged(const int16_t* from, int width) {
    if (width == kMaxWidth) return from;
    copy_values(from, width, index);
    for (int i = width; i < kMaxWidth; ++i) index[i] = 0;
    return index;
  }
};

// Dequantised column e, times `unit`: 64 floats.
SAKURA_INLINE void dequantize_live(const SakuraShard& shard, const Part& part, int e, Sources& sources, double unit, float* to) {
  const int16_t* index = sources.ragged(part.index + e * part.column_stride, part.width);
  Scaling by = scaling_at(shard, part.step, part.class0[e], part.exponent[e]);
  if (unit != 0) by.step = static_cast<float>(scale_at(part.exponent[e]) * unit);
  for (int i = 0; i < kMaxWidth; i += kFloats) store_vector(to + i, values_of(index + i, by));
}

template <class T>
struct Target {
  T* out;              // first token of the part
  int64_t row_stride;  // values from one token to the next
  int head_dim;
};

template <class T>
SAKURA_INLINE void store_pair(F8 low, F8 high, const Target<T>& to, int token, int d) {
  T* out = to.out + token * to.row_stride + d;
  store_row(low, to.head_dim - d, out);
  if (to.head_dim - d > kFloats) store_row(high, to.head_dim - d - kFloats, out + kFloats);
}

template <int kRows, class T>
SAKURA_INLINE void multiply_floats(const float* values, const Live& live, const BasisView& basis, int token, int d,
                                   const Target<T>& to) {
  const float* slice = basis.rows + basis.layout.row_at(d, 0);
  F8 sum[kRows][2];
  for (int m = 0; m < kRows; ++m) sum[m][0] = sum[m][1] = spread(0);
  const float* value = values + token;
  for (int64_t k = 0; k < live.count; ++k, value += kMaxWidth) {
    const float* row = slice + live.column[k] * kSlice;
    const F8 low = load_vector<F8>(row), high = load_vector<F8>(row + kFloats);
#pragma GCC unroll 4
    for (int m = 0; m < kRows; ++m) {
      const F8 x = spread(value[m]);
      sum[m][0] = fused(x, low, sum[m][0]);
      sum[m][1] = fused(x, high, sum[m][1]);
    }
  }
  for (int m = 0; m < kRows; ++m) store_pair(sum[m][0], sum[m][1], to, token + m, d);
}

template <class T>
void clear_part(int width, const Target<T>& to) {
  for (int i = 0; i < width; ++i) {
    for (int d = 0; d < to.head_dim; ++d) to.out[i * to.row_stride + d] = T{};
  }
}

// Calls multiply(rows, token, d) for groups of 4 or 1 tokens and a slice of channels. Slices outside: theirs of
// the basis stays in the first cache.
template <class Multiply>
SAKURA_INLINE void for_blocks(int width, int head_dim, const Multiply& multiply) {
  for (int d = 0; d < head_dim; d += kSlice) {
    int token = 0;
    for (; token + 4 <= width; token += 4) multiply(Rows<4>{}, token, d);
    for (; token < width; ++token) multiply(Rows<1>{}, token, d);
  }
}

template <class T>
void reconstruct_floats(const SakuraShard& shard, const Part& part, const Live& live, const BasisView& basis, const Target<T>& to) {
  alignas(64) float values[kMaxHeadDim * kMaxWidth];
  Sources sources;
  for (int k = 0; k < live.count; ++k) dequantize_live(shard, part, live.column[k], sources, 0, values + k * kMaxWidth);
  for_blocks(part.width, to.head_dim, [&](auto rows, int token, int d) SAKURA_LAMBDA {
    multiply_floats<rows.kCount>(values, live, basis, token, d, to);
  });
}

// Pairs of rows of which one is live, and the values of their columns as 16-bit integers, side by side.
struct Pairs {
  alignas(64) int16_t values[kMaxHeadDim * kMaxWidth];
  int16_t pair[kMaxHeadDim / 2];
  int count;
};

// Value = integer * `scale`. The bound keeps 16 bits from overflowing, and the sum of count products 32: it is at most
// the norm of the values times that of a row of the basis, 1.
struct Fit {
  double unit;
  float scale;
};

inline Fit fit_integers(const Part& part, const Live& live) {
  const double room = 130000.0 / __builtin_sqrt(static_cast<double>(live.count)), bound = room < 32767 ? room : 32767;
  const double needed = static_cast<double>(live.largest) * 128, unit = 128 * (needed > bound ? bound / needed : 1.0);
  return {unit, static_cast<float>(part.step / (unit * static_cast<double>(kBasisUnit)))};
}

inline void pair_columns(const SakuraShard& shard, const Part& part, const Live& live, const Fit& fit, Pairs& pairs) {
  alignas(64) float value[kMaxWidth];
  Sources sources;
  pairs.count = 0;
  for (int k = 0; k < live.count; ++k) {
    const int e = live.column[k], pair = e / 2;
    if (pairs.count == 0 || pairs.pair[pairs.count - 1] != pair) {
      int16_t* fresh = pairs.values + 2 * kMaxWidth * pairs.count;
      for (int i = 0; i < 2 * kMaxWidth; ++i) fresh[i] = 0;
      pairs.pair[pairs.count++] = static_cast<int16_t>(pair);
    }
    int16_t* to = pairs.values + 2 * kMaxWidth * (pairs.count - 1) + e % 2;
    dequantize_live(shard, part, e, sources, fit.unit, value);
    for (int i = 0; i < kMaxWidth; ++i) to[2 * i] = static_cast<int16_t>(value[i] + (value[i] < 0 ? -0.5f : 0.5f));
  }
}

template <class I, int kRows>
SAKURA_INLINE void multiply_pairs(const Pairs& pairs, const BasisView& basis, float scale, int token, int d,
                                  const Target<uint16_t>& to) {
  const int16_t* slice = basis.pairs + basis.layout.pair_at(d, 0);
  typename I::Sum sum[kRows][2];
  for (int m = 0; m < kRows; ++m) sum[m][0] = sum[m][1] = I::no_sum();
  const int16_t* values = pairs.values + 2 * token;
  for (int64_t k = 0; k < pairs.count; ++k, values += 2 * kMaxWidth) {
    const int16_t* row = slice + pairs.pair[k] * 2 * kSlice;
    const typename I::Row low = I::row(row), high = I::row(row + 2 * kFloats);
#pragma GCC unroll 4
    for (int m = 0; m < kRows; ++m) {
      int32_t both;
      __builtin_memcpy(&both, values + 2 * m, 4);
      I::dot(sum[m][0], both, low);
      I::dot(sum[m][1], both, high);
    }
  }
  for (int m = 0; m < kRows; ++m) store_pair(I::floats(sum[m][0]) * scale, I::floats(sum[m][1]) * scale, to, token + m, d);
}

template <class I>
void reconstruct_integers(const SakuraShard& shard, const Part& part, const Live& live, const BasisView& basis,
                          const Target<uint16_t>& to) {
  Pairs pairs;
  const Fit fit = fit_integers(part, live);
  pair_columns(shard, part, live, fit, pairs);
  for_blocks(part.width, to.head_dim, [&](auto rows, int token, int d) SAKURA_LAMBDA {
    multiply_pairs<I, rows.kCount>(pairs, basis, fit.scale, token, d, to);
  });
}

struct FloatMath {
  template <class T>
  static void reconstruct(const SakuraShard& shard, const Part& part, const Live& live, const BasisView& basis, const Target<T>& to) {
    reconstruct_floats(shard, part, live, basis, to);
  }
};

template <class I>
struct DotMath {
  static void reconstruct(const SakuraShard& shard, const Part& part, const Live& live, const BasisView& basis,
                          const Target<float>& to) {
    reconstruct_floats(shard, part, live, basis, to);
  }
  static void reconstruct(const SakuraShard& shard, const Part& part, const Live& live, const BasisView& basis,
                          const Target<uint16_t>& to) {
    reconstruct_integers<I>(shard, part, live, basis, to);
  }
};

// Coefficients of one head lie side by side, so a part is a tile of it.
template <class Math, class T>
void reconstruct_head(const SakuraShard& shard, const int16_t* index, const SakuraOutput& output, int kv, int head) {
  const int dim = output.head_dim;
  const int64_t num_tokens = shard.num_tokens, num_heads = output.num_heads, first = static_cast<int64_t>(head) * dim;
  const BasisView basis(output.basis, dim, kv * num_heads + head);
  const int16_t* columns = index + (kv * static_cast<int64_t>(shard.num_coefs) + first) * num_tokens;
  int64_t start = 0;
  for (int tile = 0; tile < shard.num_tiles; start += shard.tile_width[tile++]) {
    const int64_t tile_kv = 2 * static_cast<int64_t>(tile) + kv, map = tile_kv * shard.num_coefs + first;
    if (output.is_wanted && !output.is_wanted[tile_kv * num_heads + head]) continue;
    const Target<T> to{static_cast<T*>(output.values) + (kv * num_tokens + start) * shard.num_coefs + first, shard.num_coefs, dim};
    const Part part{columns + start, num_tokens, shard.exponent + map, shard.class0 + map, shard.step[tile_kv], shard.tile_width[tile]};
    Live live;
    find_live(part, dim, live);
    if (live.count == 0) {
      clear_part(part.width, to);
    } else {
      Math::reconstruct(shard, part, live, basis, to);
    }
  }
}

template <class Math>
void reconstruct_shard(const SakuraShard& shard, const int16_t* index, const SakuraOutput& output) {
  for (int kv = 0; kv < 2; ++kv) {
    for (int head = 0; head < output.num_heads; ++head) {
      if (output.is_bf16) {
        reconstruct_head<Math, uint16_t>(shard, index, output, kv, head);
      } else {
        reconstruct_head<Math, float>(shard, index, output, kv, head);
      }
    }
  }
}

}  // namespace
