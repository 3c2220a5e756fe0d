// The decoder over vectors of lanes: the states of all lanes stay in registers, tables are looked up by shuffles.
//
// `I` is one of the simd_*.hpp types. A block is I::kLanes lanes; the 16-bit states of its even lanes stand in one vector, those of
// its odd lanes in another, so that a byte vector with even lanes' bytes low and odd lanes' bytes high is in natural order.
#pragma once

#include "scalar.hpp"

namespace {

template <class I, int kBlocks>
struct Lanes {
  typename I::V even[kBlocks];
  typename I::V odd[kBlocks];
};

// What the slots of one block mean: bytes, in natural order.
template <class I>
struct Found {
  typename I::V rank;
  typename I::V freq;
  typename I::V rest;  // slot - below
};

// Rank among up to 16 by halving: compares with the bounds in the middle of what is left.
template <class I>
SAKURA_INLINE typename I::V search_16(typename I::V flipped, const Alphabet& a) {
  using V = typename I::V;
  const V m8 = I::gt8(flipped, I::set8(a.bound[8]));
  const V m4 = I::gt8(flipped, I::sel(m8, I::set8(a.bound[12]), I::set8(a.bound[4])));
  const V fours = I::abs8(I::add8(I::add8(m8, m8), m4));
  const V m2 = I::gt8(flipped, I::look(I::table(a.twos_of_16), fours));
  const V twos = I::sub8(I::add8(fours, fours), m2);
  const V m1 = I::gt8(flipped, I::look(I::table(a.odd_of_8), twos));
  return I::sub8(I::add8(twos, twos), m1);
}

// Rank among `kRanks` few: as many comparisons as bounds, none of which waits for another.
template <class I, int kRanks>
SAKURA_INLINE typename I::V count_bounds(typename I::V flipped, const Alphabet& a) {
  typename I::V even = I::gt8(flipped, I::set8(a.bound[1])), odd = I::gt8(flipped, I::set8(a.bound[2]));
  for (int k = 3; k < kRanks; k += 2) {
    even = I::add8(even, I::gt8(flipped, I::set8(a.bound[k])));
    if (k + 1 < kRanks) odd = I::add8(odd, I::gt8(flipped, I::set8(a.bound[k + 1])));
  }
  return I::abs8(I::add8(even, odd));
}

template <class I, int kRanks>
struct StartCoder {
  const Alphabet& alphabet;

  SAKURA_INLINE Found<I> find(typename I::V slot, const uint8_t*) const {
    const typename I::V flipped = I::xor_(slot, I::set8(-128));
    typename I::V rank;
    if constexpr (kRanks <= 7) {
      rank = count_bounds<I, kRanks>(flipped, alphabet);
    } else {
      rank = search_16<I>(flipped, alphabet);
    }
    return {rank, I::look(I::table(alphabet.freq), rank), I::sub8(slot, I::look(I::table(alphabet.below), rank))};
  }
};

template <class I, bool kHasEdge>
struct RefineCoder {
  const Ternary& ternary;
  const Alphabet& edge;

