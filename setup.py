"""Builds the native codec core beside the Python package; the rest is in pyproject.toml."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CCompilerError, ExecError, PlatformError

NATIVE = Path("native")
FLAGS = [
    "-std=c++20",
    "-O3",
    "-ffreestanding",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=off",
    "-fvisibility=hidden",
    "-Wno-psabi",
]
X86 = {
    "kernel_sse4.cpp": ["-msse4.1", "-mpopcnt"],
    "kernel_avx2.cpp": ["-mavx2", "-mfma", "-mbmi2", "-mpopcnt"],
    "kernel_avx512.cpp": [
        "-mavx2",
        "-mfma",
        "-mbmi2",
        "-mpopcnt",
        "-mavx512f",
        "-mavx512dq",
        "-mavx512bw",
        "-mavx512vl",
        "-mavx512vbmi",
        "-mavx512vbmi2",
        "-mavx512vnni",
    ],
}
KERNELS = {
    "x86_64": X86,
    "amd64": X86,
    "aarch64": {"kernel_neon.cpp": []},
    "arm64": {"kernel_neon.cpp": []},
}
"""Kernels of each machine, an object each, with the flags of its instruction set."""
MISSING_COMPILER = """
sakura: the native codec core was not built ({reason}).
        The numpy codec does the same, byte for byte, and is much slower.
        hint: install a C++20 compiler (g++ >= 10 or clang >= 11), then `pip install .` again
"""


class BuildCore(build_ext):
    """Builds a plain shared library, loaded by ctypes: it exports no PyInit symbol."""

    def get_ext_filename(self, ext_name: str) -> str:
        suffix = ".pyd" if sys.platform == "win32" else ".so"
        return str(Path(*ext_name.split("."))) + suffix

    def get_export_symbols(self, ext: Extension) -> list[str]:
        return list(ext.export_symbols)

    def build_extension(self, ext: Extension) -> None:
        try:
            ext.extra_objects = self.compile_kernels(ext)
            super().build_extension(ext)
        except (CCompilerError, ExecError, PlatformError) as error:
            print(MISSING_COMPILER.format(reason=error), file=sys.stderr)

    def compile_kernels(self, ext: Extension) -> list[str]:
        """Objects of the kernels of this machine."""
        objects = []
        for source, flags in KERNELS.get(platform.machine().lower(), {}).items():
            objects += self.compiler.compile(
                [str(NATIVE / source)],
                output_dir=self.build_temp,
                include_dirs=ext.include_dirs,
                extra_postargs=[*FLAGS, *flags],
                depends=ext.depends,
            )
        return objects


def native_core() -> list[Extension]:
    """The one extension, or none in a source tree without native/."""
    if not (NATIVE / "core.cpp").exists():
        return []
    return [
        Extension(
            "sakura.codec._core",
            sources=[str(NATIVE / "core.cpp")],
            depends=[str(path) for path in sorted(NATIVE.glob("*.h*"))],
            include_dirs=[str(NATIVE)],
            extra_compile_args=FLAGS,
            language="c++",
            optional=True,
        )
    ]


setup(ext_modules=native_core(), cmdclass={"build_ext": BuildCore})
