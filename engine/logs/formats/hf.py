"""HF's Trainer and TRL: their console, and ``trainer_state.json``.

The console has a dict per logging step, whose values may be strings. The dicts name no step. A
progress bar in the same log does; without one they are counted. Each checkpoint folder has a state
file with the whole history so far; there may be one in the output folder.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import orjson

from engine.base import jsonl
from engine.logs.formats.format import About, Format, LineFormat, News, Reader, Sample, StepParser
from engine.logs.formats.names import LoggedNames, Numbering, step_of_total
from engine.run.history.train_log import Step

_DICT = re.compile(rb"\{'[^{}]{1,20000}\}")
_PAIR = re.compile(rb"'([^'{}]{1,200})': (?:'([^'{}]{0,100})'|([^',{}]{1,100}))")
# The Trainer's own bar has no words in front of it, unlike those that load or map something.
_BAR = re.compile(rb"(?:^|[\r\n]|\x1b\[A) *\d{1,3}%\|[^|\r\n]{0,200}\| *(\d{1,12})/(\d{1,12}) \[")
_MARKS = frozenset({"loss", "eval_loss", "learning_rate", "grad_norm", "train_runtime"})
_SUMMARIES = ("train_runtime", "eval_runtime", "eval_loss")
_PLAIN = frozenset({str, int, float})
_STATE = "trainer_state.json"
_CHECKPOINT = re.compile(r"checkpoint-(\d{1,15})")
_LARGEST_STATE = 512 * 1024 * 1024


class HfConsole(StepParser):
    def __init__(self) -> None:
        super().__init__()
        self._step = 0
        self._is_over = False
        """Whether the training ended: the next step is that of another one."""
        self._bar = self._total = 0
        """Of the last bar with as many steps as the Trainer's; of any bar until a dict came."""

    def feed(self, lines: list[bytes]) -> list[Step]:
        return [step for line in lines for step in self._line(line)]

    def _line(self, line: bytes) -> list[Step]:
        steps, end = [], 0
        if b"{'" in line:
            for match in _DICT.finditer(line):
                if match.start() > end:
                    self._read_bars(line[end : match.start()])
                end = match.end()
                if (step := self._entry(find_pairs(match[0]))) is not None:
                    steps.append(step)
        if end < len(line):
            self._read_bars(line[end:])
        return steps

    def _entry(self, pairs: dict[str, Any]) -> Step | None:
        if not _MARKS & pairs.keys():
            return None
        named, total = step_of_total(
            pairs.get("step", pairs.get("global_step", pairs.get("global_step/max_steps")))
        )
        is_summary = any(name in pairs for name in _SUMMARIES)
        if (total or self._total) and not (self._is_over and is_summary):
            self.known = About(total_steps=total or self._total)
        if "train_runtime" in pairs:
            self._is_over = True
            self._bar = self._total = 0
        elif not is_summary:
            if self._is_over:
                self._is_over, self._step = False, 0
            # A bar is drawn at most ten times a second: it may be behind, never ahead.
            self._step = max(self._step + 1, self._bar) if named is None else named
        values = self.names.metrics(pairs)
        values.pop("step", None)
        return self.numbering.step(self._step, values) if values else None

    def _read_bars(self, text: bytes) -> None:
        """Read the number of steps and the current one from the Trainer's bars."""
        for match in _BAR.finditer(text):
            step, total = int(match[1]), int(match[2])
            if self._is_over or self.known.total_steps in (None, total):
                self._bar, self._total = step, total


class HfConsoleFormat(LineFormat):
    key, name = "hf", "console of HF's Trainer or TRL"
    trainers = ("HF Trainer", "TRL")
    reads = "`{'loss': '0.5', ..., 'epoch': '0.1'}`, values as numbers or as text"
    is_console = True
    marks = (rb"\{'", rb"%\|")
    step_pattern = rb"\{'loss': '?[\d.e-]+'?, "
    parser_class = HfConsole

    def matches(self, sample: Sample) -> bool:
        return any(
            _MARKS & find_pairs(match[0]).keys()
            for line in sample.lines()
            if b"{'" in line
            for match in _DICT.finditer(line)
        )

    def complete_part(self, line: bytes) -> bytes:
        return line  # A dict is read with its closing brace.