  SAKURA_INLINE Found<I> find(typename I::V slot, const uint8_t* contexts) const {
    using V = typename I::V;
    const V context = I::load(contexts), flipped = I::xor_(slot, I::set8(-128));
    const V m1 = I::gt8(flipped, I::look(I::table(ternary.bound1), context));
    const V m2 = I::gt8(flipped, I::look(I::table(ternary.bound2), context));
    const V symbol = I::abs8(I::add8(m1, m2));
    const V twice = I::add8(context, context), rank = I::add8(I::add8(twice, twice), symbol);
    const V freq = I::look(I::table(ternary.freq), rank), below = I::look(I::table(ternary.below), rank);
    if constexpr (!kHasEdge) {
      return {symbol, freq, I::sub8(slot, below)};
    } else {
      const V far = search_16<I>(flipped, edge), is_edge = I::eq8(context, I::set8(kEdgeContext));
      const V below_far = I::look(I::table(edge.below), far);
      return {I::sel(is_edge, far, symbol), I::sel(is_edge, I::look(I::table(edge.freq), far), freq),
              I::sub8(slot, I::sel(is_edge, below_far, below))};
    }
  }
};

// Decodes one value in each of the first `active` lanes. Lanes beyond keep their states, which are not low and so take no byte.
template <class I, int kBlocks, bool kAll, class Coder>
SAKURA_INLINE const uint8_t* decode_round(Lanes<I, kBlocks>& lanes, const uint8_t* next, const Coder& coder, int active,
                                          const uint8_t* contexts, uint8_t* symbols) {
  using V = typename I::V;
#pragma GCC unroll 4
  for (int k = 0; k < kBlocks; ++k) {
    const V even = lanes.even[k], odd = lanes.odd[k];
    const Found<I> found = coder.find(I::join(even, odd), contexts + I::kLanes * k);
    I::store(symbols + I::kLanes * k, found.rank);
    V x = I::add16(I::mul16(I::low8(found.freq), I::srl8(even)), I::low8(found.rest));
    V y = I::add16(I::mul16(I::srl8(found.freq), I::srl8(odd)), I::srl8(found.rest));
    if constexpr (!kAll) {
      const int left = active - I::kLanes * k;
      x = I::sel(I::first16((left + 1) >> 1), x, even);
      y = I::sel(I::first16(left >> 1), y, odd);
    }
    lanes.even[k] = x;
    lanes.odd[k] = y;
  }
  return I::template refill<kBlocks>(lanes.even, lanes.odd, next);
}

template <class I, int kBlocks>
struct VectorDecoder {
  Reader in;
  Lanes<I, kBlocks> lanes;
  int num_lanes;
};

// Symbols (start: ranks) of one unit. Returns false when its bytes are not all there.
template <class I, int kBlocks, class Coder>
SAKURA_INLINE bool decode_symbols(VectorDecoder<I, kBlocks>& decoder, const Coder& coder, int width, const uint8_t* contexts,
                                  uint8_t* symbols) {
  make_room(decoder.in);
  const uint8_t* next = decoder.in.next;
  Lanes<I, kBlocks>& lanes = decoder.lanes;
  int start = 0;
  if (decoder.num_lanes == I::kLanes * kBlocks) {
    for (; start + I::kLanes * kBlocks <= width; start += I::kLanes * kBlocks) {
      next = decode_round<I, kBlocks, true>(lanes, next, coder, 0, contexts + start, symbols + start);
    }
  }
  for (; start < width; start += decoder.num_lanes) {
    const int active = width - start < decoder.num_lanes ? width - start : decoder.num_lanes;
    next = decode_round<I, kBlocks, false>(lanes, next, coder, active, contexts + start, symbols + start);
  }
  decoder.in.next = next;
  return next <= decoder.in.end;
}

// Contexts of `width` indices, rounded up to whole vectors. Returns whether one stands in the open edge bin.
template <class I>
SAKURA_INLINE bool find_contexts(const int16_t* index, int width, int edge, uint8_t* contexts) {
  using V = typename I::V;
  const V edges = I::set16(edge), two = I::set16(2);
  V any = I::set16(0);
  for (int i = 0; i < width; i += I::kLanes) {
    const V low = I::abs16(I::load(index + i)), high = I::abs16(I::load(index + i + I::kLanes / 2));
    const V at_low = I::eq16(low, edges), at_high = I::eq16(high, edges);
    any = I::or_(any, I::or_(at_low, at_high));
    I::store(contexts + i, I::pack16(I::sub16(I::min16(low, two), at_low), I::sub16(I::min16(high, two), at_high)));
  }
  return I::any(any);
}

template <class I>
SAKURA_INLINE void apply_ranks(const uint8_t* ranks, int width, int lowest, int16_t* index) {
  const typename I::V shift = I::set16(lowest - kMaxIndex);
  for (int i = 0; i < width; i += I::kLanes / 2) I::store(index + i, I::add16(I::widen(ranks + i), shift));
}

template <class I>
SAKURA_INLINE void apply_refinement(const uint8_t* symbols, int width, int16_t* index) {
  using V = typename I::V;
  for (int i = 0; i < width; i += I::kLanes / 2) {
    const V q = I::load(index + i), sign = I::sign16(q);
    const V away = I::sub16(I::widen(symbols + i), I::set16(1));
    I::store(index + i, I::add16(I::add16(q, I::add16(q, q)), I::sub16(I::xor_(away, sign), sign)));
  }
}

// A unit whose width is no multiple of the block works on a copy.
struct Workspace {
  alignas(64) uint8_t contexts[2 * kMaxWidth];
  alignas(64) uint8_t symbols[2 * kMaxWidth];
  alignas(64) int16_t values[2 * kMaxWidth];
};

template <class I, int kBlocks, int kRanks>
SAKURA_INLINE bool decode_start(VectorDecoder<I, kBlocks>& decoder, const Alphabet& alphabet, const Unit& unit, Workspace& work) {
  const StartCoder<I, kRanks> coder{alphabet};
  if (!decode_symbols(decoder, coder, unit.width, work.contexts, work.symbols)) return false;
  if (unit.width % I::kLanes == 0) {
    apply_ranks<I>(work.symbols, unit.width, alphabet.lowest, unit.values);
  } else {
    apply_ranks<I>(work.symbols, unit.width, alphabet.lowest, work.values);
    copy_values(work.values, unit.width, unit.values);
  }
  return true;
}

template <class I, int kBlocks>
SAKURA_INLINE bool decode_refinement(VectorDecoder<I, kBlocks>& decoder, const Tables& tables, const SakuraRun& run,
                                     const Unit& unit, Workspace& work) {
  const int fine = (run.table - kStartTables) / kContexts;
  const bool is_ragged = unit.width % I::kLanes != 0;
  int16_t* values = unit.values;
  if (is_ragged) {
    copy_values(unit.values, unit.width, work.values);
    values = work.values;
  }
  bool is_whole;
  if (find_contexts<I>(values, unit.width, run.edge, work.contexts)) {
    const RefineCoder<I, true> coder{tables.ternary[fine], tables.edge[fine]};
    is_whole = decode_symbols(decoder, coder, unit.width, work.contexts, work.symbols);
  } else {
    const RefineCoder<I, false> coder{tables.ternary[fine], tables.edge[fine]};
    is_whole = decode_symbols(decoder, coder, unit.width, work.contexts, work.symbols);
  }
  if (!is_whole) return false;
  apply_refinement<I>(work.symbols, unit.width, values);
  if (is_ragged) copy_values(work.values, unit.width, unit.values);
  return true;
}

// Decodes the units of one run. Returns how many were whole, or -1 for a column outside the index array. The decoder is a copy, so
// that states and pointers can stay in registers.
template <class I, int kBlocks, class DecodeUnit>
SAKURA_INLINE int32_t decode_units(VectorDecoder<I, kBlocks>& state, const SakuraLayer& layer, const SakuraRun& run,
                                   int16_t* index, const DecodeUnit& decode_one) {
  VectorDecoder<I, kBlocks> decoder = state;
  int32_t done = 0;
  for (; done < run.count; ++done) {
    const int32_t column = run.first + done;
    prefetch_column(layer, index, column + kAhead);
    if (!is_valid_column(layer, column)) return -1;
    if (!decode_one(decoder, Unit{index + layer.offset[column], layer.width[column]})) break;
  }
  state = decoder;
  return done;
}

template <class I, int kBlocks>
struct RunDecoder {
  VectorDecoder<I, kBlocks>& decoder;
  const Tables& tables;
  const SakuraLayer& layer;
  int16_t* index;
  Workspace& work;

