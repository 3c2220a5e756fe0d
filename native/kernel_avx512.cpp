// placeholder
#include "encode_scalar.hpp"
#include "kernel.hpp"
#include "dequantize.hpp"
#include "quantize.hpp"
#include "reconstruct.hpp"
const SakuraKernel kSakuraAvx512{"avx512", decode_layer_scalar, encode_layer_scalar, quantize_shard, dequantize_shard, reconstruct_shard<FloatMath>};
