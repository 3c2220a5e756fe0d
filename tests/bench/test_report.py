"""The report: the fields that are promised, in JSON, and the figures made from them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from sakura.bench.report import HEADERS, METHODS, DemoReport, Row, headline, setting, table_rows

PROMISED = {
    *("task", "method", "latency_s", "startup_s", "stall_s", "num_stalls", "num_bytes"),
    *("raw_state_bytes", "bundle_bytes", "psnr_vs_full_db", "psnr_vs_uncompressed_db"),
    *("psnr_vs_truth_db", "recomputed_blocks", "mask_ratio"),
}
ROW = Row(
    task="try-on",
    method="sakura",
    latency_s=0.5,
    open_s=0.005,
    startup_s=0.01,
    stall_s=0.02,
    num_stalls=1,
    num_bytes=100_000,
    raw_state_bytes=6_000_000,
    bundle_bytes=300_000,
    psnr_vs_full_db=35.0,
    psnr_vs_uncompressed_db=42.0,
    psnr_vs_truth_db=22.0,
    recomputed_blocks=6,
    injected_blocks=42,
    mask_ratio=0.1,
    latencies_s=(0.5, 0.4, 0.6),
    finished_by="mixed",
)


def report() -> DemoReport:
    latencies_s = {"on-device": 1.0, "uncompressed": 2.0, "sakura": 0.5}
    rows = [
        replace(ROW, task=task, method=method, latency_s=factor * latencies_s[method])
        for task, factor in (("try-on", 1.0), ("face-swap", 3.0))
        for method in METHODS
    ]
    return DemoReport(
        runs=tuple(rows),
        machine={"processor": "abacus", "num_cpus": 2},
        trace={"name": "train-ride", "mean_bps": 2e7, "rtt_s": 0.04},
        link_scale={"like": "model@phone", "rate": 0.5, "time": 0.01},
        versions={"sakura": "0"},
        settings={"repetitions": 3},
    )


def test_json_has_the_promised_fields() -> None:
    document = json.loads(json.dumps(report().to_json()))
    assert {"runs", "machine", "trace", "link_scale", "versions"} <= set(document)
    assert len(document["runs"]) == 6
    for run in document["runs"]:
        assert set(run) >= PROMISED
        assert run["method"] in METHODS


def test_figures_over_all_tasks() -> None:
    assert report().tasks == ("try-on", "face-swap")
    assert report().speedup("on-device") == pytest.approx(2.0)
    assert report().speedup("uncompressed") == pytest.approx(4.0)
    assert report().compression == pytest.approx(20.0)
    assert report().mean("sakura", "psnr_vs_full_db") == pytest.approx(35.0)


def test_the_table_has_a_cell_for_every_header() -> None:
    rows = table_rows(report())
    assert {len(row) for row in rows} == {len(HEADERS)}
    cells = dict(zip(HEADERS, rows[2], strict=True))
    assert cells["latency"] == "500.0 ms"
    assert cells["computed"] == "6/48"
    assert cells["raw"] == "42.0"


def test_the_headline_names_both_comparisons() -> None:
    assert "2.00x as fast as on-device" in headline(report())
    assert "4.00x as fast as uncompressed" in headline(report())


def test_the_setting_names_network_scale_and_machine() -> None:
    text = setting(report())
    for part in ("train-ride", "20.0 Mbit/s", "model@phone", "x 0.5", "of 3", "abacus"):
        assert part in text
