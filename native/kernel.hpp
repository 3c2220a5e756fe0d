// One kernel: the inner loops compiled for one instruction set. Each kernel_*.cpp is a separate object with its own compiler flags
// and shares no inline function with the others (anonymous namespaces), so none can end up in another's code.
#pragma once

#include "layer.hpp"

struct SakuraKernel {
  const char* name;
  int32_t (*decode_layer)(const SakuraTables&, const SakuraLayer&, SakuraBytes, int16_t* index, int32_t* is_clean);
  bool (*encode_layer)(const SakuraTables&, const SakuraLayer&, const SakuraSource&, SakuraSink&);
  void (*quantize)(const SakuraShard&, const float* coef, const SakuraSums&, int16_t* index);
  void (*dequantize)(const SakuraShard&, const int16_t* index, void* out, bool is_bf16);
  void (*reconstruct)(const SakuraShard&, const int16_t* index, const SakuraOutput&);
};

extern const SakuraKernel kSakuraScalar;
#if defined(__x86_64__) || defined(_M_X64)
extern const SakuraKernel kSakuraSse4;
extern const SakuraKernel kSakuraAvx2;
extern const SakuraKernel kSakuraAvx512;
#elif defined(__aarch64__)
extern const SakuraKernel kSakuraNeon;
#elif defined(__wasm_simd128__)
extern const SakuraKernel kSakuraWasm;
#endif
