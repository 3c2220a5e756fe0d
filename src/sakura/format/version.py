"""Which bundles this reader accepts: a minor version only adds, a major one may change meaning."""

from __future__ import annotations

from typing import NamedTuple

from sakura.errors import FormatError

MAGIC = b"SAKV"


class Version(NamedTuple):
    """A format version, as in the first eight bytes of a bundle and in `$.format`."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


CURRENT = Version(1, 0)


def check_version(found: Version) -> None:
    """Accept this major version with any minor one; refuse the rest.

    Raises:
        FormatError: the bundle has another major version.
    """
    if found.major == CURRENT.major:
        return
    newer = found.major > CURRENT.major
    raise FormatError(
        f"bundle has format version {found}, expected {CURRENT.major}.x",
        where="byte 4",
        hint="update sakura-kv to read it" if newer else "pack the template again",
    )
