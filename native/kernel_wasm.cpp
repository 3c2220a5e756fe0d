// The WebAssembly kernel; compile with -msimd128.

#include "encode.hpp"
#include "kernel.hpp"
#include "quantize_vector.hpp"
#include "reconstruct.hpp"
#include "simd_wasm.hpp"

namespace {

int32_t decode_layer(const Tables& tables, const SakuraLayer& layer, Bytes from, int16_t* index, int32_t* is_clean) {
  if (layer.num_lanes < 8) return decode_layer_scalar(tables, layer, from, index, is_clean);
  if (layer.num_lanes <= 16) return decode_layer_vector<Wasm, 1>(tables, layer, from, index, is_clean);
  if (layer.num_lanes <= 32) return decode_layer_vector<Wasm, 2>(tables, layer, from, index, is_clean);
  return decode_layer_vector<Wasm, 4>(tables, layer, from, index, is_clean);
}

bool encode_layer(const Tables& tables, const SakuraLayer& layer, const SakuraSource& from, SakuraSink& out) {
  if (layer.num_lanes < 8) return encode_layer_scalar(tables, layer, from, out);
  if (layer.num_lanes <= 16) return encode_layer_vector<Wasm, 1>(tables, layer, from, out);
  if (layer.num_lanes <= 32) return encode_layer_vector<Wasm, 2>(tables, layer, from, out);
  return encode_layer_vector<Wasm, 4>(tables, layer, from, out);
}

}  // namespace

const SakuraKernel kSakuraWasm{"wasm", decode_layer, encode_layer, quantize_shard_vector<Wasm>, dequantize_shard, reconstruct_shard<DotMath<Wasm>>};
