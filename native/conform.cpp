// Runs every kernel of this machine against test vectors (tests/codec/vectors.py) and against the scalar kernel, each cut included.
//
// sakura_conform() needs nothing but memory, so that node can call it in a WebAssembly module; with SAKURA_CONFORM_MAIN the same
// checks become a program that reads a file.

#include "abi.h"

extern "C" {
int32_t sakura_num_kernels();
int32_t sakura_kernel_is_usable(int32_t number);
const char* sakura_kernel_name(int32_t number);
int64_t sakura_tables_size();
int32_t sakura_build_tables(const uint16_t* frequencies, void* tables);
int32_t sakura_decode_layer(int32_t, const void*, const SakuraLayer*, SakuraStream*, int16_t*);
int32_t sakura_quantize(int32_t, const SakuraShard*, const float*, const SakuraSums*, int16_t*);
int64_t sakura_encode_layer(int32_t, const void*, const SakuraLayer*, const int16_t*, int32_t, uint8_t*, int64_t);
int32_t sakura_dequantize(int32_t, const SakuraShard*, const int16_t*, void*, int32_t);
int64_t sakura_basis_size(int32_t, int32_t, int32_t);
int32_t sakura_prepare_basis(const float*, int32_t, int32_t, int32_t, uint8_t*);
int32_t sakura_reconstruct(int32_t, const SakuraShard*, const int16_t*, const SakuraOutput*);
}

namespace {

constexpr int64_t kRoom = 24 << 20;
alignas(64) uint8_t room[kRoom];

// Hands out pieces of the static room; a case begins afresh.
struct Arena {
  int64_t used = 0;
  template <class T>
  T* take(int64_t count) {
    T* place = reinterpret_cast<T*>(room + used);
    used = (used + count * static_cast<int64_t>(sizeof(T)) + 63) / 64 * 64;
    return used <= kRoom ? place : nullptr;
  }
};

struct Header {
  int32_t num_columns, num_values, num_runs, num_lanes, finest, num_bytes, num_tiles, num_tokens, num_coefs, num_layers, num_groups,
      rank, layer, reserved[3];
};

struct Cursor {
  const uint8_t* next;
  template <class T>
  const T* take(int64_t count) {
    const T* place = reinterpret_cast<const T*>(next);
    next += (count * static_cast<int64_t>(sizeof(T)) + 63) / 64 * 64;
    return place;
  }
};

struct Case {
  const Header* head;
  const void* tables;
  SakuraLayer layer;
  const int16_t *below, *after, *finest;
  const uint8_t* data;
  SakuraShard shard;
  const int16_t* edge;
  const float *coef, *basis;
};

Case read_case(Cursor& from, Arena& arena) {
  Case c{};
  c.head = from.take<Header>(1);
  const Header& h = *c.head;
  void* tables = arena.take<uint8_t>(sakura_tables_size());
  sakura_build_tables(from.take<uint16_t>(39 * 16), tables);
  c.tables = tables;
  c.layer = {from.take<int32_t>(h.num_columns), from.take<uint8_t>(h.num_columns),
             reinterpret_cast<const SakuraRun*>(from.take<int32_t>(5 * h.num_runs)), h.num_columns, h.num_runs, h.num_lanes, h.num_values};
  c.below = from.take<int16_t>(h.num_values);
  c.after = from.take<int16_t>(h.num_values);
  c.finest = from.take<int16_t>(h.num_values);
  c.data = from.take<uint8_t>(h.num_bytes);
  c.shard.tile_width = from.take<uint8_t>(h.num_tiles);
  c.shard.step = from.take<double>(2 * h.num_tiles);
  c.shard.class0 = from.take<int8_t>(2 * h.num_tiles * h.num_coefs);
  c.shard.exponent = from.take<int8_t>(2 * h.num_tiles * h.num_coefs);
  c.shard.shrink = from.take<float>(24);
  c.shard.num_tiles = h.num_tiles;
  c.shard.num_tokens = h.num_tokens;
  c.shard.num_coefs = h.num_coefs;
  c.edge = from.take<int16_t>(25 * h.num_layers);
  c.coef = from.take<float>(h.num_values);
  c.basis = from.take<float>(2 * static_cast<int64_t>(h.num_coefs) * h.rank);
  return c;
}

template <class T>
bool is_same(const T* a, const T* b, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    if (a[i] != b[i]) return false;
  }
  return true;
}

