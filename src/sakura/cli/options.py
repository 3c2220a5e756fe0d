"""How verbs take their options: outputs that are checked before any work, and options gathered in
frozen dataclasses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from sakura.bench.machine import missing_modules
from sakura.errors import InputError
from sakura.store.writer import check_output
from sakura.units import parse_size

Result = TypeVar("Result")

InputPath = click.Path(path_type=Path)
CACHE_VARIABLE = "SAKURA_CACHE"
"""Environment variable that names the flash cache where no option does."""


class Output(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions only
    """A file to write; StoreError, before the verb begins, where that cannot be done.

    Args:
        may_be_url: takes bucket URLs as well and stays text; otherwise it becomes a path.
    """

    name = "file"

    def __init__(self, may_be_url: bool = False) -> None:
        self._may_be_url = may_be_url

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> str | Path:
        """Check the place; the file itself is not touched."""
        target = str(value) if self._may_be_url else Path(value)
        check_output(target)
        return target


class Size(click.ParamType):  # type: ignore[type-arg]  # see Output
    """Bytes, as people write them: `64MiB`."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Number of bytes; wrong usage where it is none."""
        try:
            return parse_size(str(value))
        except InputError as error:
            self.fail(f"{error} ({error.hint})", param, ctx)


def gathered(*kinds: type[Any]) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Decorate a verb: the options named like the fields of each dataclass come as one of it.

    The verb takes the dataclasses first, in the order given here, and all other options by name.
    """

    def decorate(verb: Callable[..., Result]) -> Callable[..., Result]:
        @wraps(verb)
        def callback(**values: Any) -> Result:
            made = [kind(**{f.name: values.pop(f.name) for f in fields(kind)}) for kind in kinds]
            return verb(*made, **values)

        return callback

    return decorate


def require(what: str, *extras: str) -> None:
    """Say at once what is not installed, and which extras bring it. Raises InputError."""
    lacking = {extra: modules for extra in extras if (modules := missing_modules(extra))}
    if lacking:
        names = ", ".join(module for modules in lacking.values() for module in modules)
        hint = f'pip install "sakura-kv[{",".join(lacking)}]"'
        raise InputError(f"{what} needs what is not installed: {names}", hint=hint)
