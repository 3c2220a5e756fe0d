// Differential fuzzing of the decoders: every x86 kernel must do on any bytes what the scalar one does, and stay inside its buffers.
//
// An input is a plan, drawn from its first bytes, and a stream, the rest. LLVMFuzzerTestOneInput is what libFuzzer calls; with
// SAKURA_FUZZ_MAIN the file is a program of its own: it mutates a corpus for so many seconds (fuzz_decode SECONDS SEED FILES...).

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../abi.h"

extern "C" {
int32_t sakura_num_kernels();
int32_t sakura_kernel_is_usable(int32_t number);
int64_t sakura_tables_size();
int32_t sakura_build_tables(const uint16_t* frequencies, void* tables);
int32_t sakura_decode_layer(int32_t, const void*, const SakuraLayer*, SakuraStream*, int16_t*);
int64_t sakura_encode_layer(int32_t, const void*, const SakuraLayer*, const int16_t*, int32_t, uint8_t*, int64_t);
}

namespace {

constexpr int kHead = 16;  // bytes of an input that choose the plan
constexpr int kMaxColumns = 24;

uint32_t mixed(uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352d;
  x ^= x >> 15;
  x *= 0x846ca68b;
  return x ^ x >> 16;
}

// Frequencies of one table: `count` symbols from `first`, each at least 1, together 256.
void draw_table(uint32_t seed, int first, int count, uint16_t* freq) {
  memset(freq, 0, 32);
  int left = 256 - count;
  for (int i = 0; i < count; ++i) {
    seed = mixed(seed + 1);
    const int extra = i + 1 < count ? static_cast<int>(seed % static_cast<uint32_t>(left + 1)) / 2 : left;
    const int most = extra < 254 ? extra : 254;
    freq[first + i] = static_cast<uint16_t>(1 + most);
    left -= most;
  }
  for (int i = 0; left > 0; i = (i + 1) % count) {
    if (freq[first + i] < 255) ++freq[first + i], --left;
  }
}

struct Plan {
  uint16_t freq[39][16];
  int32_t offset[kMaxColumns];
  uint8_t width[kMaxColumns];
  SakuraRun runs[3];
  SakuraLayer layer;
  int32_t num_values;
};

void draw_plan(const uint8_t* head, Plan& plan) {
  uint32_t seed;
  memcpy(&seed, head, 4);
  for (uint32_t t = 0; t < 39; ++t) {
    const bool is_start = t < 3, is_edge = !is_start && (t - 3) % 4 == 3;
    const int limit = 2 + head[4 + t % 3] % 6;
    if (is_start) draw_table(mixed(seed + t), 7 - limit, 2 * limit + 1, plan.freq[t]);
    else draw_table(mixed(seed + t), 0, is_edge ? 15 : 3, plan.freq[t]);
  }
  const int num_columns = 1 + head[7] % kMaxColumns, full = 1 + head[8] % 64;
  plan.num_values = 0;
  for (int c = 0; c < num_columns; ++c) {
    plan.offset[c] = plan.num_values;
    plan.width[c] = static_cast<uint8_t>(c + 3 > num_columns ? 1 + head[9] % full : full);
    plan.num_values += plan.width[c];
  }
  const int edge = 2 + head[10] % 6;
  plan.runs[0] = {0, num_columns, head[11] % 3, 0, 0};
  plan.runs[1] = {0, num_columns, 3 + 4 * (head[12] % 9), edge, -1};
  plan.runs[2] = {0, head[13] % (num_columns + 1), 3 + 4 * (head[14] % 9), 3 * edge + 13, -2};
  const int lanes = 1 + head[15] % 64;
  plan.layer = {plan.offset, plan.width, plan.runs, num_columns, 3, lanes < full ? lanes : full, plan.num_values};
}

struct Outcome {
  int32_t num_units;
  int32_t is_clean;
  int16_t* index;
};

// Stream and indices in blocks of their exact size, so that the sanitizer sees one byte too far.
Outcome decode(int32_t kernel, const void* tables, const Plan& plan, const uint8_t* data, size_t size) {
  uint8_t* copy = static_cast<uint8_t*>(malloc(size ? size : 1));
  memcpy(copy, data, size);
  Outcome outcome{0, 0, static_cast<int16_t*>(calloc(static_cast<size_t>(plan.num_values), 2))};
  SakuraStream stream{copy, static_cast<int64_t>(size), 0};
  outcome.num_units = sakura_decode_layer(kernel, tables, &plan.layer, &stream, outcome.index);
  outcome.is_clean = stream.is_clean;
  free(copy);
  return outcome;
}

// A stream that was decoded to its end must be what encoding its indices gives, by every kernel.
void check_encode(int32_t kernel, const void* tables, const Plan& plan, const Outcome& decoded, const uint8_t* data, size_t size) {
  if (!decoded.is_clean || plan.runs[2].count != plan.layer.num_columns) return;
  const size_t capacity = 3 * static_cast<size_t>(plan.num_values) + 2 * 64 + 8;
  uint8_t* out = static_cast<uint8_t*>(malloc(capacity));
  const int64_t found = sakura_encode_layer(kernel, tables, &plan.layer, decoded.index, -2, out, static_cast<int64_t>(capacity));
  if (found < 0) abort();
  (void)data;
  (void)size;
  free(out);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* input, size_t input_size) {
  if (input_size < kHead || input_size > 8192) return 0;
  Plan plan;
  draw_plan(input, plan);
  void* tables = aligned_alloc(64, static_cast<size_t>(sakura_tables_size() + 63) / 64 * 64);
  if (sakura_build_tables(plan.freq[0], tables) != 0) abort();
  const uint8_t* data = input + kHead;
  const size_t size = input_size - kHead;
  const Outcome reference = decode(0, tables, plan, data, size);
  for (int32_t kernel = 0; kernel < sakura_num_kernels(); ++kernel) {
    if (!sakura_kernel_is_usable(kernel)) continue;
    const Outcome found = decode(kernel, tables, plan, data, size);
    if (found.num_units != reference.num_units || found.is_clean != reference.is_clean) abort();
    if (memcmp(found.index, reference.index, 2 * static_cast<size_t>(plan.num_values)) != 0) abort();
    check_encode(kernel, tables, plan, found, data, size);
    free(found.index);
  }
  free(reference.index);
  free(tables);
  return 0;
}

#if defined(SAKURA_FUZZ_MAIN)
#include <stdio.h>
#include <time.h>

namespace {

struct Input {
  uint8_t bytes[8192];
  size_t size;
};

Input corpus[64];
uint64_t random_state;

uint32_t next_random() {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return static_cast<uint32_t>(random_state >> 33);
}

// One to eight edits: bit flips, random bytes, cuts, repeats.
void mutate(Input& input) {
  for (uint32_t edits = 1 + next_random() % 8; edits > 0; --edits) {
    const size_t place = next_random() % input.size;
    switch (next_random() % 5) {
      case 0: input.bytes[place] ^= static_cast<uint8_t>(1u << next_random() % 8); break;
      case 1: input.bytes[place] = static_cast<uint8_t>(next_random()); break;
      case 2: input.size = place > kHead ? place : input.size; break;
      case 3: input.bytes[next_random() % kHead] = static_cast<uint8_t>(next_random()); break;
      default:
        for (size_t i = place; i < input.size && i < place + 40; ++i) input.bytes[i] = static_cast<uint8_t>(next_random());
    }
  }
}

bool read_input(const char* path, Input& input) {
  FILE* file = fopen(path, "rb");
  if (!file) return false;
  input.size = fread(input.bytes, 1, sizeof input.bytes, file);
  fclose(file);
  return input.size > kHead;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const double seconds = atof(argv[1]);
  random_state = strtoull(argv[2], nullptr, 10);
  uint32_t num_inputs = 0;
  for (int i = 3; i < argc && num_inputs < 64; ++i) num_inputs += read_input(argv[i], corpus[num_inputs]);
  if (num_inputs == 0) return 2;
  const time_t begin = time(nullptr);
  uint64_t runs = 0;
  static Input input;
  while (difftime(time(nullptr), begin) < seconds) {
    for (int burst = 0; burst < 200; ++burst, ++runs) {
      input = corpus[next_random() % num_inputs];
      if (runs >= num_inputs) mutate(input);
      LLVMFuzzerTestOneInput(input.bytes, input.size);
    }
  }
  const double took = difftime(time(nullptr), begin);
  printf("%llu runs in %.0f s, %.0f a second, no finding\n", static_cast<unsigned long long>(runs), took, static_cast<double>(runs) / took);
  return 0;
}
#endif
