"""Upload offline runs of W&B with its own ``wandb sync``, and delete what was uploaded."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from engine.base import files, jsonl
from engine.base.errors import UsageError, unknown_name
from engine.base.masking import mask_text
from engine.logs.formats.wandb_folders import WandbFolder
from engine.run.run import Run
from engine.run.state import observed_state

SYNC_S = 300.0
_URL = re.compile(r"View run .*?(?:\x1b\[[0-9;]*m)*(https?://[^\s\x1b]+)")
_CONSOLE_HEAD = 4 * 1024 * 1024
_STYLE = re.compile(r"\x1b\[[0-9;]*m")
_REASON = re.compile(r"(?:ERROR|Error:?) (?!Find detailed)(.+)")


@dataclass(frozen=True)
class SyncResult:
    """What became of one folder: uploaded, or why not."""

    folder: WandbFolder
    problem: str | None = None
    url: str | None = None

    def to_json(self) -> dict[str, object]:
        return {**self.folder.to_json(), "problem": self.problem, "url": self.url}


def sync_command() -> list[str]:
    """W&B's own program. UsageError if it is not installed."""
    if find_spec("wandb") is None:
        raise UsageError("wandb is not installed. Install it: pip install wandb")
    return [sys.executable, "-P", "-m", "wandb", "sync", "--include-synced"]


def sync(
    folders: Sequence[WandbFolder], command: Sequence[str], timeout_s: float = SYNC_S
) -> Iterator[SyncResult]:
    """Upload each folder with a call of its own; a failure does not end the others."""
    for folder in folders:
        problem = why_not(folder)
        yield SyncResult(folder, problem) if problem else _sync_one(folder, command, timeout_s)


def why_not(folder: WandbFolder) -> str | None:
    """Why a folder cannot be uploaded yet: what is written after an upload would be lost."""
    run = run_around(folder.path)
    if run is not None and not observed_state(run).has_ended:
        return f"run '{run.id}' is still active"
    if folder.is_open:
        return "its log has no end and changed less than a minute ago; try again in a minute"
    return None


def _sync_one(folder: WandbFolder, command: Sequence[str], timeout_s: float) -> SyncResult:
    env = {**os.environ, "NO_COLOR": "1"}
    argv = [*command, str(folder.path)]
    try:
        done = subprocess.run(
            argv,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout_s,
        )
    except subprocess.TimeoutExpired as error:
        last = _last_line(_plain(error.stdout))
        return SyncResult(folder, f"no end after {timeout_s:g} s: {last}")
    except OSError as error:
        return SyncResult(folder, f"{argv[0]}: {error.strerror}")
    output = _plain(done.stdout)
    url = _find_url(output)
    # W&B exits with 0 after most failures; only the mark says that it has uploaded the run.
    if done.returncode == 0 and folder.is_synced:
        return SyncResult(folder, None, url)
    reasons = _REASON.findall(output)
    return SyncResult(folder, reasons[-1].strip() if reasons else _last_line(output), url)


def _plain(output: bytes | None) -> str:
    return mask_text(_STYLE.sub("", (output or b"").decode("utf-8", errors="replace")))


def _last_line(output: str) -> str:
    lines = [jsonl.line(line) or "" for line in output.splitlines() if line.strip()]
    return lines[-1].removeprefix("wandb: ") if lines else "wandb sync printed nothing"


def run_url(run: Run) -> str | None:
    """Return the address at which W&B shows a run: its console log names it, if it is online."""
    urls = [url for attempt in run.attempts() if (url := _find_url(_head(attempt.console)))]
    return urls[-1] if urls else None


def _head(console: Path) -> str:
    try:
        with files.open_regular(console) as file:
            return file.read(_CONSOLE_HEAD).decode("utf-8", errors="replace")
    except OSError:
        return ""


def _find_url(output: str) -> str | None:
    found = _URL.search(output)
    return jsonl.line(found[1]) if found else None


def run_around(path: Path) -> Run | None:
    """Return the run whose folder ``wandb`` contains ``path``."""
    run = Run(path.absolute().parent.parent)
    return run if path.absolute().parent.name == "wandb" and run.is_one() else None


def choose(folders: Sequence[WandbFolder], words: Iterable[str]) -> list[WandbFolder]:
    """Return the folders that ``words`` name: run IDs, names of folders, or paths.

    UsageError for a word that names none.
    """
    chosen: dict[Path, WandbFolder] = {}
    for word in words:
        matches = [each for each in folders if word in _names(each)]
        if not matches:
            raise unknown_name("W&B run", word, [each.run_id for each in folders])
        chosen.update((each.path, each) for each in matches)
    return list(chosen.values())


def _names(folder: WandbFolder) -> tuple[str, ...]:
    run = run_around(folder.path)
    own = (run.id,) if run is not None else ()
    return (folder.run_id, folder.path.name, str(folder.path), f"{folder.path}/", *own)


def removable(folders: Iterable[WandbFolder]) -> list[WandbFolder]:
    """Return the offline runs that were uploaded completely and that nobody writes."""
    return [each for each in folders if each.is_offline and each.is_synced and not why_not(each)]


def remove(folder: WandbFolder) -> None:
    """Delete an uploaded folder. OSError if it cannot be deleted."""
    shutil.rmtree(folder.path)