def find_pairs(text: bytes) -> dict[str, Any]:
    """``{'loss': '0.5', 'epoch': 1.0}`` as names and values; NaN may stand bare."""
    try:
        # Most dicts are JSON but for the quotes.
        values: dict[str, Any] = orjson.loads(text.replace(b"'", b'"'))
        if _PLAIN.issuperset(map(type, values.values())):
            return values
    except orjson.JSONDecodeError:
        pass
    pairs = {}
    for match in _PAIR.finditer(text):
        value = next((group for group in match.groups()[1:] if group is not None), b"")
        pairs[match[1].decode("utf-8", errors="replace")] = value.decode("utf-8", errors="replace")
    return pairs


class HfStateFormat(Format):
    key, name = "hf-state", "trainer_state.json of HF's Trainer"
    trainers, folder_names = ("HF Trainer", "TRL"), ("*trainer_state.json",)
    reads = (
        "its `log_history`; in an output folder, that of the newest `checkpoint-N`, also when a "
        "newer one appears"
    )

    def matches(self, sample: Sample) -> bool:
        head, ends = sample.head.lstrip(), sample.head + sample.tail
        if not (head.startswith(b"{") and b'"log_history"' in ends and b'"global_step"' in ends):
            return False
        # The last of many JSON lines may hold a history as well.
        first = jsonl.parse_line(head.partition(b"\n")[0])
        return first is None or "log_history" in first

    def matches_folder(self, folder: Path) -> bool:
        return newest_state(folder) is not None

    def open(self, path: Path) -> Reader:
        return HfState(path)

    def console_of(self, path: Path) -> Path | None:
        return None


def newest_state(folder: Path) -> Path | None:
    """The newest ``trainer_state.json`` of an output folder: its own, or the last checkpoint's."""
    if (folder / _STATE).is_file():
        return folder / _STATE
    states = [
        (int(match[1]), path / _STATE)
        for path in folder.glob("checkpoint-*")
        if (match := _CHECKPOINT.fullmatch(path.name)) and (path / _STATE).is_file()
    ]
    return max(states)[1] if states else None


class HfState(Reader):
    """Follows a state file, or the newest one of an output folder."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._version: tuple[str, int, int, int] | None = None
        self._entries: list[Any] = []
        self._names = LoggedNames()
        self._numbering = Numbering()
        self._about = About()

    def poll(self, at_most: int) -> News:
        """The entries that are new. The file is one JSON object: it is read whole."""
        path = newest_state(self._path) if self._path.is_dir() else self._path
        if path is None or not self._changed(path):
            return News()
        raw = jsonl.read_json(path)
        if raw is None or not isinstance(raw.get("log_history"), list):
            self._version = None  # Half written: the next poll finds it complete.
            return News()
        self._about = _about(path, raw)
        entries = raw["log_history"]
        restarted = bool(self._entries) and jsonl.finite(entries[:1]) != self._entries[:1]
        if restarted:
            self._entries, self._names, self._numbering = [], LoggedNames(), Numbering()
        return News(self._new_steps(entries), restarted=restarted)

    def about(self) -> About:
        return self._about

    def _changed(self, path: Path) -> bool:
        try:
            status = path.stat()
        except OSError:
            return False
        version = (str(path), status.st_ino, status.st_size, status.st_mtime_ns)
        if version == self._version or status.st_size > _LARGEST_STATE:
            return False
        self._version = version
        return True

    def _new_steps(self, entries: list[Any]) -> list[Step]:
        # Two NaNs are not equal, two nulls are.
        comparable = jsonl.finite(entries)
        same = 0
        for before, now in zip(self._entries, comparable, strict=False):
            if before != now:
                break
            same += 1
        self._entries = comparable
        return [step for entry in entries[same:] if (step := self._step(entry)) is not None]

    def _step(self, entry: Any) -> Step | None:
        number = jsonl.integer(entry.get("step")) if isinstance(entry, dict) else None
        if number is None or number < 0:
            return None
        pairs = {
            str(name): value
            for name, value in entry.items()
            if name != "step" and not isinstance(value, str)
        }
        return self._numbering.step(number, self._names.metrics(pairs))


def _about(path: Path, raw: dict[str, Any]) -> About:
    config = jsonl.read_json(path.with_name("config.json")) or {}
    total = jsonl.integer(raw.get("max_steps"))
    return About(
        total if total and total > 0 else None,
        jsonl.line(config.get("_name_or_path")) or None,
    )
