// 128-bit vectors of ARM (NEON); see decode.hpp.
#pragma once

#include <arm_neon.h>

#include "expand.hpp"
#include "layer.hpp"
#include "vectors.hpp"

namespace {

struct Neon {
  using V = uint8x16_t;
  static constexpr int kLanes = 16;

  static SAKURA_INLINE uint16x8_t u16(V a) { return vreinterpretq_u16_u8(a); }
  static SAKURA_INLINE int16x8_t s16(V a) { return vreinterpretq_s16_u8(a); }
  static SAKURA_INLINE int8x16_t s8(V a) { return vreinterpretq_s8_u8(a); }
  static SAKURA_INLINE V from(uint16x8_t a) { return vreinterpretq_u8_u16(a); }
  static SAKURA_INLINE V from(int16x8_t a) { return vreinterpretq_u8_s16(a); }

  static SAKURA_INLINE V load(const void* p) { return vld1q_u8(static_cast<const uint8_t*>(p)); }
  static SAKURA_INLINE void store(void* p, V v) { vst1q_u8(static_cast<uint8_t*>(p), v); }
  static SAKURA_INLINE V table(const void* p) { return load(p); }
  static SAKURA_INLINE V set8(int b) { return vdupq_n_u8(static_cast<uint8_t>(b)); }
  static SAKURA_INLINE V set16(int w) { return from(vdupq_n_u16(static_cast<uint16_t>(w))); }
  static SAKURA_INLINE V or_(V a, V b) { return vorrq_u8(a, b); }
  static SAKURA_INLINE V and_(V a, V b) { return vandq_u8(a, b); }
  static SAKURA_INLINE V andnot(V a, V b) { return vbicq_u8(b, a); }
  static SAKURA_INLINE V xor_(V a, V b) { return veorq_u8(a, b); }
  static SAKURA_INLINE V add8(V a, V b) { return vaddq_u8(a, b); }
  static SAKURA_INLINE V sub8(V a, V b) { return vsubq_u8(a, b); }
  static SAKURA_INLINE V abs8(V a) { return vreinterpretq_u8_s8(vabsq_s8(s8(a))); }
  static SAKURA_INLINE V gt8(V a, V b) { return vcgtq_s8(s8(a), s8(b)); }
  static SAKURA_INLINE V eq8(V a, V b) { return vceqq_u8(a, b); }
  static SAKURA_INLINE V sel(V mask, V a, V b) { return vbslq_u8(mask, a, b); }
  static SAKURA_INLINE V look(V rows, V i) { return vqtbl1q_u8(rows, i); }
  static SAKURA_INLINE V add16(V a, V b) { return from(vaddq_u16(u16(a), u16(b))); }
  static SAKURA_INLINE V sub16(V a, V b) { return from(vsubq_u16(u16(a), u16(b))); }
  static SAKURA_INLINE V mul16(V a, V b) { return from(vmulq_u16(u16(a), u16(b))); }
  static SAKURA_INLINE V mulhi16(V a, V b) {
    const uint32x4_t low = vmull_u16(vget_low_u16(u16(a)), vget_low_u16(u16(b))), high = vmull_high_u16(u16(a), u16(b));
    return from(vuzp2q_u16(vreinterpretq_u16_u32(low), vreinterpretq_u16_u32(high)));
  }
  static SAKURA_INLINE V abs16(V a) { return from(vabsq_s16(s16(a))); }
  static SAKURA_INLINE V min16(V a, V b) { return from(vminq_s16(s16(a), s16(b))); }
  static SAKURA_INLINE V gt16(V a, V b) { return from(vcgtq_s16(s16(a), s16(b))); }
  static SAKURA_INLINE V eq16(V a, V b) { return from(vceqq_u16(u16(a), u16(b))); }
  static SAKURA_INLINE V sign16(V a) { return from(vshrq_n_s16(s16(a), 15)); }
  static SAKURA_INLINE V srl8(V a) { return from(vshrq_n_u16(u16(a), 8)); }
  static SAKURA_INLINE V sll8(V a) { return from(vshlq_n_u16(u16(a), 8)); }
  static SAKURA_INLINE V srl16(V a, int bits) { return from(vshlq_u16(u16(a), vdupq_n_s16(static_cast<int16_t>(-bits)))); }
  static SAKURA_INLINE V low8(V a) { return vandq_u8(a, set16(255)); }
  static SAKURA_INLINE V join(V even, V odd) { return vtrn1q_u8(even, odd); }
  static SAKURA_INLINE V pack16(V a, V b) { return vuzp1q_u8(a, b); }
  static SAKURA_INLINE V widen(const uint8_t* p) { return from(vmovl_u8(vld1_u8(p))); }
  static SAKURA_INLINE bool any(V a) { return vmaxvq_u8(a) != 0; }
  static SAKURA_INLINE V first16(int count) { return load(first_lanes(count, 8)); }

