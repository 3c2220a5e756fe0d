// The C interface of the SAKURA codec core (docs/codec.md): plain structs over caller-owned buffers, no global state.
//
// Every function that takes a kernel takes its number, 0 .. sakura_num_kernels() - 1; number 0 is the scalar one.
#pragma once

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define SAKURA_EXPORT extern "C" __declspec(dllexport)
#else
#define SAKURA_EXPORT extern "C" __attribute__((visibility("default")))
#endif

extern "C" {

// Units first .. first + count - 1 of the coding order, which one pass brings to one exponent with one table.
struct SakuraRun {
  int32_t first;
  int32_t count;
  int32_t table;     // 0..2 start tables; 3 + 4 * (class - 3) refinement of a class
  int32_t edge;      // |index| of the open bin before the pass, at least 2; a start ignores it
  int32_t exponent;  // step after the pass = base step * 3^exponent
};

// One layer: columns in coding order, and the runs that visit them. Values are int16 indices, `num_values` of them.
struct SakuraLayer {
  const int32_t* offset;
  const uint8_t* width;
  const SakuraRun* runs;
  int32_t num_columns;
  int32_t num_runs;
  int32_t num_lanes;
  int32_t num_values;
};

// The bytes of a layer or of a prefix of it, and whether decoding used them up exactly.
struct SakuraStream {
  const uint8_t* data;
  int64_t size;
  int32_t is_clean;
};

// One shard of two planes; `class0` and `exponent` are (num_tiles, 2, num_coefs).
struct SakuraShard {
  const uint8_t* tile_width;
  const double* step;      // (num_tiles, 2), base step
  const int8_t* class0;    // -10 .. 14
  const int8_t* exponent;  // where each column stands, 127 = nothing decoded; not used when encoding
  const float* shrink;     // (12, 2)
  int32_t num_tiles;
  int32_t num_tokens;
  int32_t num_coefs;
};

// What quantising gives besides indices, per (tile, K or V): sums of squares of the source, then of the error after each layer;
// and per layer the number of values beyond the edge.
struct SakuraSums {
  double* square;    // (1 + num_layers, num_tiles, 2)
  int64_t* clipped;  // (num_layers)
  const int16_t* edge;  // (num_layers, 25): edge after each layer, by class 14 .. -10; 0 = not started
  int32_t num_layers;
};

// The channel bases of one block, prepared by sakura_prepare_basis, and which part of the output to write.
struct SakuraOutput {
  const void* basis;
  const uint8_t* is_wanted;  // (num_tiles, num_groups): write this part; null = all
  void* values;              // (2, N, H * D), token-major
  int32_t num_groups;        // divides H * D
  int32_t rank;              // coefficients of a group, at most 2 * H * D / num_groups
  int32_t is_bf16;
};

}  // extern "C"
