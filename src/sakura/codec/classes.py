"""What each pass does with the columns of a class: which table, which edge. Knows no shard.

Columns of one class at the base step are treated alike, so a plan needs these few rows only.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sakura.codec.base import MAX_LAYERS
from sakura.codec.tables import (
    CLASSES_PER_TRIT,
    FIRST_THRESHOLD_CLASS,
    MAX_CLASS0,
    NUM_CLASSES,
    NUM_CONTEXTS,
    NUM_EDGE_SYMBOLS,
    NUM_START_CLASSES,
)

Array = NDArray[Any]

MAX_EXTRA = 4
"""A column starts at most this many factors of three above its base step: indices fit int16."""
LOWEST_CLASS0 = FIRST_THRESHOLD_CLASS - 1
"""Class of the columns below every threshold."""
NUM_CLASSES0 = MAX_CLASS0 - LOWEST_CLASS0 + 1
_CLASS0 = np.arange(MAX_CLASS0, LOWEST_CLASS0 - 1, -1, dtype=np.int64)
_FIRST_EXPONENT = np.minimum(_CLASS0 // CLASSES_PER_TRIT, MAX_EXTRA)
_POWERS_OF_THREE = 3 ** np.arange(MAX_EXTRA + MAX_LAYERS + 1)


@dataclass(frozen=True, slots=True, eq=False)
class ClassPass:
    """The pass to one exponent, a row per class that takes part, largest class first.

    Args:
        table: uint8, start table, or context-0 table of the refined class.
        edge: int16, |index| of the open edge bin before the pass; 0 for a start.
    """

    table: Array
    edge: Array


@cache
def class_pass(exponent: int, limits: tuple[int, ...]) -> ClassPass:
    """Rows of the pass to step x 3^exponent, for start alphabets -limit..limit."""
    num_rows = int(np.count_nonzero(exponent <= _FIRST_EXPONENT))
    class_ = class_at(_CLASS0[:num_rows], exponent)
    refined = NUM_START_CLASSES + (class_ - NUM_START_CLASSES) * NUM_CONTEXTS
    table = np.where(_FIRST_EXPONENT[:num_rows] == exponent, class_, refined)
    return ClassPass(table.astype(np.uint8), class_edges(exponent + 1, limits)[:num_rows])


@cache
def class_edges(exponent: int, limits: tuple[int, ...]) -> Array:
    """|index| of the open edge bin at an exponent, int16, a row per class; 0 where not started."""
    passes = _FIRST_EXPONENT - exponent
    scale = _POWERS_OF_THREE[np.maximum(passes, 0)]
    limit = np.array(limits)[_CLASS0 % CLASSES_PER_TRIT]
    edge = scale * limit + (scale - 1) // 2 * (NUM_EDGE_SYMBOLS - 2)
    return np.where(passes < 0, 0, edge).astype(np.int16)


def class_at(class0: Array, exponent: Array | int) -> Array:
    """Class at step x 3^exponent of base class `class0`, at most the last class."""
    classes: Array = np.minimum(class0 - CLASSES_PER_TRIT * exponent, NUM_CLASSES - 1)
    return classes
