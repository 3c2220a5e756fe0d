"""Which answer a GET with ranges and preconditions gets (RFC 9110, sections 13 and 14), without any
I/O.

One range per request: several are answered with the whole object, which the RFC allows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

_RANGE = re.compile(r"bytes=[ \t]*([0-9]{0,40})-([0-9]{0,40})[ \t]*", re.IGNORECASE)
_ETAG = re.compile(r'(?:W/)?"[^"]*"')


@dataclass(frozen=True, slots=True)
class Answer:
    """Status, and the bytes [start, stop) of the object that the body holds."""

    status: Literal[200, 206, 304, 412, 416]
    start: int = 0
    stop: int = 0


def answer_for(headers: Mapping[str, str], etag: str, num_bytes: int, is_head: bool) -> Answer:
    """Decide in the RFC's order: If-Match, If-None-Match, then Range under If-Range."""
    if_match = headers.get("if-match")
    if if_match is not None and not _matches(if_match, etag, weakly=False):
        return Answer(412)
    if_none_match = headers.get("if-none-match")
    if if_none_match is not None and _matches(if_none_match, etag, weakly=True):
        return Answer(304)
    whole = Answer(200, 0, num_bytes)
    text = headers.get("range")
    if text is None or is_head or headers.get("if-range", etag).strip() != etag:
        return whole
    return _ranged(text, num_bytes) or whole


def _ranged(text: str, num_bytes: int) -> Answer | None:
    """None where the header is malformed, has several ranges, or the object is empty: it is
    ignored.
    """
    match = _RANGE.fullmatch(text)
    if match is None or num_bytes == 0 or match[1] == match[2] == "":
        return None
    if match[1] == "":
        start, stop = max(0, num_bytes - int(match[2])), num_bytes
    else:
        start = int(match[1])
        stop = min(int(match[2]) + 1, num_bytes) if match[2] else num_bytes
        if match[2] and int(match[2]) < start:
            return None
    return Answer(206, start, stop) if start < num_bytes else Answer(416)


def _matches(header: str, etag: str, weakly: bool) -> bool:
    """Whether a list of entity tags names `etag`; weak tags count where comparison is weak."""
    if header.strip() == "*":
        return True
    tags = _ETAG.findall(header)
    return etag in tags or (weakly and f"W/{etag}" in tags)
