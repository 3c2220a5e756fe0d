// The channel bases of a block in the forms that reconstruct.hpp multiplies with.
#pragma once

#include "layer.hpp"

namespace {

constexpr int kRowFloats = 16;        // rows are padded to whole vectors
constexpr float kBasisUnit = 16384;  // 1.0 in the 16-bit form
constexpr int kMaxHeadDim = 256;  // what fits on the stack

// Layout of one (K or V, head): rows e of float32, U[h, d, e] at d; then, by pairs of rows, the same as 16-bit integers, side by side.
struct BasisLayout {
  int head_dim;
  int row;         // padded head_dim
  int num_pairs;

  explicit BasisLayout(int dim) : head_dim(dim), row((dim + kRowFloats - 1) / kRowFloats * kRowFloats), num_pairs((dim + 1) / 2) {}
  int64_t float_bytes() const { return int64_t{4} * head_dim * row; }
  int64_t num_bytes() const { return float_bytes() + int64_t{4} * num_pairs * row; }
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
    for (int d = 0; d < layout.row; ++d) {
      const float u = d < dim && e < dim ? basis[static_cast<int64_t>(d) * dim + e] : 0.0f;
      const float scaled = u * kBasisUnit;
      if (e < dim) rows[static_cast<int64_t>(e) * layout.row + d] = u;
      pairs[2 * (static_cast<int64_t>(e / 2) * layout.row + d) + e % 2] = static_cast<int16_t>(scaled < 0 ? scaled - 0.5f : scaled + 0.5f);
    }
  }
}

}  // namespace
