"""An offline W&B run: ``offline-run-<time>-<id>/run-<id>.wandb``, while it is written or after."""

from __future__ import annotations

import copy
import json
import os
import struct
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.base import jsonl
from engine.base.errors import UsageError
from engine.base.follow import RESTARTS, FileFollower
from engine.base.holes import after_hole
from engine.logs.formats.format import CONSOLE_LINES, About, Format, News, Reader, Sample
from engine.logs.formats.names import LoggedNames, Numbering, find_setting, whole_number
from engine.logs.formats.protobuf import fields, integer, messages, text
from engine.run.history.train_log import Step

HEADER = b":W&B\xe1\xbe"
VERSION = 0

_BLOCK = 32 * 1024
_PIECE = struct.Struct("<IHB")
_WHOLE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_LARGEST_RECORD = 64 * 1024 * 1024


class WandbLog:
    """Follows one log. A torn record at the end is left for the next poll.

    Damage costs only its block: the next block begins with a piece.
    """

    def __init__(self, path: Path) -> None:
        self._follower = FileFollower(path)
        self._parts: list[bytes] = []

    def records(self, at_most: int) -> list[bytes]:
        """The new complete records, reading about ``at_most`` bytes."""
        change = self._follower.poll()
        file = self._follower.file
        if file is None:
            return []
        offset = max(file.offset, len(HEADER) + 1)
        if change in RESTARTS:
            self._parts = []
        try:
            if (data_start := after_hole(file.descriptor, offset)) > offset:
                offset, self._parts = data_start // _BLOCK * _BLOCK, []
            data = os.pread(file.descriptor, max(_BLOCK, at_most), offset)
        except OSError as error:
            self._follower.trouble = error
            return []
        records, size = self._split(data, offset)
        file.read_to(offset + size)
        return records

    @property
    def trouble(self) -> OSError | None:
        return self._follower.trouble

    @property
    def restarts(self) -> int:
        """How often the log was truncated, rewritten or replaced."""
        return self._follower.restarts

    @property
    def read_share(self) -> float:
        """How much of the log has been read; 1 when only a torn record can be left."""
        file = self._follower.file
        behind = 0 if file is None else file.behind()
        return 1.0 if file is None or behind < _BLOCK else 1 - behind / file.size()

    def _split(self, data: bytes, offset: int) -> tuple[list[bytes], int]:
        """The records that ``data``, which begins at ``offset``, completes; the bytes they take."""
        records: list[bytes] = []
        start = 0
        while start < len(data):
            room = _BLOCK - (offset + start) % _BLOCK
            if room < _PIECE.size:
                start += room
                continue
            if len(data) - start < _PIECE.size:
                break
            checksum, length, kind = _PIECE.unpack_from(data, start)
            end = start + _PIECE.size + length
            fits = length + _PIECE.size <= room
            if fits and end > len(data):
                break
            body = data[start + _PIECE.size : end]
            is_valid = (
                fits
                and _WHOLE <= kind <= _LAST
                and zlib.crc32(body, zlib.crc32(bytes([kind]))) == checksum
            )
            if not is_valid and len(data) - start < room:
                break  # The writer may not have finished it.
            start = end if is_valid else start + room
            if not is_valid:
                self._parts = []  # A damaged piece takes its record with it.
            elif (record := self._join(kind, body)) is not None:
                records.append(record)
        return records, min(start, len(data))

    def _join(self, kind: int, body: bytes) -> bytes | None:
        if kind in (_WHOLE, _FIRST):
            self._parts = []
        elif not self._parts:
            return None
        self._parts.append(body)
        if kind in (_WHOLE, _LAST):
            record, self._parts = b"".join(self._parts), []
            return record
        if sum(map(len, self._parts)) > _LARGEST_RECORD:
            self._parts = []
        return None


# The numbers of the fields in wandb_internal.proto, which may gain fields but not change them.
_HISTORY, _CONFIG, _OUTPUT, _RUN, _EXIT = 2, 5, 13, 17, 18
_KEY, _NESTED_KEY, _VALUE_JSON = 1, 2, 16
_RUN_CONFIG, _RUN_NAME, _RUN_TAGS, _RUN_START = 4, 8, 10, 17

_TOTALS = ("trainer.total_training_steps", "total_training_steps", "max_steps", "steps")
_MODELS = (
    "actor_rollout_ref.model.path",
    "model.path",
    "model_name_or_path",
    "_name_or_path",
    "base_model",
    "model_name",
    "model",
)
_HF_STEP = "train/global_step"
_TORN_LINE = 64 * 1024


