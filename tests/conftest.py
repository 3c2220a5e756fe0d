"""Hypothesis without a clock: no deadline, the same examples in every run. One thread for torch:
small tensors gain nothing from a second one, and on a busy machine they wait for it.
"""

from __future__ import annotations

import os

from hypothesis import settings

os.environ.setdefault("OMP_NUM_THREADS", "1")

settings.register_profile("repeatable", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("repeatable")
