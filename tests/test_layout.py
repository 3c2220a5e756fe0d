"""The repository's own rules: sizes, signatures, links, and that documents and commands agree."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

import sakura
from sakura.cli import VERBS

ROOT = Path(__file__).parent.parent
MODULES = sorted((ROOT / "src").rglob("*.py"))
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("tests/*/*.md")])
MAX_MODULE_LINES = 300
MAX_FUNCTION_LINES = 45
MAX_PARAMETERS = 5

Function = ast.FunctionDef | ast.AsyncFunctionDef


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def functions(path: Path) -> Iterator[Function]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, Function):
            yield node


def body_lines(function: Function) -> int:
    """Lines from `def` to the end, the docstring not counted."""
    first = function.body[0]
    total = (function.end_lineno or function.lineno) - function.lineno + 1
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        total -= (first.end_lineno or first.lineno) - first.lineno + 1
    return total


def parameters(function: Function) -> int:
    arguments = function.args
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")])


def test_modules_are_small() -> None:
    lines = {name_of(path): len(path.read_text().splitlines()) for path in MODULES}
    assert {name: n for name, n in lines.items() if n > MAX_MODULE_LINES} == {}
    assert median(lines.values()) <= 150


def test_functions_fit_on_a_screen() -> None:
    long = {
        f"{name_of(path)}:{function.name}": body_lines(function)
        for path in MODULES
        for function in functions(path)
        if body_lines(function) > MAX_FUNCTION_LINES
    }
    assert long == {}


def test_functions_have_few_parameters() -> None:
    """Verbs too: their options are gathered in dataclasses."""
    many = {
        f"{name_of(path)}:{function.name}": parameters(function)
        for path in MODULES
        for function in functions(path)
        if parameters(function) > MAX_PARAMETERS
    }
    assert many == {}


def test_nothing_asks_what_an_object_has() -> None:
    """A protocol or a registry answers that."""
    asked = [name_of(path) for path in MODULES if re.search(r"\bhasattr\(", path.read_text())]
    assert asked == []


def test_leaving_a_with_block_is_written_once() -> None:
    """An `__exit__` that only closes takes `*_: object`."""
    spelled = {name_of(path) for path in MODULES if "TracebackType" in path.read_text()}
    assert spelled <= {"src/sakura/play/player.py"}


def test_no_method_is_cached_outside_its_object() -> None:
    """A cache on a method keeps every object that it was called on, or forgets one for another."""
    cached = [
        f"{name_of(path)}:{method.name}"
        for path in MODULES
        for owner in ast.walk(ast.parse(path.read_text()))
        if isinstance(owner, ast.ClassDef)
        for method in owner.body
        if isinstance(method, Function)
        and any(re.search(r"\b(lru_)?cache\b", ast.unparse(d)) for d in method.decorator_list)
    ]
    assert cached == []


def test_modules_say_what_they_are_for() -> None:
    silent = [
        name_of(path) for path in MODULES if not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert silent == []


def test_no_module_is_named_for_nothing() -> None:
    vague = {"utils", "helpers", "common", "misc"}
    assert [name_of(path) for path in MODULES if vague & set(path.with_suffix("").parts)] == []


def test_public_names_are_few_sorted_and_there() -> None:
    assert len(sakura.__all__) <= 20
    assert sakura.__all__ == sorted(sakura.__all__)
    assert [name for name in sakura.__all__ if getattr(sakura, name, None) is None] == []


def test_every_extra_that_an_error_names_exists() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = {
        extra.strip()
        for path in MODULES
        for extras in re.findall(r"sakura-kv\[([\w, -]+)\]", path.read_text())
        for extra in extras.split(",")
    }
    assert named <= set(project["optional-dependencies"])


def anchors(path: Path) -> set[str]:
    """GitHub's anchors of a document's headings."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_docs_links_resolve(path: Path) -> None:
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", path.read_text()):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = link.partition("#")
        target = path.parent / file if file else path
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def verbs_in(path: Path) -> set[str]:
    """Every VERB of `sakura VERB` in code spans and code blocks."""
    text = path.read_text()
    code = re.findall(r"```.*?```", text, re.DOTALL) + re.findall(r"`[^`\n]+`", text)
    return {
        verb for part in code for verb in re.findall(r"(?m)(?:^|[`$/ ])sakura ([a-z]\w*)", part)
    }


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_docs_name_only_commands_that_exist(path: Path) -> None:
    assert verbs_in(path) <= set(VERBS)


def test_docs_name_every_command() -> None:
    assert set(VERBS) <= verbs_in(ROOT / "README.md")


def test_docs_name_only_targets_that_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {
        target
        for path in DOCUMENTS
        for target in re.findall(r"(?:^|`)make ([a-z]+)", path.read_text(), re.MULTILINE)
    }
    assert named <= targets


def test_every_command_has_a_file_with_help() -> None:
    from sakura.cli import cli

    context = cli.make_context("sakura", [], resilient_parsing=True)
    commands = {verb: cli.get_command(context, verb) for verb in VERBS}
    assert [verb for verb, command in commands.items() if not command or not command.help] == []
