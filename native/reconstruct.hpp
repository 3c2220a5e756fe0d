// Dequantiser and inverse channel transform in one: indices of a tile and a group to K and V of its tokens, token-major.
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

// One tile of one group. Its coefficients lie side by side in two planes, `half` of them in each.
struct Part {
  const int16_t* index[2];  // first value of the first coefficient in each plane
  const int8_t* exponent[2];
  const int8_t* class0[2];
  double step[2];
  int64_t column_stride;  // values from one coefficient to the next
  int half;
  int width;

  int plane(int e) const { return e >= half; }
  int place(int e) const { return e >= half ? e - half : e; }
  const int16_t* column(int e) const { return index[plane(e)] + place(e) * column_stride; }
};

// The columns that are not all zero, and their largest |q| * step.
struct Live {
  int16_t column[kMaxRank];
  int count;
  double largest;
};

SAKURA_INLINE int largest_size(const int16_t* index, int width) {
  int16_t largest = 0;
  for (int i = 0; i < width; ++i) {
    const int16_t size = index[i] < 0 ? static_cast<int16_t>(-index[i]) : index[i];
    largest = size > largest ? size : largest;
  }
  return largest;
}

inline void find_live(const Part& part, int rank, Live& live) {
  live.count = 0;
  live.largest = 0;
  for (int e = 0; e < rank; ++e) {
    const int exponent = part.exponent[part.plane(e)][part.place(e)];
    if (exponent < 1 - kMaxLayers || exponent > kMaxExtra) continue;
    const int16_t* index = part.column(e);
    const int size = part.width == kMaxWidth ? largest_size(index, kMaxWidth) : largest_size(index, part.width);
    if (size == 0) continue;
    const double reach = size * static_cast<double>(scale_at(exponent)) * part.step[part.plane(e)];
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
  const int plane = part.plane(e), place = part.place(e);
  const int16_t* index = sources.ragged(part.column(e), part.width);
  Scaling by = scaling_at(shard, part.step[plane], part.class0[plane][place], part.exponent[plane][place]);
  if (unit != 1) by.step = static_cast<float>(scale_at(part.exponent[plane][place]) * part.step[plane] * unit);
  for (int i = 0; i < kMaxWidth; i += kFloats) store_vector(to + i, values_of(index + i, by));
}

template <class T>
struct Target {
  T* out;              // first token of the part
  int64_t row_stride;  // values from one token to the next
  int width;           // channels
};

template <class T>
SAKURA_INLINE void store_pair(F8 low, F8 high, const Target<T>& to, int token, int d) {
  T* out = to.out + token * to.row_stride + d;
  store_row(low, to.width - d, out);
  if (to.width - d > kFloats) store_row(high, to.width - d - kFloats, out + kFloats);
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
    for (int d = 0; d < to.width; ++d) to.out[i * to.row_stride + d] = T{};
  }
}

// Calls multiply(rows, token, d) for groups of 4 or 1 tokens and a slice of channels. Slices outside: theirs of
// the basis stays in the first cache.
template <class Multiply>
SAKURA_INLINE void for_blocks(int width, int num_channels, const Multiply& multiply) {
  for (int d = 0; d < num_channels; d += kSlice) {
    int token = 0;
    for (; token + 4 <= width; token += 4) multiply(Rows<4>{}, token, d);
    for (; token < width; ++token) multiply(Rows<1>{}, token, d);
  }
}

// K and V of a part.
template <class T>
struct Targets {
  Target<T> half[2];
};

template <class T>
void reconstruct_floats(const SakuraShard& shard, const Part& part, const Live& live, const BasisView (&basis)[2], const Targets<T>& to) {
  alignas(64) float values[kMaxRank * kMaxWidth];
  Sources sources;
  for (int k = 0; k < live.count; ++k) dequantize_live(shard, part, live.column[k], sources, 1, values + k * kMaxWidth);
  for (int kv = 0; kv < 2; ++kv) {
    for_blocks(part.width, to.half[kv].width, [&](auto rows, int token, int d) SAKURA_LAMBDA {
      multiply_floats<rows.kCount>(values, live, basis[kv], token, d, to.half[kv]);
    });
  }
}

// Pairs of rows of which one is live, and the values of their columns as 16-bit integers, side by side.
struct Pairs {
  alignas(64) int16_t values[kMaxRank * kMaxWidth];
  int16_t pair[kMaxRank / 2];
  int count;
};

// Value = integer * `scale` * norm of its channel. The bound keeps 16 bits from overflowing, and the sum of count products 32: it is at
// most the norm of the values times that of a row of the basis, 1.
struct Fit {
  double unit;
  float scale;
};

