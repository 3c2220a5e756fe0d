"""Each rule of docs/format.md: broken one at a time, named with its place."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from sakura.errors import FormatError
from sakura.format import Limits, Manifest, parse_head, read_manifest
from sakura.format.container import decode_manifest
from sakura.format.validate import Setting, find_problems
from sakura.format.version import Version, check_version
from tests.format.tiny import altered, reader, seal, split, tiny_bundle, tiny_manifest

BUNDLE = tiny_bundle()
Document = dict[str, Any]


def put(*path: str | int, value: object) -> Callable[[Document], None]:
    def change(document: Document) -> None:
        target: Any = document
        for step in path[:-1]:
            target = target[step]
        target[path[-1]] = value

    return change


def text(data: bytes) -> str:
    return base64.b64encode(data).decode()


BROKEN = {
    "header and manifest versions differ": (put("format", value=[1, 1]), "$.format"),
    "sigmas rise": (put("schedule", "sigmas", value=[0.5, 0.7, 0]), "$.schedule.sigmas[1]"),
    "sigmas stay": (put("schedule", "sigmas", value=[0.5, 0.5, 0]), "$.schedule.sigmas[1]"),
    "sigmas end above 0": (put("schedule", "sigmas", value=[1, 0.5, 0.1]), "$.schedule.sigmas[2]"),
    "no step": (put("schedule", "sigmas", value=[0]), "$.schedule.sigmas"),
    "no sigma": (put("schedule", "sigmas", value=[]), "$.schedule.sigmas"),
    "mask too long": (put("mask", value=text(bytes(3))), "$.mask"),
    "mask with stray bits": (put("mask", value=text(b"\x0c\x01")), "$.mask"),
    "empty mask": (put("mask", value=text(bytes(2))), "$.mask"),
    "full mask": (put("mask", value=text(b"\xff\x80")), "$.mask"),
    "active tokens in reference mode": (put("reuse", value="reference"), "$.mask"),
    "a token without a tile": (put("token_tiles", value=text(bytes(6))), "$.token_tiles"),
    "tokens in the wrong tile": (put("token_tiles", value=text(bytes(7))), "$.token_tiles"),
    "a tile that is not there": (
        put("token_tiles", value=text(bytes([2, 1, 0, 0, 0, 0, 1]))),
        "$.token_tiles",
    ),
    "tiles too narrow": (put("tiles", "widths", value=[4, 2]), "$.token_tiles"),
    "tiles too wide": (put("tiles", "widths", value=[4, 4]), "$.token_tiles"),
    "empty tile": (put("tiles", "widths", value=[7, 0]), "$.tiles.widths[1]"),
    "gains of a block missing": (put("tiles", "gains", value=[[0, 0]]), "$.tiles.gains"),
    "gain of a tile missing": (put("tiles", "gains", value=[[0, 0], [0]]), "$.tiles.gains[1]"),
    "gain beyond the codec": (put("tiles", "gains", 0, value=[0, 33]), "$.tiles.gains[0][1]"),
    "picture of another size": (put("template", "width", value=8), "$.template"),
    "blob digest cut": (
        put("template", "blob", "digest", value=text(bytes(8))),
        "$.template.blob.digest",
    ),
    "odd canary": (put("model", "canary", "values", value="AAAA"), "$.model.canary.values"),
    "empty canary": (put("model", "canary", "values", value=""), "$.model.canary.values"),
    "canary without tolerance": (
        put("model", "canary", "tolerance", value=0),
        "$.model.canary.tolerance",
    ),
    "digest in capitals": (
        put("model", "weights_digest", value="AB" * 16),
        "$.model.weights_digest",
    ),
    "deep conditioning": (
        put("conditioning", value={"a": [[[[[1]]]]]}),
        "$.conditioning.a",
    ),
    "block out of range": (put("shards", 0, 0, value=2), "$.shards[0].block"),
    "component out of range": (put("shards", 0, 1, value=2), "$.shards[0].component"),
    "shard twice": (put("shards", 0, 0, value=1), "$.shards[1]"),
    "shard missing": (lambda document: document["shards"].pop(), "$.shards"),
    "step of zero": (put("shards", 0, 2, value=[0, 1]), "$.shards[0][2][0]"),
    "negative energy": (put("shards", 0, 3, value=-1), "$.shards[0][3]"),
    "layer missing": (lambda document: document["shards"][2][4].pop(), "$.shards[2].layers"),
    "level without layers": (put("predicted", "levels", value=[1, 2, 3]), "$.shards[0].layers"),
    "large chunk": (
        put("shards", 0, 4, 1, 1, value=[65537]),
        "$.shards[0].layers[1].chunks",
    ),
    "empty chunk": (put("shards", 0, 4, 1, 1, value=[0]), "$.shards[0][4][1][1][0]"),
    "digest missing": (put("shards", 1, 4, 0, 2, value=""), "$.shards[1].layers[0].digests"),
    "layer beyond the end": (put("shards", 3, 4, 1, 0, value=57), "$.shards[3].layers[1]"),
    "layers overlap": (put("shards", 3, 4, 0, 0, value=24), "$.shards[3].layers[0]"),
    "hole in the data": (put("shards", 1, 4, 0, 1, value=[5]), "$.shards[2].layers[0]"),
    "layer over the picture": (
        put("template", "blob", "length", value=17),
        "$.shards[1].layers[0]",
    ),
    "no block": (
        put("geometry", value={"num_double": 0, "num_single": 0, "num_heads": 1, "head_dim": 4}),
        "$.geometry",
    ),
    "key missing": (lambda document: document.pop("noise"), "$"),
    "a number as text": (put("noise", "seed", value="7"), "$.noise.seed"),
    "unknown reuse": (put("reuse", value="both"), "$.reuse"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_is_named_with_its_place(name: str) -> None:
    change, where = BROKEN[name]
    bundle = altered(BUNDLE, change)
    with pytest.raises(FormatError) as caught:
        read_manifest(reader(bundle), len(bundle))
    assert caught.value.where == where


def test_reference_mode_has_one_component_and_no_active_token() -> None:
    def change(document: Document) -> None:
        document |= {"reuse": "reference", "mask": text(bytes(2))}
        document["token_tiles"] = text(bytes(9))
        document["tiles"] = {"widths": [9], "gains": [[0], [0]]}
        document["shards"] = document["shards"][:2]
        for index, shard in enumerate(document["shards"]):
            for level in range(2):
                shard[4][level] = [16 + 2 * index + level, [1], text(bytes(16)), 0]

    raw, data = split(altered(BUNDLE, change))
    bundle = seal(raw, data[:20])
    manifest = read_manifest(reader(bundle), len(bundle))
    assert manifest.num_components == 1
    assert manifest.token_mask.num_cached == 9


def test_all_problems_of_a_kind_are_found() -> None:
    manifest = msgspec.structs.replace(
        tiny_manifest(),
        schedule=msgspec.structs.replace(tiny_manifest().schedule, sigmas=(1.0, 1.0, 0.5)),
    )
    found = find_problems(manifest, Setting(Version(1, 0), 0, Limits()))
    assert [problem.where for problem in found] == ["$.schedule.sigmas[1]", "$.schedule.sigmas[2]"]


@pytest.mark.parametrize(
    ("limits", "where"),
    [
        (Limits(max_tokens=8), "$.grid"),
        (Limits(max_blocks=1), "$.geometry"),
        (Limits(max_steps=1), "$.schedule.sigmas"),
        (Limits(max_heads=0), "$.geometry.num_heads"),
        (Limits(max_head_dim=3), "$.geometry.head_dim"),
        (Limits(max_levels=1), "$.predicted.levels"),
        (Limits(max_shard_values=71), "$.geometry"),
        (Limits(max_manifest_bytes=100), "byte 8"),
    ],
)
def test_each_limit_holds(limits: Limits, where: str) -> None:
    with pytest.raises(FormatError) as caught:
        parse_head(BUNDLE, len(BUNDLE), limits)
    assert caught.value.where == where


def test_limits_are_inclusive() -> None:
    exact = Limits(len(split(BUNDLE)[0]), 9, 2, 2, 1, 4, 2, 72)
    assert read_manifest(reader(BUNDLE), len(BUNDLE), exact)


def test_unknown_keys_and_trailing_elements_are_ignored() -> None:
    def change(document: Document) -> None:
        document["zzz"] = {"later": [1, 2]}
        document["model"]["quantised"] = True
        document["shards"][0].append("later")
        document["shards"][1][4][0].append([3])

    bundle = altered(BUNDLE, change)
    assert read_manifest(reader(bundle), len(bundle)) == read_manifest(reader(BUNDLE), len(BUNDLE))


def test_a_newer_minor_version_may_leave_holes() -> None:
    def change(document: Document) -> None:
        document["format"] = [1, 9]

    raw, data = split(altered(BUNDLE, change))
    newer = seal(raw, data + b"something new", version=(1, 9))
    assert read_manifest(reader(newer), len(newer)).format == (1, 9)


@pytest.mark.parametrize("major", [0, 2, 65535])
def test_other_major_versions_are_refused(major: int) -> None:
    with pytest.raises(FormatError, match=f"version {major}.3, expected 1.x") as caught:
        check_version(Version(major, 3))
    assert caught.value.hint


def test_a_web_page_is_no_bundle() -> None:
    page = b"<!doctype html><title>404 Not Found</title>"
    with pytest.raises(FormatError, match="starts with b'<!do'") as caught:
        parse_head(page, len(page))
    assert caught.value.hint


def test_decoding_gives_frozen_values() -> None:
    manifest = decode_manifest(split(BUNDLE)[0])
    assert isinstance(manifest, Manifest)
    with pytest.raises(AttributeError):
        manifest.task = "other"  # type: ignore[misc]
