// The channel bases of a block in the forms that reconstruct.hpp multiplies with.
#pragma once

#include "layer.hpp"

namespace {

constexpr int kSlice = 16;            // channels side by side
constexpr float kBasisUnit = 16384;  // 1.0 in the 16-bit form
constexpr int kMaxHeadDim = 256;  // what fits on the stack

// Layout of one (K or V, head), by slices of 16 channels d: a row of float32 U[h, d, e] for each coefficient e; then the same as 16-bit
// integers, pairs of rows side by side. A slice is contiguous, so that all of it fits in the first cache whatever its associativity.
struct BasisLayout {
  int head_dim;
  int num_slices;
  int num_pairs;

  explicit BasisLayout(int dim) : head_dim(dim), num_slices((dim + kSlice - 1) / kSlice), num_pairs((dim + 1) / 2) {}
  int64_t float_bytes() const { return int64_t{4} * num_slices * kSlice * head_dim; }
  int64_t row_at(int d, int e) const { return (static_cast<int64_t>(d / kSlice) * head_dim + e) * kSlice; }
  int64_t pair_at(int d, int pair) const { return (static_cast<int64_t>(d / kSlice) * num_pairs + pair) * 2 * kSlice; }
  int64_t num_bytes() const { return float_bytes() + int64_t{4} * num_slices * kSlice * num_pairs; }
};

struct BasisView {
  BasisLayout layout;
  const float* rows;
  const int16_t* pairs;

  BasisView(const void* blob, int head_dim, int64_t place) : layout(head_dim) {
    const uint8_t* head = static_cast<const uint8_t*>(blob) + place * layout.num_bytes();
    rows = reinterpret_cast<const float*>(head);
    pairs = reinterpret_cast<const int16_t*>(head + layout.float_bytes());
  }
};

inline void prepare_head(const float* basis, const BasisLayout& layout, uint8_t* to) {
  const int dim = layout.head_dim;
  float* rows = reinterpret_cast<float*>(to);
  int16_t* pairs = reinterpret_cast<int16_t*>(to + layout.float_bytes());
  for (int e = 0; e < 2 * layout.num_pairs; ++e) {
    for (int d = 0; d < layout.num_slices * kSlice; ++d) {
      const float u = d < dim && e < dim ? basis[static_cast<int64_t>(d) * dim + e] : 0.0f;
      const float scaled = u * kBasisUnit;
      const float rounded = scaled < 0 ? scaled - 0.5f : scaled + 0.5f;
      if (e < dim) rows[layout.row_at(d, e) + d % kSlice] = u;
      pairs[layout.pair_at(d, e / 2) + 2 * (d % kSlice) + e % 2] = static_cast<int16_t>(rounded);
    }
  }
}

}  // namespace
