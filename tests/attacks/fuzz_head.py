"""Coverage-guided fuzzing of the head: anything but FormatError or a result is a finding."""

from __future__ import annotations

import contextlib
import sys

from sakura.errors import FormatError
from sakura.format import verify_bundle
from tests.format.tiny import reader, seal


def target(data: bytes) -> None:
    """Reads the input as an object, and as a manifest with a right seal."""
    for bundle in (data, seal(data, b"")):
        with contextlib.suppress(FormatError):
            verify_bundle(reader(bundle), len(bundle))


if __name__ == "__main__":
    import atheris

    atheris.Setup(sys.argv, target)
    atheris.Fuzz()
