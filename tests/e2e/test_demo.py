"""The demo and the verbs that need a model, end to end with random weights and one small task."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from sakura.bench.demo import make_report, run_all, run_demo
from sakura.bench.devices import LinkScale
from sakura.bench.methods import Attempt
from sakura.bench.options import DemoOptions, Link
from sakura.bench.packed import DemoModel, Packed
from sakura.bench.report import HEADERS, METHODS, DemoReport, table_rows
from sakura.bench.tasks import load_task
from sakura.cli import run
from sakura.codec import fit_profile
from sakura.events import Event, read_jsonl
from sakura.fidelity import MAX_DB
from sakura.format import Head, parse_head, verify_bundle
from sakura.images import load_rgb
from sakura.models.base import Request, full_compute
from sakura.models.mini import MiniAdapter
from sakura.models.mini_net import MiniFlux2
from sakura.models.threads import one_thread
from sakura.origin.serve import OriginProcess
from sakura.pack import load_template
from sakura.play import edit_on_device
from sakura.store.trace import Trace

TASK = "try-on"


class Recorder:
    """A watch that keeps what it is told; stops the demo at a stage that contains `stop_at`."""

    def __init__(self, stop_at: str | None = None) -> None:
        self.stages: list[tuple[str, float]] = []
        self.kinds: set[str] = set()
        self._stop_at = stop_at

    def stage(self, text: str, fraction: float) -> None:
        self.stages.append((text, fraction))
        if self._stop_at is not None and self._stop_at in text:
            raise KeyboardInterrupt

    def event(self, event: Event) -> None:
        self.kinds.add(event.kind)


def make_adapter(seed: int) -> MiniAdapter:
    torch.manual_seed(seed)
    return MiniAdapter(MiniFlux2(), f"{seed:064d}")


def packed_task(adapter: MiniAdapter) -> Packed:
    task = load_task(TASK)
    template = load_template(
        task.template_path, task.mask_path, TASK, adapter=adapter, placement=task.placement
    )
    request = Request(load_rgb(task.reference_path), seed=task.seed)
    return Packed(task, template, request, {})


@dataclass(frozen=True)
class Done:
    """A finished demo."""

    adapter: MiniAdapter
    out: Path
    report: DemoReport
    watch: Recorder


@pytest.fixture(scope="module", autouse=True)
def single_thread() -> Iterator[None]:
    """As the demo does, and for the same reason."""
    with one_thread():
        yield


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Done:
    adapter = make_adapter(0)
    one = packed_task(adapter)
    edit = adapter.prepare(one.template, one.request)
    with adapter.capture(edit) as recorder:
        list(full_compute(edit, adapter.schedule, adapter.geometry))
    profile = fit_profile([recorder.states()])
    out, watch = tmp_path_factory.mktemp("demo") / "out", Recorder()
    options = DemoOptions(out=out, trace="5g-walk", repetitions=1, tasks=(TASK,))
    report = run_demo(options, watch, DemoModel(adapter, profile, num_calibration=1))
    return Done(adapter, out, report, watch)


def children() -> set[str]:
    """Process ids of this process's children."""
    return {
        pid
        for path in Path("/proc/self/task").glob("*/children")
        for pid in path.read_text().split()
    }


def test_the_demo_writes_everything(done: Done) -> None:
    names = {
        path.relative_to(done.out).as_posix() for path in done.out.rglob("*") if path.is_file()
    }
    runs = {
        f"{TASK}-{method}{suffix}"
        for method in METHODS
        for suffix in (".png", "-timeline.png", "-events.jsonl")
    }
    store = {f"store/{TASK}.skv", f"store/{TASK}-uncompressed.skv"}
    assert names == runs | store | {f"{TASK}-sheet.png", "index.html", "report.json"}
    assert [path.name for path in done.out.parent.iterdir()] == ["out"]


