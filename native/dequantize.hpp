// Indices back to coefficients, column after column: the layout of the codec, tokens of a coefficient side by side.
#pragma once

#include "quantize.hpp"
#include "vectors.hpp"

namespace {

SAKURA_INLINE uint16_t to_bf16(float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, 4);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

SAKURA_INLINE void put_value(float value, float* out) { *out = value; }
SAKURA_INLINE void put_value(float value, uint16_t* out) { *out = to_bf16(value); }

// Size 0 is pulled by 0 and gives +0; the sign comes last, so that x * -step is the same float as -(x * step).
SAKURA_INLINE F8 values_of(const int16_t* index, const Scaling& by) {
  const F8 q = floats_of(index), size = magnitude(q);
  const F8 value = (size - pull_of(size, by.pull1, by.pull2)) * by.step;
  return q < 0 ? -value : value;
}

template <class T>
SAKURA_INLINE void dequantize_column(const int16_t* __restrict index, int width, const Scaling& by, T* __restrict out) {
  int i = 0;
#if defined(__AVX2__) || defined(__clang__)
  for (; i + kFloats <= width; i += kFloats) store_row(values_of(index + i, by), kFloats, out + i);
#endif
  for (; i < width; ++i) {
    const int q = index[i], size = q < 0 ? -q : q;
    const float pull = size >= 2 ? by.pull2 : size == 1 ? by.pull1 : 0.0f;
    put_value((static_cast<float>(size) - pull) * (q < 0 ? -by.step : by.step), out + i);
  }
}

template <class T>
SAKURA_INLINE void dequantize_to(const SakuraShard& shard, const int16_t* index, T* out) {
  for (int64_t row = 0; row < 2 * static_cast<int64_t>(shard.num_coefs); ++row) {
    const int kv = row >= shard.num_coefs;
    const int64_t coef = row - static_cast<int64_t>(kv) * shard.num_coefs;
    int64_t place = row * shard.num_tokens;
    for (int tile = 0; tile < shard.num_tiles; place += shard.tile_width[tile++]) {
      const int64_t id = (2 * static_cast<int64_t>(tile) + kv) * shard.num_coefs + coef;
      const int width = shard.tile_width[tile], exponent = shard.exponent[id];
      if (exponent < 1 - kMaxLayers || exponent > kMaxExtra) {
        for (int i = 0; i < width; ++i) out[place + i] = T{};
        continue;
      }
      const Scaling by = scaling_at(shard, shard.step[2 * tile + kv], shard.class0[id], exponent);
      if (width == kMaxWidth) {
        dequantize_column(index + place, kMaxWidth, by, out + place);
      } else {
        dequantize_column(index + place, width, by, out + place);
      }
    }
  }
}

inline void dequantize_shard(const SakuraShard& shard, const int16_t* index, void* out, bool is_bf16) {
  if (is_bf16) {
    dequantize_to(shard, index, static_cast<uint16_t*>(out));
  } else {
    dequantize_to(shard, index, static_cast<float*>(out));
  }
}

}  // namespace
