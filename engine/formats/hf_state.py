"""``trainer_state.json`` of HF's Trainer and TRL, in a checkpoint or in the output folder.

The file is written anew with every checkpoint, each in a folder of its own.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from engine.base import jsonl
from engine.formats.hf_names import HfNames
from engine.formats.numbering import Numbering
from engine.formats.source import About, News, Sample
from engine.history.train_log import Step

NAME = "trainer_state.json"
_CHECKPOINT = re.compile(r"checkpoint-(\d{1,15})")
_LARGEST_FILE = 512 * 1024 * 1024


def is_it(sample: Sample) -> bool:
    head, ends = sample.head.lstrip(), sample.head + sample.tail
    return head.startswith(b"{") and b'"log_history"' in ends and b'"global_step"' in ends


def newest_state(folder: Path) -> Path | None:
    """The newest ``trainer_state.json`` of an output folder: its own, or the last checkpoint's."""
    found = []
    for path in folder.glob("checkpoint-*"):
        match = _CHECKPOINT.fullmatch(path.name)
        if match and (path / NAME).is_file():
            found.append((int(match[1]), path / NAME))
    if (folder / NAME).is_file():
        return folder / NAME
    return max(found)[1] if found else None


class HfState:
    """``Reader`` of a state file, or of an output folder whose newest state counts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[str, int, int, int] | None = None
        self._entries: list[Any] = []
        self._names = HfNames()
        self._numbering = Numbering()
        self._about = About()

    def poll(self, at_most: int) -> News:
        """The entries that are new. The file is one JSON object: it is read whole."""
        path = newest_state(self._path) if self._path.is_dir() else self._path
        if path is None or not self._changed(path):
            return News()
        raw = jsonl.read_json(path)
        if raw is None or not isinstance(raw.get("log_history"), list):
            self._seen = None  # Half written: the next look finds it whole.
            return News()
        self._about = _about(path, raw)
        # Two NaNs are not equal, two nulls are.
        return News(self._new_steps(jsonl.finite(raw["log_history"])))

    def about(self) -> About:
        return self._about

    def _changed(self, path: Path) -> bool:
        try:
            status = path.stat()
        except OSError:
            return False
        seen = (str(path), status.st_ino, status.st_size, status.st_mtime_ns)
        if seen == self._seen or status.st_size > _LARGEST_FILE:
            return False
        self._seen = seen
        return True

    def _new_steps(self, entries: list[Any]) -> list[Step]:
        same = 0
        for before, now in zip(self._entries, entries, strict=False):
            if before != now:
                break
            same += 1
        self._entries = entries
        return [step for entry in entries[same:] if (step := self._step(entry)) is not None]

    def _step(self, entry: Any) -> Step | None:
        number = jsonl.integer(entry.get("step")) if isinstance(entry, dict) else None
        if number is None or number < 0:
            return None
        pairs = [
            (str(name), value)
            for name, value in entry.items()
            if name != "step" and not isinstance(value, str)
        ]
        return self._numbering.step(number, self._names.metrics(pairs))


def _about(path: Path, raw: dict[str, Any]) -> About:
    config = jsonl.read_json(path.with_name("config.json")) or {}
    total = jsonl.integer(raw.get("max_steps"))
    return About(
        total if total and total > 0 else None,
        jsonl.line(config.get("_name_or_path")) or None,
    )