def test_the_report_file_is_the_report(done: Done) -> None:
    document = json.loads((done.out / "report.json").read_text("utf-8"))
    assert document == json.loads(json.dumps(done.report.to_json()))
    assert [run["method"] for run in document["runs"]] == list(METHODS)


def test_rows_agree_with_what_the_methods_are(done: Done) -> None:
    device, raw, ours = (done.report.row(TASK, method) for method in METHODS)
    num_blocks = done.adapter.schedule.num_steps * done.adapter.geometry.num_blocks
    assert (device.recomputed_blocks, device.num_bytes, device.bundle_bytes) == (num_blocks, 0, 0)
    assert (raw.recomputed_blocks, raw.injected_blocks) == (0, num_blocks)
    assert ours.recomputed_blocks + ours.injected_blocks == num_blocks
    assert raw.num_bytes >= raw.raw_state_bytes == ours.raw_state_bytes
    assert ours.bundle_bytes == (done.out / "store" / f"{TASK}.skv").stat().st_size
    assert raw.psnr_vs_uncompressed_db == device.psnr_vs_full_db == MAX_DB
    for row in done.report.runs:
        assert row.open_s >= 0
        assert 0 <= row.startup_s <= row.latency_s
        assert row.mask_ratio == pytest.approx(27 / 256)


def test_a_fallback_to_the_device_is_no_uncompressed_reference(done: Done) -> None:
    one = packed_task(done.adapter)
    device = Attempt(edit_on_device(done.adapter, one.template, one.request))
    streamed = replace(
        device,
        result=replace(device.result, report=replace(device.result.report, finished_by="stream")),
    )
    attempts = {(TASK, method): [device] for method in METHODS}
    setting = DemoOptions(repetitions=1), Link(Trace.constant(1e8), 0.0, LinkScale(1.0, 1.0))
    report = make_report(done.adapter, [one], attempts, setting)
    for row in json.loads(json.dumps(report.to_json()))["runs"]:
        assert row["psnr_vs_uncompressed_db"] is None
        assert "uncompressed" in row["psnr_vs_uncompressed_note"]
    column = HEADERS.index("raw")
    assert {cells[column] for cells in table_rows(report)} == {"-"}
    attempts[TASK, "uncompressed"] = [device, streamed]
    report = make_report(done.adapter, [one], attempts, setting)
    assert {row.psnr_vs_uncompressed_db for row in report.runs} == {MAX_DB}
    assert {row.psnr_vs_uncompressed_note for row in report.runs} == {None}


def test_bundles_in_the_store_are_intact(done: Done) -> None:
    for path in (done.out / "store").iterdir():
        data = path.read_bytes()
        assert verify_bundle(lambda at, n, d=data: d[at : at + n], len(data)).is_intact  # type: ignore[misc]


def test_event_logs_and_pictures_can_be_read(done: Done) -> None:
    for method in METHODS:
        events = read_jsonl((done.out / f"{TASK}-{method}-events.jsonl").read_text().splitlines())
        assert (events[0].kind, events[-1].kind) == ("run_start", "run_end")
        with Image.open(done.out / f"{TASK}-{method}.png") as image:
            assert image.size == (128, 128)
    page = (done.out / "index.html").read_text("utf-8")
    assert page.count("data:image/png;base64,") == 1 + len(METHODS)


def test_the_watch_sees_progress_and_events(done: Done) -> None:
    fractions = [fraction for _, fraction in done.watch.stages]
    assert fractions == sorted(fractions)
    assert 0 <= fractions[0] <= fractions[-1] <= 1
    assert {"block", "step", "run_end", "fetch_bytes"} <= done.watch.kinds


def test_an_interrupt_ends_every_process(done: Done) -> None:
    before, one = children(), packed_task(done.adapter)
    setting = DemoOptions(repetitions=1), Link(Trace.constant(1e8), 0.0, LinkScale(1.0, 1.0))
    watch = Recorder(stop_at="uncompressed")
    with pytest.raises(KeyboardInterrupt):
        run_all(done.adapter, [one], setting, done.out / "store", watch)
    assert [text for text, _ in watch.stages][-1].startswith(f"{TASK}, uncompressed")
    assert children() == before


