// Codec core of SAKURA: entropy coder, quantiser and reconstruction (docs/codec.md), bit-identical to src/sakura/codec/rans.py and
// quantize.py. This file holds the C interface, the scalar kernel and the choice of kernels.
//
// Freestanding C++20: no libc, no heap, no exceptions, so the same files become a Python-loadable .so, a WebAssembly module or an
// Android library. Whatever the bytes say, nothing outside the buffers is touched: a slot is eight bits into a table of 256
// entries, every unit is checked against the index array, every read against the stream.

#include "encode_scalar.hpp"
#include "kernel.hpp"
#include "dequantize.hpp"
#include "quantize.hpp"
#include "reconstruct.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

const SakuraKernel kSakuraScalar{"scalar", decode_layer_scalar, encode_layer_scalar, quantize_shard, dequantize_shard, reconstruct_shard<FloatMath>};

namespace {

constexpr int32_t kAbiVersion = 3;

struct Choice {
  const SakuraKernel* kernel;
  bool (*is_usable)();
};

bool always() { return true; }

#if defined(__x86_64__)

struct CpuFeatures {
  uint32_t leaf1_ecx = 0, leaf7_ebx = 0, leaf7_ecx = 0, saved = 0;

  CpuFeatures() {
    uint32_t eax, ebx, ecx, edx;
    if (__get_cpuid(1, &eax, &ebx, &ecx, &edx)) leaf1_ecx = ecx;
    if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) {
      leaf7_ebx = ebx;
      leaf7_ecx = ecx;
    }
    if (leaf1_ecx >> 27 & 1) __asm__("xgetbv" : "=a"(saved), "=d"(edx) : "c"(0));  // registers the system saves
  }
  bool has_sse4() const { return (leaf1_ecx >> 19 & 1) && (leaf1_ecx >> 9 & 1) && (leaf1_ecx >> 23 & 1); }
  bool has_avx2() const {
    const bool is_saved = (saved & 6) == 6, has_fma = leaf1_ecx >> 12 & 1;
    return has_sse4() && is_saved && has_fma && (leaf7_ebx >> 5 & 1) && (leaf7_ebx >> 8 & 1);
  }
  // F, DQ, BW, VL, VBMI, VBMI2 and VNNI: Ice Lake, Zen 4 and later.
  bool has_avx512() const {
    const uint32_t ebx = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31, ecx = 1u << 1 | 1u << 6 | 1u << 11;
    return has_avx2() && (saved & 0xe6) == 0xe6 && (leaf7_ebx & ebx) == ebx && (leaf7_ecx & ecx) == ecx;
  }
};

const Choice kChoices[] = {
    {&kSakuraScalar, always},
    {&kSakuraSse4, [] { return CpuFeatures().has_sse4(); }},
    {&kSakuraAvx2, [] { return CpuFeatures().has_avx2(); }},
    {&kSakuraAvx512, [] { return CpuFeatures().has_avx512(); }},
};

#elif defined(__aarch64__)
const Choice kChoices[] = {{&kSakuraScalar, always}, {&kSakuraNeon, always}};
#elif defined(__wasm_simd128__)
const Choice kChoices[] = {{&kSakuraScalar, always}, {&kSakuraWasm, always}};
#else
const Choice kChoices[] = {{&kSakuraScalar, always}};
#endif

constexpr int32_t kNumKernels = sizeof kChoices / sizeof kChoices[0];

const SakuraKernel* find_kernel(int32_t number) {
  return number >= 0 && number < kNumKernels ? kChoices[number].kernel : nullptr;
}

}  // namespace

SAKURA_EXPORT int32_t sakura_abi_version() { return kAbiVersion; }

// Kernels are numbered from the slowest to the fastest; 0 is always usable.
SAKURA_EXPORT int32_t sakura_num_kernels() { return kNumKernels; }

SAKURA_EXPORT const char* sakura_kernel_name(int32_t number) {
  const SakuraKernel* kernel = find_kernel(number);
  return kernel ? kernel->name : nullptr;
}

SAKURA_EXPORT int32_t sakura_kernel_is_usable(int32_t number) { return find_kernel(number) && kChoices[number].is_usable(); }

SAKURA_EXPORT int64_t sakura_tables_size() { return sizeof(SakuraTables); }

// Prepares frequencies (39, 16) for the kernels. `tables` has sakura_tables_size() bytes and begins at a multiple of 64. Returns 0,
// or -1 when a table does not sum to 256 or has a gap.
SAKURA_EXPORT int32_t sakura_build_tables(const uint16_t* frequencies, SakuraTables* tables) {
  return build_tables(reinterpret_cast<const uint16_t(*)[kSymbols]>(frequencies), *tables) ? 0 : -1;
}