  template <int kRanks>
  int32_t start(const SakuraRun& run) {
    const Alphabet& alphabet = tables.start[run.table];
    return decode_units<I, kBlocks>(decoder, layer, run, index, [&](VectorDecoder<I, kBlocks>& local, const Unit& unit) SAKURA_LAMBDA {
      return decode_start<I, kBlocks, kRanks>(local, alphabet, unit, work);
    });
  }

  int32_t refine(const SakuraRun& run) {
    return decode_units<I, kBlocks>(decoder, layer, run, index, [&](VectorDecoder<I, kBlocks>& local, const Unit& unit) SAKURA_LAMBDA {
      return decode_refinement<I, kBlocks>(local, tables, run, unit, work);
    });
  }

  int32_t decode(const SakuraRun& run) {
    if (run.table >= kStartTables) return refine(run);
    const int num_ranks = tables.start[run.table].num_ranks;
    return num_ranks <= 5 ? start<5>(run) : num_ranks <= 7 ? start<7>(run) : start<16>(run);
  }
};

// As decode_layer_scalar, for up to I::kLanes * kBlocks lanes.
template <class I, int kBlocks>
int32_t decode_layer_vector(const Tables& tables, const SakuraLayer& layer, Bytes from, int16_t* index, int32_t* is_clean) {
  alignas(64) uint16_t state[kMaxLanes];
  for (uint16_t& x : state) x = kStateLow;
  if (!read_states(from, layer.num_lanes, state)) return 0;
  uint8_t spare[2 * kReach];
  VectorDecoder<I, kBlocks> decoder{{from.data + 2 * layer.num_lanes, from.data + from.size, spare}, {}, layer.num_lanes};
  Lanes<I, kBlocks>& lanes = decoder.lanes;
  for (int k = 0; k < kBlocks; ++k) I::split(state + I::kLanes * k, lanes.even[k], lanes.odd[k]);
  Workspace work{};
  RunDecoder<I, kBlocks> runs{decoder, tables, layer, index, work};
  int32_t num_units = 0;
  for (int32_t r = 0; r < layer.num_runs; ++r) {
    const int32_t done = runs.decode(layer.runs[r]);
    if (done < 0) return -1;
    num_units += done;
    if (done < layer.runs[r].count) return num_units;
  }
  for (int k = 0; k < kBlocks; ++k) I::merge(lanes.even[k], lanes.odd[k], state + I::kLanes * k);
  *is_clean = is_at_rest(decoder.in, layer.num_lanes, state);
  return num_units;
}

}  // namespace