def test_a_trace_that_is_not_there_is_found_out_before_the_work(tmp_path: Path) -> None:
    watch = Recorder()
    assert run(["demo", "--trace", "no-such-trace", "--out", str(tmp_path / "out")]) == 2
    assert watch.stages == []
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def mini(done: Done, monkeypatch: pytest.MonkeyPatch) -> MiniAdapter:
    """Commands load the model with random weights."""
    monkeypatch.setattr("sakura.models.load_model", lambda name: done.adapter)
    return done.adapter


def test_pack_writes_the_bundle_of_the_demo(
    done: Done, mini: MiniAdapter, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task, out = load_task(TASK), tmp_path / "x.skv"
    placement = ",".join(str(v) for v in task.placement)
    args = ["pack", str(task.template_path), "--mask", str(task.mask_path), "--task", TASK]
    args += ["-o", str(out), "--placement", placement, "--codec", "raw-bf16/1"]
    assert run(args) == 0
    assert capsys.readouterr().out == f"{out}\n"
    with OriginProcess(tmp_path) as origin:
        url = f"{origin.url}/x.skv"
        assert run(["inspect", url]) == 0
        assert run(["verify", url]) == 0
    assert "intact" in capsys.readouterr().out


@pytest.mark.parametrize("placement", ["1,2,3", "a,b,c,d", "0,0,0,0"])
def test_pack_refuses_a_bad_placement(
    mini: MiniAdapter, tmp_path: Path, placement: str, capsys: pytest.CaptureFixture[str]
) -> None:
    task = load_task(TASK)
    args = ["pack", str(task.template_path), "--mask", str(task.mask_path), "--task", TASK]
    assert run([*args, "-o", str(tmp_path / "x.skv"), "--placement", placement]) == 2
    assert "hint:" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def edit_args(bundle: str, out: Path) -> list[str]:
    task = load_task(TASK)
    reference = str(task.reference_path)
    return ["edit", bundle, "--reference", reference, "--seed", str(task.seed), "-o", str(out)]


def test_edit_streams_and_writes_its_logs(
    done: Done, mini: MiniAdapter, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, events, timeline = (tmp_path / name for name in ("e.png", "e.jsonl", "t.png"))
    with OriginProcess(done.out / "store") as origin:
        args = edit_args(f"{origin.url}/{TASK}-uncompressed.skv", out)
        args += ["--policy", "wait", "--events", str(events), "--timeline", str(timeline)]
        assert run([*args, "--json"]) == 0
    stdout, stderr = capsys.readouterr()
    report = json.loads(stdout)
    assert stderr == ""
    assert (report["output"], report["finished_by"]) == (str(out), "stream")
    assert np.array_equal(load_rgb(out), load_rgb(done.out / f"{TASK}-uncompressed.png"))
    assert read_jsonl(events.read_text().splitlines())[-1].kind == "run_end"
    assert timeline.read_bytes().startswith(b"\x89PNG")


def test_edit_from_the_cache_needs_no_origin(
    done: Done, mini: MiniAdapter, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, cache = tmp_path / "e.png", str(tmp_path / "cache")
    with OriginProcess(done.out / "store") as origin:
        args = edit_args(f"{origin.url}/{TASK}-uncompressed.skv", out)
        args += ["--policy", "wait", "--cache", cache]
        for expected in (False, True):
            assert run([*args, "--json"]) == 0
            stdout, stderr = capsys.readouterr()
            assert stderr == ""
            report = json.loads(stdout)
            assert (report["num_bytes"] == 0, report["head_bytes"] == 0) == (expected, expected)
            assert (report["cached_bytes"] > 0) == expected
    out.unlink()
    assert run(args) == 0
    stdout, stderr = capsys.readouterr()
    assert stdout == f"{out}\n"
    assert "warning:" in stderr and "editing from the cache" in stderr
    assert "0 B fetched" in stderr and "cached" in stderr
    assert np.array_equal(load_rgb(out), load_rgb(done.out / f"{TASK}-uncompressed.png"))
    assert run(["cache", "ls", "--cache", cache]) == 0
    assert f"{TASK}-uncompressed.skv" in capsys.readouterr().out


def test_edit_makes_several_pictures(
    done: Done, mini: MiniAdapter, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, events = tmp_path / "e.png", tmp_path / "e.jsonl"
    bundle = str(done.out / "store" / f"{TASK}-uncompressed.skv")
    args = [*edit_args(bundle, out), "--policy", "wait", "--num-images", "2"]
    assert run([*args, "--events", str(events), "--json"]) == 0
    reports = json.loads(capsys.readouterr().out)
    paths = [tmp_path / "e-1.png", tmp_path / "e-2.png"]
    assert [report["output"] for report in reports] == [str(path) for path in paths]
    assert [report["num_bytes"] > 0 for report in reports] == [True, False]
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "e-1.jsonl",
        "e-1.png",
        "e-2.jsonl",
        "e-2.png",
    ]
    assert np.array_equal(load_rgb(paths[0]), load_rgb(done.out / f"{TASK}-uncompressed.png"))
    second = [*args[:-2], "--seed", str(load_task(TASK).seed + 1)]
    assert run(second) == 0
    assert capsys.readouterr().out == f"{out}\n"
    assert np.array_equal(load_rgb(paths[1]), load_rgb(out))


def test_edit_warns_of_damage_although_there_is_a_picture(
    done: Done, mini: MiniAdapter, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = bytearray((done.out / "store" / f"{TASK}-uncompressed.skv").read_bytes())
    head = parse_head(bytes(data), len(data))
    assert isinstance(head, Head)
    shard = head.manifest.shards[-1]
    data[head.span(shard.layers[0])[0]] ^= 1
    damaged, out = tmp_path / "damaged.skv", tmp_path / "e.png"
    damaged.write_bytes(data)
    assert run([*edit_args(str(damaged), out), "--policy", "wait", "--json"]) == 0
    stdout, stderr = capsys.readouterr()
    report = json.loads(stdout)
    assert (report["num_damaged"], report["finished_by"]) == (1, "mixed")
    assert report["damaged_shards"] == [[shard.block, shard.component]]
    assert "warning: 1 damaged" in stderr
    assert f"block {shard.block} component {shard.component}" in stderr
    assert out.exists()


def test_edit_falls_back_to_the_device(
    done: Done, mini: MiniAdapter, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task, out = load_task(TASK), tmp_path / "e.png"
    with OriginProcess(tmp_path) as origin:
        url = f"{origin.url}/gone.skv"
    assert run(edit_args(url, out)) == 5
    assert "--template" in capsys.readouterr().err
    assert not out.exists()
    args = [*edit_args(url, out), "--template", str(task.template_path), "--task", TASK]
    assert run([*args, "--template-mask", str(task.mask_path)]) == 0
    stdout, stderr = capsys.readouterr()
    assert stdout == f"{out}\n"
    assert "warning:" in stderr
    assert "48 of 48 blocks computed" in stderr


def test_edit_refuses_another_model(
    done: Done,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sakura.models.load_model", lambda name: make_adapter(1))
    bundle = str(done.out / "store" / f"{TASK}.skv")
    assert run(edit_args(bundle, tmp_path / "e.png")) == 4
    assert "hint:" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_edit_refuses_a_mask_of_another_size(
    done: Done, mini: MiniAdapter, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mask = tmp_path / "mask.png"
    Image.new("L", (64, 64), 255).save(mask)
    bundle = str(done.out / "store" / f"{TASK}-uncompressed.skv")
    assert run([*edit_args(bundle, tmp_path / "e.png"), "--mask", str(mask)]) == 2
    assert "128 x 128" in capsys.readouterr().err