// Decodes whole units into `index` until the stream ends. Returns their number, or -1 for arguments that break the contract.
// `is_clean` becomes 1 when all units were decoded, all bytes used and all states are back at 256.
SAKURA_EXPORT int32_t sakura_decode_layer(int32_t kernel, const SakuraTables* tables, const SakuraLayer* layer, SakuraStream* stream,
                                          int16_t* index) {
  stream->is_clean = 0;
  if (!find_kernel(kernel) || stream->size < 0 || !is_valid_layer(*layer)) return -1;
  return find_kernel(kernel)->decode_layer(*tables, *layer, {stream->data, stream->size}, index, &stream->is_clean);
}

// Quantises float32 (2, N, C) at exponent 1 - num_layers to int16 (2, C, N), and sums up what each layer leaves. Returns 0 or -1.
SAKURA_EXPORT int32_t sakura_quantize(int32_t kernel, const SakuraShard* shard, const float* coef, const SakuraSums* sums,
                                      int16_t* index) {
  if (!find_kernel(kernel) || !is_valid_shard(*shard) || sums->num_layers < 1 || sums->num_layers > kMaxLayers) return -1;
  find_kernel(kernel)->quantize(*shard, coef, *sums, index);
  return 0;
}

// Encodes a layer from indices at exponent `finest`, backwards from the end of `out`. Returns the number of bytes, which then stand
// at the end of `out`, or -1 when `capacity` is below symbols + 2 * lanes + 8 or the plan breaks the contract.
SAKURA_EXPORT int64_t sakura_encode_layer(int32_t kernel, const SakuraTables* tables, const SakuraLayer* layer, const int16_t* index,
                                          int32_t finest, uint8_t* out, int64_t capacity) {
  if (!find_kernel(kernel) || !is_valid_layer(*layer) || layer->num_lanes < 1) return -1;
  if (capacity < count_values(*layer) + 2 * layer->num_lanes + kSlack) return -1;
  SakuraSink sink{out + capacity};
  return find_kernel(kernel)->encode_layer(*tables, *layer, {index, finest}, sink) ? out + capacity - sink.place : -1;
}

// Writes the coefficients (2, C, N) of every column: sign(q) (|q| - shrink) step, 0 for q = 0; the difference is exact in float32, so
// one rounding happens and every platform agrees. With `is_bf16` they are rounded once more, to the nearest bfloat16. Returns 0 or -1.
SAKURA_EXPORT int32_t sakura_dequantize(int32_t kernel, const SakuraShard* shard, const int16_t* index, void* out, int32_t is_bf16) {
  if (!find_kernel(kernel) || !is_valid_shard(*shard)) return -1;
  find_kernel(kernel)->dequantize(*shard, index, out, is_bf16 != 0);
  return 0;
}

// Bytes of a prepared basis with two halves of `width` channels a group, or -1 when there are more coefficients than the core takes.
SAKURA_EXPORT int64_t sakura_basis_size(int32_t num_groups, int32_t width, int32_t rank) {
  const bool is_fit = num_groups >= 1 && width >= 1 && rank >= 1 && rank <= kMaxRank && rank <= 2 * int64_t{width};
  return is_fit ? 2 * num_groups * BasisLayout(width, rank).num_bytes() : -1;
}

// Prepares the channel bases (num_groups, 2, width, rank) of a block. `out` has sakura_basis_size() bytes and begins at a multiple of 64.
SAKURA_EXPORT int32_t sakura_prepare_basis(const float* basis, int32_t num_groups, int32_t width, int32_t rank, uint8_t* out) {
  if (sakura_basis_size(num_groups, width, rank) < 0) return -1;
  const BasisLayout layout(width, rank);
  for (int64_t i = 0; i < 2 * num_groups; ++i) prepare_half(basis + i * width * rank, layout, out + i * layout.num_bytes());
  return 0;
}

// Writes K and V (2, N, H * D) of indices (2, H * D, N). Returns 0 or -1.
SAKURA_EXPORT int32_t sakura_reconstruct(int32_t kernel, const SakuraShard* shard, const int16_t* index, const SakuraOutput* output) {
  if (!find_kernel(kernel) || !is_valid_shard(*shard) || output->num_groups < 1 || shard->num_coefs % output->num_groups) return -1;
  if (sakura_basis_size(output->num_groups, shard->num_coefs / output->num_groups, output->rank) < 0) return -1;
  find_kernel(kernel)->reconstruct(*shard, index, *output);
  return 0;
}
