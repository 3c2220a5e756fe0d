"""Builds the core and its conformance program for x86-64, aarch64 and WebAssembly from one source.

Uses the clang of the PyPI package `ziglang`, which needs no other toolchain; for x86-64 also the
compilers named by --compiler. Writes build/matrix/conform-* and sakura.wasm.

    python native/build_matrix.py [--out build/matrix] [--compiler g++ --compiler clang++]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

NATIVE = Path(__file__).parent
FLAGS = (
    *("-std=c++20", "-O3", "-fno-exceptions", "-fno-rtti", "-ffreestanding", "-Wno-psabi"),
    *("-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off", "-fvisibility=hidden"),
)
AVX2 = ["-mavx2", "-mfma", "-mbmi2", "-mpopcnt"]
AVX512 = [*AVX2, *(f"-mavx512{part}" for part in ("f", "dq", "bw", "vl", "vbmi", "vbmi2", "vnni"))]
KERNELS = {
    "x86_64": {
        "kernel_sse4.cpp": ["-msse4.1", "-mpopcnt"],
        "kernel_avx2.cpp": AVX2,
        "kernel_avx512.cpp": AVX512,
    },
    "aarch64": {"kernel_neon.cpp": []},
    "wasm32": {"kernel_wasm.cpp": ["-msimd128"]},
}
ZIG = [sys.executable, "-m", "ziglang", "c++"]
EXPORTS = ("sakura_conform", "__heap_base")


def compile_all(compiler: list[str], machine: str, out: Path) -> list[str]:
    """Objects of the core, its kernels and the conformance checks."""
    out.mkdir(parents=True, exist_ok=True)
    everywhere = ["-msimd128"] if machine == "wasm32" else []
    sources = {"core.cpp": everywhere, **KERNELS[machine], "conform.cpp": everywhere}
    main = [] if machine == "wasm32" else ["-DSAKURA_CONFORM_MAIN"]
    objects = []
    for source, flags in sources.items():
        target = out / Path(source).with_suffix(".o")
        command = [*compiler, *FLAGS, *flags, *main, "-c", str(NATIVE / source)]
        subprocess.run([*command, "-o", str(target)], check=True)
        objects.append(str(target))
    return objects


def build_program(compiler: list[str], machine: str, out: Path, name: str) -> Path:
    """A program that checks every kernel of the machine it runs on."""
    objects = compile_all(compiler, machine, out / name)
    program = out / f"conform-{name}"
    subprocess.run([*compiler, *objects, "-nostdlib", "-static", "-o", str(program)], check=True)
    return program


def build_wasm(out: Path) -> Path:
    """A module without imports."""
    target = [*ZIG, "-target", "wasm32-freestanding"]
    objects = compile_all(target, "wasm32", out / "wasm32")
    module = out / "sakura.wasm"
    exports = [f"-Wl,--export={name}" for name in EXPORTS]
    link = ["-nostdlib", "-Wl,--no-entry", *exports, "-Wl,--export-dynamic"]
    subprocess.run([*target, *objects, *link, "-o", str(module)], check=True)
    return module


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("build/matrix"))
    parser.add_argument("--compiler", action="append", default=[])
    parser.add_argument("--target", action="append", choices=tuple(KERNELS), default=[])
    args = parser.parse_args()
    targets = args.target or list(KERNELS)
    for compiler in args.compiler:
        print(build_program([compiler], "x86_64", args.out, Path(compiler).name))
    for machine in targets:
        if machine == "wasm32":
            print(build_wasm(args.out))
        else:
            target = [*ZIG, "-target", f"{machine}-linux-musl"]
            print(build_program(target, machine, args.out, machine))


if __name__ == "__main__":
    main()
