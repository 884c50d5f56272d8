"""What a page tells to type can be typed: options exist, arguments fit, keys are known.

The files and functions that it names exist.
"""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.config.config_files import list_configs
from engine.config.load import load_config
from tests.command_lines import commands_of, refusal, shell_lines
from tests.paths import ROOT

pytestmark = pytest.mark.long

PAGES = {
    str(path.relative_to(ROOT)): path.read_text()
    for path in (*sorted(ROOT.glob("docs/*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md")
}
TAKE_CONFIGS = ("launch", "check", "config", "estimate", "ablate", "tokens", "audit", "container")
PLACE = re.compile(r"`((?:engine|grubrics_tui|tests|benchmarks)/[\w./-]+)(?::([A-Za-z_][\w.]*))?`")
"""A file or folder in a page, and what it defines: ``engine/train/grpo.py:main``."""
OVERRIDE = re.compile(r"[a-z_]+(?:\.[a-z_]+)*=\S+")


def shown(page: str) -> list[list[str]]:
    return [words for line in shell_lines(PAGES[page]) for words in commands_of(line)]


@pytest.mark.parametrize("page", PAGES)
def test_the_command_line_takes_every_command_of_a_page(page: str) -> None:
    refused = {" ".join(words): why for words in shown(page) if (why := refusal(words))}
    assert refused == {}


def test_the_overrides_that_a_page_gives_a_config_are_keys_with_possible_values(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    names = {config.name for config in list_configs()}
    tried = 0
    for command, config, *rest in (words for page in PAGES for words in shown(page) if words[1:]):
        if command in TAKE_CONFIGS and config in names:
            load_config(config, [word for word in rest if OVERRIDE.fullmatch(word)], {})
            tried += 1
    assert tried > 20


@pytest.mark.parametrize("page", PAGES)
def test_the_modules_and_targets_that_a_page_names_exist(page: str) -> None:
    modules = set(re.findall(r"python -m ((?:engine|grubrics_tui|benchmarks)[\w.]*)", PAGES[page]))
    assert [name for name in sorted(modules) if importlib.util.find_spec(name) is None] == []
    made = set(re.findall(r"(?m)(?:`|^    |\|\| )make ([a-z]+)", PAGES[page]))
    targets = set(re.findall(r"(?m)^([a-z-]+):", Path(ROOT / "Makefile").read_text()))
    assert made <= targets


@pytest.mark.parametrize("page", PAGES)
def test_the_files_and_functions_that_a_page_names_exist(page: str) -> None:
    named = [place for place in PLACE.findall(PAGES[page]) if "NAME" not in place[0]]
    assert [path for path, _ in named if not (ROOT / path).exists()] == []
    assert [f"{path}:{name}" for path, name in named if name and not defines(path, name)] == []


def defines(path: str, name: str) -> bool:
    """Whether a file defines a function, a class, a constant or, as ``Class.method``, a method."""
    return name in definitions(ast.parse((ROOT / path).read_text()).body)


def definitions(body: list[ast.stmt], prefix: str = "") -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield f"{prefix}{node.name}"
        if isinstance(node, ast.ClassDef):
            yield from definitions(node.body, f"{prefix}{node.name}.")
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        yield from (f"{prefix}{target.id}" for target in targets if isinstance(target, ast.Name))


def test_a_missing_function_is_noticed() -> None:
    assert defines("engine/train/grpo.py", "main")
    assert not defines("engine/train/grpo.py", "mein")
