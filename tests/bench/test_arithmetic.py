"""The arithmetic coder against a golden stream of an independent implementation, and by round
trips."""

from __future__ import annotations

import hashlib
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sakura.bench.baselines.arithmetic import chunk_cdf, decode, encode
from sakura.bench.baselines.shared_tables import fit_tables


def test_golden_stream() -> None:
    """Bytes of a model written from the same description, symbol by symbol, by someone else."""
    symbols = np.random.default_rng(1234).integers(0, 31, 256)[None]
    cdf = chunk_cdf(symbols, 32)
    assert cdf[0, 1:4].tolist() == [1536, 4351, 6399]
    assert (cdf[0, 0], cdf[0, -1]) == (0, 65535)
    data, sizes = encode(symbols, cdf)
    assert sizes.tolist() == [157]
    assert hashlib.sha256(data).hexdigest().startswith("a487d421c6065f85ab289cf609dd4f29")


@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.sampled_from([2, 3, 16, 32]))
def test_round_trip(seed: int, length: int, num_bins: int) -> None:
    rng = np.random.default_rng(seed)
    peak = rng.dirichlet(np.full(num_bins, 0.2))
    symbols = rng.choice(num_bins, (5, length), p=peak)
    cdf = chunk_cdf(symbols, num_bins)
    data, sizes = encode(symbols, cdf)
    assert (decode(data, sizes, cdf, length) == symbols).all()


def test_size_is_near_the_entropy() -> None:
    """Notes on the source, 1.1: 4.8 bits over the ideal entropy a stream of 256 symbols."""
    rng = np.random.default_rng(3)
    symbols = np.clip(np.rint(rng.normal(15, 3, (200, 256))), 0, 30).astype(int)
    _, sizes = encode(symbols, chunk_cdf(symbols, 32))
    share = np.stack([np.bincount(row, minlength=32) for row in symbols]) / 256
    ideal = -(share * np.log2(np.where(share > 0, share, 1))).sum() * 256
    assert 8 * sizes.sum() - ideal < 200 * 12


needs_coder = pytest.mark.skipif(find_spec("constriction") is None, reason="not installed")


def laplacian(seed: int, length: int, spread: float = 2.0) -> np.ndarray:
    return np.rint(np.random.default_rng(seed).laplace(0, spread, (6, length))).astype(np.int32)


@needs_coder
def test_shared_tables_are_within_half_a_percent_of_their_entropy() -> None:
    tables = fit_tables([laplacian(0, 4000)])
    symbols = laplacian(1, 4000)
    kept = symbols[np.abs(symbols) <= tables.limit]
    assert kept.size == symbols.size
    rows = np.arange(6)[:, None]
    ideal = -np.log2(tables.probabilities[rows, symbols + tables.limit]).sum()
    assert 8 * len(tables.encode(symbols)) < 1.005 * ideal + 8 * 16


@needs_coder
@pytest.mark.parametrize("length", [0, 1, 57])
def test_shared_tables_escape_what_they_have_not_seen(length: int) -> None:
    tables = fit_tables([laplacian(0, 100)])
    symbols = laplacian(2, length)
    symbols[2:3, -1:] = 123_456
    symbols[4:5, :1] = -tables.limit - 1
    data = tables.encode(symbols)
    decoded, used = tables.decode(data + b"more", length)
    assert (decoded == symbols).all()
    assert used == len(data)


@needs_coder
def test_a_row_of_zeros_costs_next_to_nothing() -> None:
    tables = fit_tables([np.zeros((6, 3000), np.int32)])
    assert len(tables.encode(np.zeros((6, 1000), np.int32))) < 24