  static SAKURA_INLINE void split(const uint16_t* state, V& even, V& odd) {
    const uint16x8x2_t both = vld2q_u16(state);
    even = from(both.val[0]);
    odd = from(both.val[1]);
  }
  static SAKURA_INLINE void merge(V even, V odd, uint16_t* state) {
    const uint16x8x2_t both = {u16(even), u16(odd)};
    vst2q_u16(state, both);
  }

  static SAKURA_INLINE V is_low(V x) { return from(vcltq_u16(u16(x), vdupq_n_u16(kStateLow))); }
  static SAKURA_INLINE uint32_t mask_of(V lanes) {
    const uint16x8_t weights = {1, 2, 4, 8, 16, 32, 64, 128};
    return vaddvq_u16(vandq_u16(u16(lanes), weights));
  }
  static SAKURA_INLINE V fill(V x, V low, uint32_t mask, const uint8_t* next) {
    const V bytes = vqtbl1q_u8(vcombine_u8(vld1_u8(next), vdup_n_u8(0)), load(kExpand.row[mask]));
    return vorrq_u8(vbslq_u8(low, sll8(x), x), bytes);
  }

  static SAKURA_INLINE uint8_t* emit(V x, V chosen, uint8_t* end) {
    const uint32_t mask = mask_of(chosen);
    vst1_u8(end - 8, vqtbl1_u8(x, vld1_u8(kGather.row[mask])));
    return end - __builtin_popcount(mask);
  }

  // The masks of all groups in one reduction, their lengths summed by one multiplication: no pointer waits for another.
  template <int kBlocks>
  static SAKURA_INLINE const uint8_t* refill(V* even, V* odd, const uint8_t* next) {
    V* group[2 * kBlocks];
    V low[2 * kBlocks];
    for (int k = 0; k < kBlocks; ++k) {
      group[k] = even + k;
      group[kBlocks + k] = odd + k;
    }
    for (int k = 0; k < 2 * kBlocks; ++k) low[k] = is_low(*group[k]);
    const uint64_t masks = masks_of<2 * kBlocks>(low);
    const uint8x8_t counts = vcnt_u8(vcreate_u8(masks));
    const uint64_t ends = vget_lane_u64(vreinterpret_u64_u8(counts), 0) * 0x0101010101010101u, starts = ends << 8;
#pragma GCC unroll 8
    for (int k = 0; k < 2 * kBlocks; ++k) {
      *group[k] = fill(*group[k], low[k], masks >> 8 * k & 255, next + (starts >> 8 * k & 255));
    }
    return next + (ends >> 56);
  }

  template <int kGroups>
  static SAKURA_INLINE uint64_t masks_of(const V* low) {
    const V weights = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    V bits[4];
    for (int k = 0; k < 4; ++k) {
      bits[k] = 2 * k < kGroups ? vandq_u8(vuzp1q_u8(low[2 * k], low[2 * k + 1]), weights) : vdupq_n_u8(0);
    }
    const V sums = vpaddq_u8(vpaddq_u8(bits[0], bits[1]), vpaddq_u8(bits[2], bits[3]));
    return vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(sums, sums)), 0);
  }
};

}  // namespace
