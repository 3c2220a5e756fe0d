// Coefficients to finest indices, with the error that each layer leaves; and indices back to coefficients. Plain loops over columns
// of at most 64 values, which the compiler turns into vectors of whatever set this file is compiled for.
#pragma once

#include "symbols.hpp"

namespace {

constexpr int kUnstarted = 127;
constexpr int kClasses = 12;
constexpr int kMaxClass0 = 14;
constexpr int kNumClasses0 = 25;
constexpr int kMaxExtra = 4;
constexpr int kMaxLayers = 4;
constexpr int kLargest = 32767;  // beyond every edge
constexpr double kScale[] = {1.0 / 27, 1.0 / 9, 1.0 / 3, 1.0, 3.0, 9.0, 27.0, 81.0};  // 3^-3 .. 3^4

inline double scale_at(int exponent) { return kScale[exponent + kMaxLayers - 1]; }

inline int first_exponent(int class0) {
  const int e = class0 >= 0 ? class0 / 3 : -((2 - class0) / 3);
  return at_most(e, kMaxExtra);
}

inline bool is_valid_shard(const SakuraShard& shard) {
  if (shard.num_tiles < 0 || shard.num_tokens < 0 || shard.num_coefs < 0) return false;
  int64_t num_tokens = 0;
  for (int32_t tile = 0; tile < shard.num_tiles; ++tile) {
    if (shard.tile_width[tile] < 1 || shard.tile_width[tile] > kMaxWidth) return false;
    num_tokens += shard.tile_width[tile];
  }
  const int64_t num_values = 2 * num_tokens * shard.num_coefs;
  return num_tokens == shard.num_tokens && num_values <= 2147483647;
}

// Shrinks of |q| = 0, 1 and 2 or more, and the step.
struct Scaling {
  float step;
  float pull1;
  float pull2;
};

inline Scaling scaling_at(const SakuraShard& shard, double base_step, int class0, int exponent) {
  const int c = at_most(class0 - 3 * exponent, kClasses - 1), row = c < 0 ? 0 : c;
  return {static_cast<float>(base_step * scale_at(exponent)), shard.shrink[2 * row], shard.shrink[2 * row + 1]};
}

SAKURA_INLINE float value_of(int size, const Scaling& by) {
  const float pull = size == 0 ? 0.0f : size == 1 ? by.pull1 : by.pull2;
  return (static_cast<float>(size) - pull) * by.step;
}

// Rounded to the nearest, ties to even: adding 1.5 * 2^52 leaves no bits below the units.
SAKURA_INLINE double rounded(double x) {
  constexpr double kMagic = 6755399441055744.0;
  return (x + kMagic) - kMagic;
}

struct alignas(64) Column {
  float source[kMaxWidth];
  int16_t size[kMaxWidth];   // |q|
  int16_t index[kMaxWidth];  // q
};

SAKURA_INLINE void quantize_column(Column& column, int padded, double step) {
  for (int i = 0; i < padded; ++i) {
    double x = rounded(static_cast<double>(column.source[i]) / step);
    x = x > kLargest ? kLargest : x;
    x = x < -kLargest ? -kLargest : x;
    const int q = static_cast<int>(x);
    column.index[i] = static_cast<int16_t>(q);
    column.size[i] = static_cast<int16_t>(q < 0 ? -q : q);
  }
}

constexpr int kSums = 16;  // partial sums, so that a vector of them can be added to at once

SAKURA_INLINE double total(const float* partial) {
  double sum = 0;
  for (int i = 0; i < kSums; ++i) sum += static_cast<double>(partial[i]);
  return sum;
}

SAKURA_INLINE double energy_of(const Column& column, int padded) {
  double partial[kSums] = {};
  for (int i = 0; i < padded; i += kSums) {
    for (int j = 0; j < kSums; ++j) {
      const double x = static_cast<double>(column.source[i + j]);
      partial[j] += x * x;
    }
  }
  double sum = 0;
  for (int j = 0; j < kSums; ++j) sum += partial[j];
  return sum;
}

// Sum of squares of what a layer leaves, and how many values lie beyond its edge.
struct Left {
  double square;
  int64_t clipped;
};

SAKURA_INLINE Left measure_layer(const Column& column, int padded, int passes, int edge, const Scaling& by) {
  alignas(64) float partial[kSums] = {};
  alignas(64) int16_t beyond[kSums] = {};
  const Coarsening c = passes == 0 ? Coarsening{0, 65535, 0} : kCoarsening[passes];
  for (int i = 0; i < padded; i += kSums) {
    for (int j = 0; j < kSums; ++j) {
      const uint16_t size = static_cast<uint16_t>(column.size[i + j]), sum = static_cast<uint16_t>(size + c.half);
      const int fine = passes == 0 ? size : static_cast<int>(uint32_t{sum} * c.factor >> 16 >> c.shift);
      const int kept = at_most(fine, edge);
      const float magnitude = column.source[i + j] < 0 ? -column.source[i + j] : column.source[i + j];
      const float error = magnitude - value_of(kept, by);
      partial[j] += error * error;
      beyond[j] = static_cast<int16_t>(beyond[j] + (fine > edge));
    }
  }
  Left left{total(partial), 0};
  for (int j = 0; j < kSums; ++j) left.clipped += beyond[j];
  return left;
}

struct ColumnPlace {
  int tile_kv;
  int class0;
  double step;
};

inline void finish_column(const SakuraShard& shard, const SakuraSums& sums, const ColumnPlace& at, Column& column, int padded) {
  const int stride = 2 * shard.num_tiles, finest = 1 - sums.num_layers, first = first_exponent(at.class0);
  const double energy = energy_of(column, padded);
  sums.square[at.tile_kv] += energy;
  if (first < finest) {
    for (int16_t& q : column.index) q = 0;
  } else {
    quantize_column(column, padded, at.step * scale_at(finest));
  }
  for (int layer = 0; layer < sums.num_layers; ++layer) {
    double& square = sums.square[(1 + layer) * stride + at.tile_kv];
    const int edge = sums.edge[layer * kNumClasses0 + kMaxClass0 - at.class0];
    if (first < -layer || edge == 0) {
      square += energy;
      continue;
    }
    const Scaling by = scaling_at(shard, at.step, at.class0, -layer);
    const Left left = measure_layer(column, padded, -layer - finest, edge, by);
    square += left.square;
    sums.clipped[layer] += left.clipped;
  }
}

constexpr int kSideBySide = 16;  // coefficients whose columns are filled together: a cache line of a token

inline void gather(const float* rows, int width, int num_coefs, int count, Column* columns) {
  for (int i = 0; i < width; ++i) {
    const float* row = rows + static_cast<int64_t>(i) * num_coefs;
    for (int j = 0; j < count; ++j) columns[j].source[i] = row[j];
  }
}

// float32 (2, N, C) to int16 indices (2, C, N) at exponent 1 - num_layers, 0 where a column never starts. Adds to `sums`.
inline void quantize_shard(const SakuraShard& shard, const float* coef, const SakuraSums& sums, int16_t* index) {
  static_assert(sizeof(Column) % 64 == 0);
  Column columns[kSideBySide];
  const int num_coefs = shard.num_coefs;
  for (int tile = 0, start = 0; tile < shard.num_tiles; start += shard.tile_width[tile++]) {
    const int width = shard.tile_width[tile], padded = (width + kSums - 1) / kSums * kSums;
    for (Column& column : columns) {
      for (int i = width; i < padded; ++i) column.source[i] = 0;
    }
    for (int kv = 0; kv < 2; ++kv) {
      const int tile_kv = 2 * tile + kv;
      const float* rows = coef + (static_cast<int64_t>(kv) * shard.num_tokens + start) * num_coefs;
      for (int first = 0; first < num_coefs; first += kSideBySide) {
        const int count = at_most(num_coefs - first, kSideBySide);
        gather(rows + first, width, num_coefs, count, columns);
        for (int j = 0; j < count; ++j) {
          const int64_t id = static_cast<int64_t>(tile_kv) * num_coefs + first + j;
          finish_column(shard, sums, {tile_kv, shard.class0[id], shard.step[tile_kv]}, columns[j], padded);
          copy_values(columns[j].index, width, index + (static_cast<int64_t>(kv) * num_coefs + first + j) * shard.num_tokens + start);
        }
      }
    }
  }
}

}  // namespace
