// The 512-bit x86 kernel for Ice Lake, Zen 4 and later; compile with -mavx512{f,dq,bw,vl,vbmi,vbmi2,vnni} and the flags of AVX2.

#include "encode.hpp"
#include "kernel.hpp"
#include "quantize_vector.hpp"
#include "reconstruct.hpp"
#include "simd_avx512.hpp"

namespace {

int32_t decode_layer(const Tables& tables, const SakuraLayer& layer, Bytes from, int16_t* index, int32_t* is_clean) {
  if (layer.num_lanes < 8) return decode_layer_scalar(tables, layer, from, index, is_clean);
  if (layer.num_lanes <= 16) return decode_layer_vector<Sse4, 1>(tables, layer, from, index, is_clean);
  if (layer.num_lanes <= 32) return decode_layer_vector<Avx2, 1>(tables, layer, from, index, is_clean);
  return decode_layer_vector<Avx512, 1>(tables, layer, from, index, is_clean);
}

bool encode_layer(const Tables& tables, const SakuraLayer& layer, const SakuraSource& from, SakuraSink& out) {
  if (layer.num_lanes < 8) return encode_layer_scalar(tables, layer, from, out);
  if (layer.num_lanes <= 16) return encode_layer_vector<Sse4, 1>(tables, layer, from, out);
  if (layer.num_lanes <= 32) return encode_layer_vector<Avx2, 1>(tables, layer, from, out);
  return encode_layer_vector<Avx512, 1>(tables, layer, from, out);
}

}  // namespace

const SakuraKernel kSakuraAvx512{"avx512", decode_layer, encode_layer, quantize_shard_vector<Avx512>, dequantize_shard, reconstruct_shard<DotMath<Avx512>>};
