// The channel bases of a block in the forms that reconstruct.hpp multiplies with.
#pragma once

#include "layer.hpp"

namespace {

constexpr int kSlice = 16;           // channels side by side
constexpr float kBasisUnit = 16384;  // 1.0 in the 16-bit form
constexpr int kMaxRank = 256;        // what fits on the stack

// Layout of the K or the V channels of a group, by slices of 16 channels d: a row of float32 U[d, e] for each coefficient e; then 16-bit
// integers of U[d, e] / norm[d], pairs of rows side by side; then the norms, of U[d] over all e. A slice is contiguous, so that all
// of it fits in the first cache whatever its associativity.
struct BasisLayout {
  int width;  // channels
  int rank;   // coefficients
  int num_slices;
  int num_pairs;

  BasisLayout(int channels, int coefs)
      : width(channels), rank(coefs), num_slices((channels + kSlice - 1) / kSlice), num_pairs((coefs + 1) / 2) {}
  int64_t float_bytes() const { return int64_t{4} * num_slices * kSlice * rank; }
  int64_t pair_bytes() const { return int64_t{4} * num_slices * kSlice * num_pairs; }
  int64_t num_bytes() const { return float_bytes() + pair_bytes() + int64_t{4} * num_slices * kSlice; }
  int64_t row_at(int d, int e) const { return (static_cast<int64_t>(d / kSlice) * rank + e) * kSlice; }
  int64_t pair_at(int d, int pair) const { return (static_cast<int64_t>(d / kSlice) * num_pairs + pair) * 2 * kSlice; }
};

struct BasisView {
  BasisLayout layout;
  const float* rows;
  const int16_t* pairs;
  const float* norms;

  BasisView(const void* blob, const BasisLayout& like, int64_t place) : layout(like) {
    const uint8_t* head = static_cast<const uint8_t*>(blob) + place * layout.num_bytes();
    rows = reinterpret_cast<const float*>(head);
    pairs = reinterpret_cast<const int16_t*>(head + layout.float_bytes());
    norms = reinterpret_cast<const float*>(head + layout.float_bytes() + layout.pair_bytes());
  }
};

// One channel's row U[d] of `rank` values; null is a row of zeros.
inline void prepare_channel(const float* basis, const BasisLayout& layout, int d, uint8_t* to) {
  float* rows = reinterpret_cast<float*>(to);
  int16_t* pairs = reinterpret_cast<int16_t*>(to + layout.float_bytes());
  float* norms = reinterpret_cast<float*>(to + layout.float_bytes() + layout.pair_bytes());
  double square = 0;
  for (int e = 0; basis && e < layout.rank; ++e) square += static_cast<double>(basis[e]) * static_cast<double>(basis[e]);
  norms[d] = static_cast<float>(__builtin_sqrt(square));
  const float unit = norms[d] > 0 ? kBasisUnit / norms[d] : 0.0f;
  for (int e = 0; e < 2 * layout.num_pairs; ++e) {
    const float u = basis && e < layout.rank ? basis[e] : 0.0f, scaled = u * unit;
    if (e < layout.rank) rows[layout.row_at(d, e) + d % kSlice] = u;
    pairs[layout.pair_at(d, e / 2) + 2 * (d % kSlice) + e % 2] = static_cast<int16_t>(scaled < 0 ? scaled - 0.5f : scaled + 0.5f);
  }
}

// The (width, rank) half of a group's basis that makes K or V.
inline void prepare_half(const float* basis, const BasisLayout& layout, uint8_t* to) {
  for (int d = 0; d < layout.num_slices * kSlice; ++d) {
    prepare_channel(d < layout.width ? basis + static_cast<int64_t>(d) * layout.rank : nullptr, layout, d, to);
  }
}

}  // namespace