class WandbFormat(Format):
    key, name = "wandb", "offline W&B run"
    trainers = ("offline W&B",)
    file_names, folder_names = ("*.wandb",), ("*wandb",)
    reads = (
        "the `.wandb` log: history, configuration, start, exit code; the console output from "
        "`files/output.log`"
    )

    def matches(self, sample: Sample) -> bool:
        """UsageError for a log of an unknown version."""
        if not sample.head.startswith(HEADER):
            return False
        version = sample.head[len(HEADER) : len(HEADER) + 1]
        if version != bytes([VERSION]):
            number = version[0] if version else "unknown"
            raise UsageError(
                f"{sample.path}: a W&B log of version {number}; only version {VERSION} can be read"
            )
        return True

    def open(self, path: Path) -> Reader:
        return WandbRun(path)

    def run_name(self, given: Path, path: Path) -> str:
        return path.parent.name  # W&B names the folder after the run.

    def console_of(self, path: Path) -> Path | None:
        output = (
            path.parent / "files" / "output.log"
        )  # W&B keeps the console output beside its log.
        return output if output.is_file() else None


class WandbRun(Reader):
    """Follows the log.

    Steps are W&B's own, or the Trainer's where its callback logs ``train/global_step``: W&B then
    counts log calls.
    """

    def __init__(self, path: Path) -> None:
        self._log = WandbLog(path)
        self._numbering = Numbering()
        self._names = LoggedNames()
        self._config: dict[str, Any] = {}
        self._about = About()
        self._line = ""

    def poll(self, at_most: int) -> News:
        steps: list[Step] = []
        console: list[bytes] = []
        restarts = self._log.restarts
        records = self._log.records(at_most)
        restarted = self._log.restarts != restarts
        if restarted:
            self._numbering, self._names = Numbering(), LoggedNames()
            self._config, self._about = {}, About()
        for record in records:
            try:
                self._take(record, steps, console)
            except ValueError:
                continue  # One record that is no protobuf message costs only itself.
        return News(steps, console[-CONSOLE_LINES:], self._log.read_share, restarted)

    def about(self) -> About:
        return self._about

    @property
    def trouble(self) -> OSError | None:
        return self._log.trouble

    def _take(self, record: bytes, steps: list[Step], console: list[bytes]) -> None:
        for number, value in fields(record):
            if not isinstance(value, bytes):
                continue
            if number == _HISTORY and (step := self._step(value)) is not None:
                steps.append(step)
            elif number == _OUTPUT:
                console.extend(self._print(text(value, 3)))
            elif number == _RUN:
                self._learn(value)
            elif number == _CONFIG:
                self._configure(value)
            elif number == _EXIT:
                ended = f"ended with exit code {integer(value, 1)}"
                self._about = replace(self._about, ended=ended)

    def _step(self, history: bytes) -> Step | None:
        values = dict(filter(None, map(_item, messages(history, 1))))
        moment = jsonl.moment(values.get("_timestamp")) or 0.0
        number = whole_number(values.pop(_HF_STEP, values.get("_step")))
        plain = {name: value for name, value in values.items() if not name.startswith("_")}
        if number is None or not (metrics := self._names.metrics(plain)):
            return None
        return self._numbering.step(number, metrics, moment)

    def _learn(self, run: bytes) -> None:
        name = jsonl.line(text(run, _RUN_NAME)) or None
        tags = tuple(tag.decode(errors="replace") for tag in messages(run, _RUN_TAGS))
        self._about = replace(self._about, name=name, tags=tags)
        for start in messages(run, _RUN_START):
            self._about = replace(self._about, started=jsonl.moment(integer(start, 1)))
        for config in messages(run, _RUN_CONFIG):
            self._configure(config)

    def _configure(self, config: bytes) -> None:
        for update in messages(config, 1):
            path = list(messages(update, _NESTED_KEY)) or list(messages(update, _KEY))
            section: Any = self._config
            for key in path[:-1]:
                section = section.setdefault(key.decode(errors="replace"), {})
                if not isinstance(section, dict):
                    return
            if path and path[0] != b"_wandb":  # W&B's own facts
                section[path[-1].decode(errors="replace")] = _json(text(update, _VALUE_JSON))
        total = jsonl.integer(find_setting(self._config, *_TOTALS))
        models = (find_setting(self._config, name) for name in _MODELS)
        model = next((name for raw in models if (name := jsonl.line(raw))), None)
        if not total or total < 0:
            total = None
        self._about = replace(
            self._about, total_steps=total, model=model, config=copy.deepcopy(self._config)
        )

    def _print(self, output: str) -> list[bytes]:
        """Complete lines: W&B records output in the pieces in which it was printed."""
        *lines, torn = (self._line + output).split("\n")
        self._line = torn[-_TORN_LINE:]
        return [line.encode() for line in lines]


def _item(item: bytes) -> tuple[str, float] | None:
    """A metric of a history record; None for null, text, tables, media and histograms."""
    path: list[str] = []
    value = ""
    for number, raw in fields(item):
        if not isinstance(raw, bytes):
            continue
        if number in (_KEY, _NESTED_KEY):
            path.append(raw.decode("utf-8", errors="replace"))
        elif number == _VALUE_JSON:
            if raw[:1] in (b"[", b"{", b'"', b"t", b"f"):
                return None
            value = raw.decode("utf-8", errors="replace")
    parsed = _json(value)
    if isinstance(parsed, bool) or not isinstance(parsed, int | float):
        return None
    return ".".join(path), parsed


def _json(value: str) -> Any:
    try:
        return json.loads(value) if value else None
    except (ValueError, RecursionError):
        return None
