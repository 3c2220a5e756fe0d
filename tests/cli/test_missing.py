"""A bundle that is not there: one message, with a hint that fits where it was looked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import sakura
from sakura.cli import run
from sakura.errors import NotFoundError, StoreError
from sakura.origin.serve import OriginProcess


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OriginProcess]:
    with OriginProcess(tmp_path_factory.mktemp("store")) as running:
        yield running


@pytest.mark.parametrize("verb", ["inspect", "verify"])
def test_the_hint_fits_the_place(
    verb: str, origin: OriginProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for place, message, hint in (
        (f"{tmp_path}/a.skv", "no such file", "check the path"),
        (str(tmp_path), "found a folder", "NAME.skv"),
        (f"{origin.url}/a.skv", "no such object", f"{origin.url}/v1/templates"),
    ):
        assert run([verb, place]) == 5
        error, advice = capsys.readouterr().err.splitlines()
        assert error.startswith(f"error: {message}") and place in error
        assert advice.startswith("hint: ") and hint in advice
        assert ("origin" in advice) == place.startswith("http")


def test_opening_says_the_same(origin: OriginProcess, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError) as caught:
        sakura.open(f"{origin.url}/a.skv")
    assert f"{origin.url}/v1/templates" in (caught.value.hint or "")
    with pytest.raises(NotFoundError) as caught:
        sakura.open(tmp_path / "a.skv")
    assert "path" in (caught.value.hint or "") and "origin" not in (caught.value.hint or "")


def test_a_bucket_object_that_is_missing(tmp_path: Path) -> None:
    pytest.importorskip("obstore")
    from sakura.store.objects import translated

    with pytest.raises(StoreError) as caught, translated("s3://bucket/a.skv"):
        raise FileNotFoundError("gone")
    assert caught.value.hint == "check bucket and name"
