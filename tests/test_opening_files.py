"""Files of runs are opened in one module, which follows no link out of a run and blocks nowhere."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.paths import ROOT

FOLDERS = (
    "engine/run",
    "engine/logs",
    "engine/supervise",
    "engine/report",
)
FILES = (
    "engine/base/jsonl.py",
    "engine/base/locks.py",
    "engine/base/follow.py",
    "engine/launch/launcher.py",
    "engine/launch/resume.py",
    "engine/launch/guard.py",
    "engine/doctor/live.py",
    "engine/doctor/text/findings.py",
)
OPENING = frozenset(
    {"open", "read_text", "write_text", "read_bytes", "write_bytes", "copyfile", "touch"}
)
ALLOWED = {
    # Folders that are only held open or locked.
    ("engine/run/run.py", "os.open"),
    ("engine/base/locks.py", "os.open"),
    # The reader of a log format, not a file.
    ("engine/logs/formats/external_run.py", "open"),
    ("engine/logs/formats/plugin_format.py", "open"),
    ("engine/supervise/program_steps.py", "open"),
    # An entry of a zip file.
    ("engine/report/package.py", "open"),
    # What comes with this program, and what the installer recorded of it.
    ("engine/run/categories.py", "read_text"),
    ("engine/run/history/metrics.py", "read_bytes"),
    ("engine/run/trainer_settings.py", "read_bytes"),
    ("engine/run/host/environment.py", "read_text"),
    # Files that the person names: a token, data, a model, the experiment log.
    ("engine/supervise/ray_jobs.py", "read_text"),
    ("engine/run/host/environment.py", "open"),
    ("engine/run/checkpoints/model_folder.py", "open"),
    ("engine/report/numbered_log.py", "read_text"),
}


def sources() -> list[Path]:
    found = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    return sorted([*found, *(ROOT / name for name in FILES)])


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_files_are_opened_through_the_one_module(path: Path) -> None:
    name = str(path.relative_to(ROOT))
    found = {(name, call) for call in calls(ast.parse(path.read_text(encoding="utf-8")))}
    assert found <= ALLOWED, "open it with engine.base.files"


def test_what_is_allowed_is_there() -> None:
    found = {
        (str(path.relative_to(ROOT)), call)
        for path in sources()
        for call in calls(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert found >= ALLOWED


def calls(tree: ast.AST) -> Iterator[str]:
    """The calls that open a file by its path; ``LogFile.open`` and the like are our own."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        if isinstance(called, ast.Name) and called.id in OPENING:
            yield called.id
        elif isinstance(called, ast.Attribute) and called.attr in OPENING:
            owner = called.value
            if isinstance(owner, ast.Name) and owner.id == "os":
                yield f"os.{called.attr}"
            elif not (_is_ours(owner) or _is_of_the_kernel(owner)):
                yield called.attr


def _is_of_the_kernel(owner: ast.expr) -> bool:
    """``Path("/proc/...")``"""
    return isinstance(owner, ast.Call) and ast.unparse(owner).startswith(
        ("Path('/proc", "Path(f'/proc")
    )


def _is_ours(owner: ast.expr) -> bool:
    """A reader's own ``open`` takes no path that is not checked."""
    name = owner.id if isinstance(owner, ast.Name) else getattr(owner, "attr", "")
    return name in {"LogFile", "found", "format"}
