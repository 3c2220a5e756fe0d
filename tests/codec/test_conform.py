"""The kernels of other machines, built by native/build_matrix.py and run where there is something
to run them."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.codec import vectors

NATIVE = Path(__file__).parents[2] / "native"
needs_zig = pytest.mark.skipif(
    importlib.util.find_spec("ziglang") is None, reason="the package ziglang is not installed"
)


def build(machine: str, out: Path) -> None:
    """Build for one machine."""
    command = [sys.executable, str(NATIVE / "build_matrix.py"), "--out", str(out)]
    subprocess.run([*command, "--target", machine], check=True)


@needs_zig
@pytest.mark.timeout(900)
@pytest.mark.skipif(not shutil.which("qemu-aarch64"), reason="qemu-aarch64 is not installed")
def test_aarch64_conforms(tmp_path: Path) -> None:
    build("aarch64", tmp_path)
    vectors.write(tmp_path / "vectors")
    command = ["qemu-aarch64", str(tmp_path / "conform-aarch64")]
    with (tmp_path / "vectors").open("rb") as file:
        answer = subprocess.run(command, stdin=file, capture_output=True, text=True, check=False)
    assert answer.stdout == "scalar neon conform\n"


@needs_zig
@pytest.mark.timeout(900)
@pytest.mark.skipif(not shutil.which("node"), reason="node is not installed")
def test_webassembly_conforms(tmp_path: Path) -> None:
    build("wasm32", tmp_path)
    vectors.write(tmp_path / "vectors")
    command = ["node", str(NATIVE / "conform.mjs"), str(tmp_path / "sakura.wasm")]
    answer = subprocess.run(
        [*command, str(tmp_path / "vectors")], capture_output=True, text=True, check=False
    )
    assert answer.stdout == "scalar wasm conform\n"
