"""Model families by name: their adapter, and the codec profile that ships with it.

Nothing is imported or read before it is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType

from sakura.codec import CodecProfile, load_profile
from sakura.errors import CodecError, InputError
from sakura.models.base import Adapter

ADAPTERS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {"mini": ("sakura.models.mini", "MiniAdapter")}
)
"""Module and class of each model that `load_model` knows."""

TASKS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"mini": ("face-swap", "try-on", "into-scene")}
)
"""Tasks of each model, to be known before it is loaded."""


def load_model(name: str) -> Adapter:
    """The adapter of a model, with its weights.

    Raises:
        InputError: no such model, or what it needs is not installed.
    """
    if name not in ADAPTERS:
        raise InputError(f"unknown model {name!r}", hint=f"known: {', '.join(sorted(ADAPTERS))}")
    module, class_name = ADAPTERS[name]
    try:
        adapter: Adapter = getattr(import_module(module), class_name).load()
    except ImportError as error:
        raise InputError(
            f"model {name!r} needs torch and diffusers: {error}",
            hint='pip install "sakura-kv[torch]"',
        ) from error
    except FileNotFoundError as error:
        raise InputError(
            f"the weights of {name!r} are missing: {error.filename}",
            hint="reinstall sakura-kv",
        ) from error
    return adapter


@cache
def profile_for(family: str) -> CodecProfile:
    """The codec profile that ships for a model family.

    Raises:
        CodecError: there is none.
    """
    path = Path(str(files("sakura").joinpath("assets", f"{family.replace('-', '_')}.skp")))
    if not path.is_file():
        raise CodecError(f"no codec profile for model family {family!r}", where=path.name)
    return load_profile(path)