// Decodes the first `size` bytes.
int32_t decode(int32_t kernel, const Case& c, int64_t size, int16_t* index, int32_t& is_clean) {
  for (int32_t i = 0; i < c.head->num_values; ++i) index[i] = c.below[i];
  SakuraStream stream{c.data, size, 0};
  const int32_t num_units = sakura_decode_layer(kernel, c.tables, &c.layer, &stream, index);
  is_clean = stream.is_clean;
  return num_units;
}

bool check_decode(int32_t kernel, const Case& c, Arena arena) {
  int16_t *index = arena.take<int16_t>(c.head->num_values), *other = arena.take<int16_t>(c.head->num_values);
  int32_t is_clean = 0, is_other_clean = 0;
  decode(kernel, c, c.head->num_bytes, index, is_clean);
  if (!is_clean || !is_same(index, c.after, c.head->num_values)) return false;
  const int64_t stride = c.head->num_bytes > 4000 ? c.head->num_bytes / 400 : 1;
  for (int64_t size = 0; size <= c.head->num_bytes; size += stride) {
    const int32_t ours = decode(kernel, c, size, index, is_clean), theirs = decode(0, c, size, other, is_other_clean);
    if (ours != theirs || is_clean != is_other_clean || !is_same(index, other, c.head->num_values)) return false;
  }
  return true;
}

bool check_encode(int32_t kernel, const Case& c, Arena arena) {
  const int64_t capacity = 9 * int64_t{c.head->num_values} + 2 * 64 + 8;
  uint8_t* out = arena.take<uint8_t>(capacity);
  const int64_t size = sakura_encode_layer(kernel, c.tables, &c.layer, c.finest, c.head->finest, out, capacity);
  return size == c.head->num_bytes && is_same(out + capacity - size, c.data, size);
}

bool check_quantize(int32_t kernel, const Case& c, Arena arena) {
  const int32_t num_sums = (1 + c.head->num_layers) * c.head->num_tiles * 2;
  double* square = arena.take<double>(num_sums);
  int64_t* clipped = arena.take<int64_t>(c.head->num_layers);
  for (int32_t i = 0; i < num_sums; ++i) square[i] = 0;
  for (int32_t i = 0; i < c.head->num_layers; ++i) clipped[i] = 0;
  int16_t* index = arena.take<int16_t>(c.head->num_values);
  const SakuraSums sums{square, clipped, c.edge, c.head->num_layers};
  return sakura_quantize(kernel, &c.shard, c.coef, &sums, index) == 0 && is_same(index, c.finest, c.head->num_values);
}

bool check_dequantize(int32_t kernel, const Case& c, Arena arena) {
  uint32_t *ours = arena.take<uint32_t>(c.head->num_values), *theirs = arena.take<uint32_t>(c.head->num_values);
  sakura_dequantize(kernel, &c.shard, c.after, ours, 0);
  sakura_dequantize(0, &c.shard, c.after, theirs, 0);
  if (!is_same(ours, theirs, c.head->num_values)) return false;
  sakura_dequantize(kernel, &c.shard, c.after, ours, 1);
  sakura_dequantize(0, &c.shard, c.after, theirs, 1);
  return is_same(reinterpret_cast<uint16_t*>(ours), reinterpret_cast<uint16_t*>(theirs), c.head->num_values);
}

float float_of(uint16_t bits) {
  const uint32_t wide = uint32_t{bits} << 16;
  float value;
  __builtin_memcpy(&value, &wide, 4);
  return value;
}

// float32 to one part in 10^5 of the energy; bfloat16 to that of its rounding, 48 dB and more.
bool check_reconstruct(int32_t kernel, const Case& c, Arena arena) {
  const Header& h = *c.head;
  const int32_t width = h.num_coefs / h.num_groups;
  uint8_t* basis = arena.take<uint8_t>(sakura_basis_size(h.num_groups, width, h.rank));
  sakura_prepare_basis(c.basis, h.num_groups, width, h.rank, basis);
  float *exact = arena.take<float>(h.num_values), *ours = arena.take<float>(h.num_values);
  uint16_t* rounded = arena.take<uint16_t>(h.num_values);
  SakuraOutput output{basis, nullptr, exact, h.num_groups, h.rank, 0};
  sakura_reconstruct(0, &c.shard, c.after, &output);
  output.values = ours;
  sakura_reconstruct(kernel, &c.shard, c.after, &output);
  output.values = rounded;
  output.is_bf16 = 1;
  sakura_reconstruct(kernel, &c.shard, c.after, &output);
  double energy = 0, error = 0, rounding = 0;
  for (int32_t i = 0; i < h.num_values; ++i) {
    const double x = static_cast<double>(exact[i]), e = x - static_cast<double>(ours[i]), r = x - static_cast<double>(float_of(rounded[i]));
    energy += x * x;
    error += e * e;
    rounding += r * r;
  }
  return error <= 1e-10 * energy && rounding <= 1.6e-5 * energy;
}

}  // namespace

