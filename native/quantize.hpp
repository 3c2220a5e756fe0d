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
    x = x < kLargest ? x : kLargest;  // also where x is not a number
    x = x > -kLargest ? x : -kLargest;
    const int q = static_cast<int>(x);
    column.index[i] = static_cast<int16_t>(q);
    column.size[i] = static_cast<int16_t>(q < 0 ? -q : q);
  }
}

constexpr int kPadding = 32;  // columns are treated in whole vectors of every kind
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

constexpr int kSideBySide = 16;  // coefficients whose columns are filled together: a cache line of a token

struct Range {
  int first;
  int last;
};

SAKURA_INLINE void gather_rows(const float* rows, Range tokens, int num_coefs, int count, Column* columns) {
  for (int i = tokens.first; i < tokens.last; ++i) {
    const float* row = rows + static_cast<int64_t>(i) * num_coefs;
    for (int j = 0; j < count; ++j) columns[j].source[i] = row[j];
  }
}

// One value after the other: what the vector kernels are tested against.
struct PlainColumns {
  static void gather(const float* rows, int width, int num_coefs, int count, Column* columns) {
    gather_rows(rows, {0, width}, num_coefs, count, columns);
  }
  static double energy(const Column& column, int padded) { return energy_of(column, padded); }
  static void quantize(Column& column, int padded, double step) { quantize_column(column, padded, step); }
  static Left measure(const Column& column, int padded, int passes, int edge, const Scaling& by) {
    return measure_layer(column, padded, passes, edge, by);
  }
};

template <class Columns>
SAKURA_INLINE void finish_column(const SakuraShard& shard, const SakuraSums& sums, const ColumnPlace& at, Column& column, int padded) {
  const int stride = 2 * shard.num_tiles, finest = 1 - sums.num_layers, first = first_exponent(at.class0);
  const double energy = Columns::energy(column, padded);
  sums.square[at.tile_kv] += energy;
  if (first < finest) {
    for (int16_t& q : column.index) q = 0;
  } else {
    Columns::quantize(column, padded, at.step * scale_at(finest));
  }
  for (int layer = 0; layer < sums.num_layers; ++layer) {
    double& square = sums.square[(1 + layer) * stride + at.tile_kv];
    const int edge = sums.edge[layer * kNumClasses0 + kMaxClass0 - at.class0];
    if (first < -layer || edge == 0) {
      square += energy;
      continue;
    }
    const Scaling by = scaling_at(shard, at.step, at.class0, -layer);
    const Left left = Columns::measure(column, padded, -layer - finest, edge, by);
    square += left.square;
    sums.clipped[layer] += left.clipped;
  }
}

// Rows and columns are far apart: ask early for those of the next coefficients.
SAKURA_INLINE void prefetch_next(const float* rows, const int16_t* columns, int width, const SakuraShard& shard) {
  const char* row = reinterpret_cast<const char*>(rows + kSideBySide);
  for (int i = 0; i < width; ++i) __builtin_prefetch(row + 4 * static_cast<int64_t>(i) * shard.num_coefs, 0, 2);
  const char* column = reinterpret_cast<const char*>(columns + static_cast<int64_t>(kSideBySide) * shard.num_tokens);
  for (int j = 0; j < kSideBySide; ++j) {
    __builtin_prefetch(column + 2 * static_cast<int64_t>(j) * shard.num_tokens, 1, 2);
    __builtin_prefetch(column + 2 * static_cast<int64_t>(j) * shard.num_tokens + 64, 1, 2);
  }
}

// float32 (2, N, C) to int16 indices (2, C, N) at exponent 1 - num_layers, 0 where a column never starts. Adds to `sums`.
template <class Columns>
SAKURA_INLINE void quantize_shard_with(const SakuraShard& shard, const float* coef, const SakuraSums& sums, int16_t* index) {
  static_assert(sizeof(Column) % 64 == 0);
  Column columns[kSideBySide];
  const int num_coefs = shard.num_coefs;
  for (int tile = 0, start = 0; tile < shard.num_tiles; start += shard.tile_width[tile++]) {
    const int width = shard.tile_width[tile], padded = (width + kPadding - 1) / kPadding * kPadding;
    for (Column& column : columns) {
      for (int i = width; i < padded; ++i) column.source[i] = 0;
    }
    for (int kv = 0; kv < 2; ++kv) {
      const int tile_kv = 2 * tile + kv;
      const float* rows = coef + (static_cast<int64_t>(kv) * shard.num_tokens + start) * num_coefs;
      for (int first = 0; first < num_coefs; first += kSideBySide) {
        const int count = at_most(num_coefs - first, kSideBySide);
        int16_t* out = index + (static_cast<int64_t>(kv) * num_coefs + first) * shard.num_tokens + start;
        prefetch_next(rows + first, out, width, shard);
        Columns::gather(rows + first, width, num_coefs, count, columns);
        for (int j = 0; j < count; ++j) {
          const int64_t id = static_cast<int64_t>(tile_kv) * num_coefs + first + j;
          finish_column<Columns>(shard, sums, {tile_kv, shard.class0[id], shard.step[tile_kv]}, columns[j], padded);
          copy_values(columns[j].index, width, out + static_cast<int64_t>(j) * shard.num_tokens);
        }
      }
    }
  }
}

inline void quantize_shard(const SakuraShard& shard, const float* coef, const SakuraSums& sums, int16_t* index) {
  quantize_shard_with<PlainColumns>(shard, coef, sums, index);
}

}  // namespace
