// The encoder: reverses decode.hpp and scalar.hpp, from the last value of the last unit to the first.
#pragma once

#include "decode.hpp"
#include "encode_scalar.hpp"

namespace {

template <class I>
SAKURA_INLINE typename I::V coarsen(typename I::V size, int passes) {
  if (passes == 0) return size;
  const Coarsening& by = kCoarsening[passes];
  return I::srl16(I::mulhi16(I::add16(size, I::set16(by.half)), I::set16(by.factor)), by.shift);
}

// Ranks of a start unit, rounded up to whole vectors.
template <class I>
SAKURA_INLINE void code_start(const Step& step, const int16_t* finest, int width, uint8_t* ranks) {
  using V = typename I::V;
  const V limit = I::set16(step.next_edge);
  for (int i = 0; i < width; i += I::kLanes) {
    V part[2];
    for (int half = 0; half < 2; ++half) {
      const V q = I::load(finest + i + half * I::kLanes / 2), sign = I::sign16(q);
      const V fine = I::min16(coarsen<I>(I::abs16(q), step.passes), limit);
      part[half] = I::add16(I::sub16(I::xor_(fine, sign), sign), limit);
    }
    I::store(ranks + i, I::pack16(part[0], part[1]));
  }
}

// Symbols and contexts of a refinement. Returns whether a value stands in the open edge bin.
template <class I>
SAKURA_INLINE bool code_refinement(const Step& step, const int16_t* finest, int width, Workspace& work) {
  using V = typename I::V;
  const V edge = I::set16(step.edge), next_edge = I::set16(step.next_edge), one = I::set16(1), two = I::set16(2);
  V any = I::set16(0);
  for (int i = 0; i < width; i += I::kLanes) {
    V symbol[2], context[2];
    for (int half = 0; half < 2; ++half) {
      const V q = I::load(finest + i + half * I::kLanes / 2), size = I::abs16(q);
      const V fine = I::min16(coarsen<I>(size, step.passes), next_edge);
      const V coarse = I::min16(coarsen<I>(size, step.passes + 1), edge);
      // A coarse index of 0 has no sign of its own: there the symbol says on which side the value is.
      const V sign = I::and_(I::sign16(q), I::eq16(coarse, I::set16(0)));
      const V away = I::sub16(fine, I::add16(coarse, I::add16(coarse, coarse)));
      const V at_edge = I::eq16(coarse, edge);
      any = I::or_(any, at_edge);
      symbol[half] = I::add16(I::sub16(I::xor_(away, sign), sign), one);
      context[half] = I::sub16(I::min16(coarse, two), at_edge);
    }
    I::store(work.symbols + i, I::pack16(symbol[0], symbol[1]));
    I::store(work.contexts + i, I::pack16(context[0], context[1]));
  }
  return I::any(any);
}

// What a block's symbols cost: bytes, in natural order.
template <class I>
struct Price {
  typename I::V freq;
  typename I::V below;
  typename I::V rcp_low;
  typename I::V rcp_high;
};

template <class I, class Rows>
SAKURA_INLINE Price<I> price_of(const Rows& rows, typename I::V rank) {
  return {I::look(I::table(rows.freq), rank), I::look(I::table(rows.below), rank), I::look(I::table(rows.rcp_low), rank),
          I::look(I::table(rows.rcp_high), rank)};
}

template <class I>
struct StartPricer {
  const Alphabet& alphabet;
  SAKURA_INLINE Price<I> price(const Workspace& work, int place) const {
    return price_of<I>(alphabet, I::load(work.symbols + place));
  }
};

template <class I, bool kHasEdge>
struct RefinePricer {
  const Ternary& ternary;
  const Alphabet& edge;
  SAKURA_INLINE Price<I> price(const Workspace& work, int place) const {
    using V = typename I::V;
    const V symbol = I::load(work.symbols + place), context = I::load(work.contexts + place);
    const V twice = I::add8(context, context), rank = I::add8(I::add8(twice, twice), symbol);
    const Price<I> near = price_of<I>(ternary, I::and_(rank, I::set8(15)));
    if constexpr (!kHasEdge) return near;
    const Price<I> far = price_of<I>(edge, symbol);
    const V is_edge = I::eq8(context, I::set8(kEdgeContext));
    return {I::sel(is_edge, far.freq, near.freq), I::sel(is_edge, far.below, near.below),
            I::sel(is_edge, far.rcp_low, near.rcp_low), I::sel(is_edge, far.rcp_high, near.rcp_high)};
  }
};

// One value in each lane: emits the low byte where the state is too large, then x / freq by its reciprocal, which may be one short.
template <class I>
SAKURA_INLINE typename I::V encode_lanes(typename I::V x, const Price<I>& price, typename I::V active, Sink& out) {
  using V = typename I::V;
  const V high = I::srl8(x), is_full = I::andnot(I::gt16(price.freq, high), active);
  out.place = I::emit(x, is_full, out.place);
  const V y = I::sel(is_full, high, x);
  const V quotient = I::mulhi16(y, price.rcp_low), rest = I::sub16(y, I::mul16(quotient, price.freq));
  const V is_short = I::gt16(I::add16(rest, I::set16(1)), price.freq);
  const V fix = I::and_(is_short, I::sub16(I::set16(256), price.freq));
  return I::sel(active, I::add16(I::add16(I::sll8(quotient), price.below), I::add16(rest, fix)), x);
}

template <class I>
SAKURA_INLINE Price<I> even_lanes(const Price<I>& p) {
  return {I::low8(p.freq), I::low8(p.below), I::join(p.rcp_low, p.rcp_high), p.rcp_high};
}

template <class I>
SAKURA_INLINE Price<I> odd_lanes(const Price<I>& p) {
  const typename I::V rcp = I::or_(I::srl8(p.rcp_low), I::sll8(I::srl8(p.rcp_high)));
  return {I::srl8(p.freq), I::srl8(p.below), rcp, p.rcp_high};
}

template <class I, int kBlocks, class Pricer>
SAKURA_INLINE void encode_rounds(Lanes<I, kBlocks>& lanes, int num_lanes, const Pricer& pricer, int width, const Workspace& work,
                                 Sink& out) {
  for (int start = (width - 1) / num_lanes * num_lanes; start >= 0; start -= num_lanes) {
    const int active = at_most(width - start, num_lanes);
    Price<I> price[kBlocks];
    for (int k = 0; k < kBlocks; ++k) price[k] = pricer.price(work, start + I::kLanes * k);
    for (int k = kBlocks - 1; k >= 0; --k) {
      const typename I::V mask = I::first16((active - I::kLanes * k) >> 1);
      lanes.odd[k] = encode_lanes<I>(lanes.odd[k], odd_lanes<I>(price[k]), mask, out);
    }
    for (int k = kBlocks - 1; k >= 0; --k) {
      const typename I::V mask = I::first16((active - I::kLanes * k + 1) >> 1);
      lanes.even[k] = encode_lanes<I>(lanes.even[k], even_lanes<I>(price[k]), mask, out);
    }
  }
}

template <class I, int kBlocks>
struct VectorEncoder {
  const Tables& tables;
  Lanes<I, kBlocks> lanes;
  int num_lanes;
  Workspace work;