inline Fit fit_integers(const Part& part, const Live& live) {
  const double room = 130000.0 / __builtin_sqrt(static_cast<double>(live.count)), bound = room < 32767 ? room : 32767;
  const double unit = bound / live.largest;
  return {unit, static_cast<float>(1 / (unit * static_cast<double>(kBasisUnit)))};
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
  const F8 low = load_vector<F8>(basis.norms + d) * scale, high = load_vector<F8>(basis.norms + d + kFloats) * scale;
  for (int m = 0; m < kRows; ++m) store_pair(I::floats(sum[m][0]) * low, I::floats(sum[m][1]) * high, to, token + m, d);
}

template <class I>
void reconstruct_integers(const SakuraShard& shard, const Part& part, const Live& live, const BasisView (&basis)[2],
                          const Targets<uint16_t>& to) {
  Pairs pairs;
  const Fit fit = fit_integers(part, live);
  pair_columns(shard, part, live, fit, pairs);
  for (int kv = 0; kv < 2; ++kv) {
    for_blocks(part.width, to.half[kv].width, [&](auto rows, int token, int d) SAKURA_LAMBDA {
      multiply_pairs<I, rows.kCount>(pairs, basis[kv], fit.scale, token, d, to.half[kv]);
    });
  }
}

struct FloatMath {
  template <class T>
  static void reconstruct(const SakuraShard& shard, const Part& part, const Live& live, const BasisView (&basis)[2],
                          const Targets<T>& to) {
    reconstruct_floats(shard, part, live, basis, to);
  }
};

template <class I>
struct DotMath {
  static void reconstruct(const SakuraShard& shard, const Part& part, const Live& live, const BasisView (&basis)[2],
                          const Targets<float>& to) {
    reconstruct_floats(shard, part, live, basis, to);
  }
  static void reconstruct(const SakuraShard& shard, const Part& part, const Live& live, const BasisView (&basis)[2],
                          const Targets<uint16_t>& to) {
    reconstruct_integers<I>(shard, part, live, basis, to);
  }
};

// The columns of one tile and group; `start` is the tile's first token.
inline Part part_of(const SakuraShard& shard, const int16_t* index, const SakuraOutput& output, int group, int tile, int64_t start) {
  const int64_t half = shard.num_coefs / output.num_groups, first = group * half;
  Part part{{}, {}, {}, {}, shard.num_tokens, static_cast<int>(half), shard.tile_width[tile]};
  for (int plane = 0; plane < 2; ++plane) {
    const int64_t tile_plane = 2 * static_cast<int64_t>(tile) + plane, map = tile_plane * shard.num_coefs + first;
    part.index[plane] = index + (plane * static_cast<int64_t>(shard.num_coefs) + first) * shard.num_tokens + start;
    part.exponent[plane] = shard.exponent + map;
    part.class0[plane] = shard.class0 + map;
    part.step[plane] = shard.step[tile_plane];
  }
  return part;
}

template <class Math, class T>
void reconstruct_group(const SakuraShard& shard, const int16_t* index, const SakuraOutput& output, int group) {
  const int width = shard.num_coefs / output.num_groups;
  const BasisLayout layout(width, output.rank);
  const BasisView basis[2] = {{output.basis, layout, 2 * int64_t{group}}, {output.basis, layout, 2 * int64_t{group} + 1}};
  const int64_t first = static_cast<int64_t>(group) * width, num_tokens = shard.num_tokens, row_stride = shard.num_coefs;
  int64_t start = 0;
  for (int tile = 0; tile < shard.num_tiles; start += shard.tile_width[tile++]) {
    if (output.is_wanted && !output.is_wanted[static_cast<int64_t>(tile) * output.num_groups + group]) continue;
    T* out = static_cast<T*>(output.values) + start * row_stride + first;
    const Targets<T> to{{{out, row_stride, width}, {out + num_tokens * row_stride, row_stride, width}}};
    const Part part = part_of(shard, index, output, group, tile, start);
    Live live;
    find_live(part, output.rank, live);
    if (live.count == 0) {
      for (const Target<T>& half : to.half) clear_part(part.width, half);
    } else {
      Math::reconstruct(shard, part, live, basis, to);
    }
  }
}

template <class Math>
void reconstruct_shard(const SakuraShard& shard, const int16_t* index, const SakuraOutput& output) {
  for (int group = 0; group < output.num_groups; ++group) {
    if (output.is_bf16) {
      reconstruct_group<Math, uint16_t>(shard, index, output, group);
    } else {
      reconstruct_group<Math, float>(shard, index, output, group);
    }
  }
}

}  // namespace