// 0, or 100 * kernel + 10 * (number of the check) + 1 of the first failure, or -1 when there is not enough room.
extern "C" __attribute__((visibility("default"))) int32_t sakura_conform(const uint8_t* file) {
  Cursor from{file};
  const int32_t num_cases = *from.take<int32_t>(1);
  for (int32_t i = 0; i < num_cases; ++i) {
    Arena arena;
    const Case c = read_case(from, arena);
    if (arena.used + 30 * int64_t{c.head->num_values} > kRoom) return -1;
    for (int32_t kernel = 0; kernel < sakura_num_kernels(); ++kernel) {
      if (!sakura_kernel_is_usable(kernel)) continue;
      bool (*const checks[])(int32_t, const Case&, Arena) = {check_decode, check_encode, check_quantize, check_dequantize,
                                                             check_reconstruct};
      for (int32_t n = 0; n < 5; ++n) {
        if (!checks[n](kernel, c, arena)) return 100 * kernel + 10 * n + 1;
      }
    }
  }
  return 0;
}

#if defined(SAKURA_CONFORM_MAIN)
// A program without a C library: reads the vectors from its input, writes the result, exits with 0 or 1.

namespace {

#if defined(__x86_64__)
int64_t call_system(int64_t number, int64_t a, int64_t b, int64_t c) {
  int64_t result;
  __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
  return result;
}
constexpr int64_t kRead = 0, kWrite = 1, kExit = 231;
#define SAKURA_ENTRY __attribute__((force_align_arg_pointer))
#else
int64_t call_system(int64_t number, int64_t a, int64_t b, int64_t c) {
  register int64_t x8 __asm__("x8") = number;
  register int64_t x0 __asm__("x0") = a;
  register int64_t x1 __asm__("x1") = b;
  register int64_t x2 __asm__("x2") = c;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
  return x0;
}
constexpr int64_t kRead = 63, kWrite = 64, kExit = 94;
#define SAKURA_ENTRY
#endif

alignas(64) uint8_t vectors[16 << 20];

void print(const char* text) {
  int64_t size = 0;
  while (text[size]) ++size;
  call_system(kWrite, 1, reinterpret_cast<int64_t>(text), size);
}

}  // namespace

extern "C" SAKURA_ENTRY void _start() {
  int64_t size = 0, got = 0;
  do {
    got = call_system(kRead, 0, reinterpret_cast<int64_t>(vectors + size), static_cast<int64_t>(sizeof vectors) - size);
    size += got > 0 ? got : 0;
  } while (got > 0);
  const int32_t failure = size > 0 ? sakura_conform(vectors) : 1;
  for (int32_t k = 0; k < sakura_num_kernels(); ++k) {
    if (!sakura_kernel_is_usable(k)) continue;
    print(sakura_kernel_name(k));
    print(" ");
  }
  char digits[] = "failed 0000\n";
  for (int32_t i = 10, rest = failure; i > 6; --i, rest /= 10) digits[i] = static_cast<char>('0' + rest % 10);
  print(failure == 0 ? "conform\n" : digits);
  call_system(kExit, failure != 0, 0, 0);
}
#endif

// Compilers may turn loops into these; there is no library to take them from.
extern "C" {
__attribute__((weak, used)) void* memcpy(void* to, const void* from, size_t size) {
  for (size_t i = 0; i < size; ++i) static_cast<volatile uint8_t*>(to)[i] = static_cast<const uint8_t*>(from)[i];
  return to;
}
__attribute__((weak, used)) void* memset(void* to, int value, size_t size) {
  for (size_t i = 0; i < size; ++i) static_cast<volatile uint8_t*>(to)[i] = static_cast<uint8_t>(value);
  return to;
}
}
