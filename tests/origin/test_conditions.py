"""Which status and bytes a request gets: RFC 9110 examples, then anything at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sakura.origin.conditions import Answer, answer_for

TAG = '"abc"'
WHOLE = Answer(200, 0, 1000)


def ask(num_bytes: int = 1000, is_head: bool = False, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return answer_for(named, TAG, num_bytes, is_head)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("bytes=0-0", Answer(206, 0, 1)),
        ("bytes=0-999", Answer(206, 0, 1000)),
        ("bytes=0-1000000", Answer(206, 0, 1000)),
        ("bytes=0-99999999999999999999999", Answer(206, 0, 1000)),
        ("bytes=500-", Answer(206, 500, 1000)),
        ("bytes=-1", Answer(206, 999, 1000)),
        ("bytes=-1000", Answer(206, 0, 1000)),
        ("bytes=-5000", Answer(206, 0, 1000)),
        ("BYTES=1-2", Answer(206, 1, 3)),
        ("bytes= 1-2 ", Answer(206, 1, 3)),
        ("bytes=1000-", Answer(416)),
        ("bytes=1000-1001", Answer(416)),
        ("bytes=99999999999999999999999-", Answer(416)),
        ("bytes=-0", Answer(416)),
    ],
)
def test_ranges(text: str, answer: Answer) -> None:
    assert ask(range=text) == answer


@pytest.mark.parametrize(
    "text",
    [
        "", "bytes", "bytes=", "bytes=-", "bytes=a-b", "bytes=5-4", "bytes=1-2,4-5", "bytes=0-0,",
        "items=0-1", "bytes=0x1-2", "bytes=+1-2", "bytes=1--2", "bytes=-1-2", "bytes=1 -2",
        "bytes=\u0661-\u0662", "bytes 0-1",
    ],
)  # fmt: skip
def test_malformed_and_multiple_ranges_are_ignored(text: str) -> None:
    assert ask(range=text) == WHOLE


@pytest.mark.parametrize("text", ["bytes=0-", "bytes=-5", "bytes=0-0", "bytes=7-"])
def test_empty_object_has_no_ranges(text: str) -> None:
    assert ask(num_bytes=0, range=text) == Answer(200, 0, 0)


@pytest.mark.parametrize(
    ("if_range", "status"),
    [
        (TAG, 206),
        ('"abd"', 200),
        ('W/"abc"', 200),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 200),
        ("", 200),
    ],
)
def test_if_range(if_range: str, status: int) -> None:
    assert ask(range="bytes=0-9", if_range=if_range).status == status


@pytest.mark.parametrize(
    ("if_match", "status"),
    [(TAG, 206), ("*", 206), ('"x", "abc"', 206), ('"x"', 412), ('W/"abc"', 412), ("abc", 412)],
)
def test_if_match(if_match: str, status: int) -> None:
    assert ask(range="bytes=0-9", if_match=if_match).status == status


@pytest.mark.parametrize(
    ("if_none_match", "status"),
    [(TAG, 304), ("*", 304), ('"x", "abc"', 304), ('W/"abc"', 304), ('"x"', 206)],
)
def test_if_none_match(if_none_match: str, status: int) -> None:
    assert ask(range="bytes=0-9", if_none_match=if_none_match).status == status


def test_order_of_conditions() -> None:
    """If-Match decides before If-None-Match, both before the range."""
    assert ask(if_match='"x"', if_none_match=TAG, range="bytes=2000-").status == 412
    assert ask(if_match=TAG, if_none_match=TAG, range="bytes=2000-").status == 304


def test_head_has_no_ranges() -> None:
    assert ask(is_head=True, range="bytes=0-9") == WHOLE
    assert ask(is_head=True, if_none_match=TAG).status == 304


header_text = st.text(max_size=30) | st.text('bytes=0123456789-, "*W/abc', max_size=30)


@given(
    st.dictionaries(
        st.sampled_from(["range", "if-range", "if-match", "if-none-match"]), header_text
    ),
    st.integers(0, 10**6),
    st.booleans(),
)
def test_any_header_gets_a_sane_answer(
    headers: dict[str, str], num_bytes: int, is_head: bool
) -> None:
    answer = answer_for(headers, TAG, num_bytes, is_head)
    if answer.status == 200:
        assert (answer.start, answer.stop) == (0, num_bytes)
    elif answer.status == 206:
        assert 0 <= answer.start < answer.stop <= num_bytes
    else:
        assert (answer.start, answer.stop) == (0, 0)
