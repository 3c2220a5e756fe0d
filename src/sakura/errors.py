"""The exception tree. A user mistake or bad bytes raise one of these; a broken invariant of ours
asserts.

    SakuraError
    |-- InputError         a picture, mask, prompt or option that cannot be used
    |-- FormatError        a bundle that breaks docs/format.md
    |   `-- DigestError    bytes that do not match their digest
    |-- CodecError         a stream the codec refuses (wrong profile, impossible shape)
    |-- FingerprintError   the model is not the one the bundle was captured from
    |-- StoreError         the store, origin or link failed
    |   |-- NotFoundError  no such object
    |   `-- StaleError     the object changed (its ETag differs) since it was opened
    `-- PlayError          an edit that can be neither streamed nor computed
"""

from __future__ import annotations


class SakuraError(Exception):
    """Root of every error that SAKURA raises on purpose.

    Args:
        message: what was found and what was expected.
        where: the place, as a path (`$.shards[3].length`), file name or URL.
        hint: what the user can do about it; the CLI prints it on its own line.
    """

    exit_code = 1

    def __init__(self, message: str, *, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(f"{message} (at {where})" if where else message)
        self.where = where
        self.hint = hint


class InputError(SakuraError):
    """A picture, mask, prompt or option that cannot be used."""

    exit_code = 2


class FormatError(SakuraError):
    """A bundle that breaks the format."""

    exit_code = 3


class DigestError(FormatError):
    """Bytes that do not match the digest recorded for them."""


class CodecError(SakuraError):
    """A stream, shape or profile that the codec refuses."""

    exit_code = 3


class FingerprintError(SakuraError):
    """The loaded model is not the one the bundle was captured from."""

    exit_code = 4


class StoreError(SakuraError):
    """The store, the origin or the link failed."""

    exit_code = 5


class NotFoundError(StoreError):
    """No object of that name."""


class StaleError(StoreError):
    """The object changed since it was opened: its ETag differs."""


class PlayError(SakuraError):
    """An edit that can be neither streamed nor computed."""

    exit_code = 6