  SAKURA_INLINE void encode(const Step& step, const Unit& unit, Sink& out) {
    const int16_t* finest = unit.values;
    if (unit.width % I::kLanes != 0) {
      copy_values(unit.values, unit.width, work.values);
      finest = work.values;
    }
    if (step.table < kStartTables) {
      code_start<I>(step, finest, unit.width, work.symbols);
      encode_rounds<I, kBlocks>(lanes, num_lanes, StartPricer<I>{tables.start[step.table]}, unit.width, work, out);
      return;
    }
    const int fine = (step.table - kStartTables) / kContexts;
    if (code_refinement<I>(step, finest, unit.width, work)) {
      const RefinePricer<I, true> pricer{tables.ternary[fine], tables.edge[fine]};
      encode_rounds<I, kBlocks>(lanes, num_lanes, pricer, unit.width, work, out);
    } else {
      const RefinePricer<I, false> pricer{tables.ternary[fine], tables.edge[fine]};
      encode_rounds<I, kBlocks>(lanes, num_lanes, pricer, unit.width, work, out);
    }
  }
};

template <class I, int kBlocks>
bool encode_layer_vector(const Tables& tables, const SakuraLayer& layer, const Source& from, Sink& out) {
  VectorEncoder<I, kBlocks> encoder{tables, {}, layer.num_lanes, {}};
  for (int k = 0; k < kBlocks; ++k) encoder.lanes.even[k] = encoder.lanes.odd[k] = I::set16(kStateLow);
  const bool is_valid = visit_backwards(tables, layer, from, [&](const Step& step, const Unit& unit) SAKURA_LAMBDA {
    encoder.encode(step, unit, out);
  });
  alignas(64) uint16_t state[kMaxLanes];
  for (int k = 0; k < kBlocks; ++k) I::merge(encoder.lanes.even[k], encoder.lanes.odd[k], state + I::kLanes * k);
  put_states(state, layer.num_lanes, out);
  return is_valid;
}

}  // namespace
