"""TensorBoard's event files, ``events.out.tfevents.*``, while they are written or after.

A file is a sequence of records: length (8 bytes), its checksum (4), the data, their checksum (4),
little endian; the checksum is a masked CRC-32C. A record is a protobuf message ``Event``: time,
step, and a summary with a value for each tag. Only scalars are read.
"""

from __future__ import annotations

import os
import struct
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from engine.base import jsonl
from engine.base.follow import RESTARTS, FileFollower
from engine.logs.formats.format import About, Format, News, Reader, Sample
from engine.logs.formats.names import LoggedNames
from engine.logs.formats.protobuf import fields, integer, messages, text
from engine.run.history.train_log import Step

_MARK = "tfevents"
_LENGTH = struct.Struct("<QI")
_CHECKSUM = struct.Struct("<I")
_MASK_DELTA = 0xA282EAD8
_LARGEST_SCALARS = 64 * 1024
"""Bytes of a record that is read; larger ones hold pictures, texts or histograms."""

# Fields of Event, Summary, Summary.Value and TensorProto, which may gain fields but not change.
_WALL_TIME, _STEP, _SUMMARY = 1, 2, 5
_VALUE = 1
_TAG, _SIMPLE_VALUE, _TENSOR = 1, 2, 8
_DTYPE, _CONTENT, _FLOATS, _DOUBLES = 1, 4, 5, 6
_NUMBERS = {1: struct.Struct("<f"), 2: struct.Struct("<d")}
"""By the type of a tensor: DT_FLOAT, DT_DOUBLE."""


class Scalars(NamedTuple):
    """The scalars of an event, by tag. ``time`` in Unix seconds."""

    step: int
    time: float
    values: dict[str, float]


class TensorBoardFormat(Format):
    key, name = "tensorboard", "event file of TensorBoard"
    trainers, file_names = ("TensorBoard",), ("*tfevents*",)
    reads = "the scalars of `events.out.tfevents.*`; of a folder, those of all its event files"

    def matches(self, sample: Sample) -> bool:
        record = next(iter(_split(sample.head)[0]), b"")
        try:
            return text(record, 3).startswith("brain.Event:")
        except ValueError:
            return False

    def matches_folder(self, folder: Path) -> bool:
        return bool(_event_files(folder))

    def open(self, path: Path) -> Reader:
        return TensorBoardRun(path)

    def console_of(self, path: Path) -> Path | None:
        return None


class TensorBoardRun(Reader):
    """Follows an event file, or all of a folder in the order of their names, which begin with
    their time. A file that repeats steps of those before it is a resumed run."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._logs: dict[Path, EventLog] = {}
        self._names = LoggedNames()
        self._highest = -1
        self._attempts: dict[Path, tuple[int, int]] = {}
        """The attempt of each file, and the highest step of those before it."""

    def poll(self, at_most: int) -> News:
        steps: list[Step] = []
        restarted, share = False, 1.0
        for path in _event_files(self._path) if self._path.is_dir() else [self._path]:
            log = self._logs.setdefault(path, EventLog(path))
            restarts = log.restarts
            steps += self._steps(path, log.read(at_most))
            restarted = restarted or log.restarts != restarts
            if log.read_share < 1.0:
                share = log.read_share
                break
        return News(steps, read_share=share, restarted=restarted)

    def about(self) -> About:
        return About()

    @property
    def trouble(self) -> OSError | None:
        return next(filter(None, (log.trouble for log in self._logs.values())), None)

    def _steps(self, path: Path, events: list[Scalars]) -> list[Step]:
        """Events of one step that follow each other are one: trainers write a tag at a time."""
        steps = []
        for number, group in groupby(events, key=lambda event: event.step):
            first, *others = group
            values = dict(first.values)
            for event in others:
                values.update(event.values)
            attempt, highest_before = self._attempt(path, number)
            self._highest = max(self._highest, number)
            metrics = self._names.metrics(values)
            is_redone = number <= highest_before
            steps.append(Step(number, attempt, first.time, metrics, is_redone))
        return steps

    def _attempt(self, path: Path, number: int) -> tuple[int, int]:
        if path not in self._attempts:
            last = max((attempt for attempt, _ in self._attempts.values()), default=1)
            is_resumed = number <= self._highest
            self._attempts[path] = (last + is_resumed, self._highest if is_resumed else -1)
        return self._attempts[path]


class EventLog:
    """Follows one file. A torn record at the end is left for the next poll.

    A record with a wrong checksum is left out. After a wrong length nothing more can be read.
    """

    def __init__(self, path: Path) -> None:
        self._follower = FileFollower(path)
        self.read_share = 1.0
        self.trouble: OSError | None = None

    @property
    def restarts(self) -> int:
        """How often the file was truncated, rewritten or replaced."""
        return self._follower.restarts

    def read(self, at_most: int) -> list[Scalars]:
        """The new events with scalars, reading about ``at_most`` bytes."""
        change = self._follower.poll()
        self.trouble, file = self._follower.trouble, self._follower.file
        if file is None:
            return []
        offset = 0 if change in RESTARTS else file.offset
        try:
            data = os.pread(file.descriptor, max(at_most, _LARGEST_SCALARS * 2), offset)
        except OSError as error:
            self.trouble = error
            return []
        records, length = _split(data, file.size() - offset)
        if length:
            file.read_to(offset + length)
        # Without progress the rest is torn or damaged: nothing to come back for at once.
        self.read_share = 1 - file.behind() / file.size() if length and file.behind() else 1.0
        return [event for record in records if (event := _scalars(record)) is not None]


def _split(data: bytes, present: int | None = None) -> tuple[list[bytes], int]:
    """The valid records that ``data`` begins with, and the bytes that they take.

    ``present``: the bytes that the file has from here on; a large record may end behind ``data``.
    """
    records: list[bytes] = []
    start, present = 0, len(data) if present is None else present
    while start + _LENGTH.size <= len(data):
        length, checksum = _LENGTH.unpack_from(data, start)
        begin = start + _LENGTH.size
        end = begin + length + _CHECKSUM.size
        if _masked_crc(data[start : start + 8]) != checksum or end > present:
            break
        if length <= _LARGEST_SCALARS:
            if end > len(data):
                break
            record = data[begin : begin + length]
            if _CHECKSUM.unpack_from(data, begin + length)[0] == _masked_crc(record):
                records.append(record)
        start = end
    return records, start


def _scalars(record: bytes) -> Scalars | None:
    """The scalars of an event; None where it has none, or is no valid message."""
    try:
        values = dict(
            filter(
                None,
                (
                    _scalar(value)
                    for summary in messages(record, _SUMMARY)
                    for value in messages(summary, _VALUE)
                ),
            )
        )
        step = integer(record, _STEP)
        time = next((raw for number, raw in fields(record) if number == _WALL_TIME), 0)
    except ValueError:
        return None
    if not values or not 0 <= step < 2**53 or not isinstance(time, int):
        return None
    moment = jsonl.moment(struct.unpack("<d", time.to_bytes(8, "little"))[0])
    return Scalars(step, moment or 0.0, values)


def _scalar(value: bytes) -> tuple[str, float] | None:
    """Tag and number of a value; None for pictures, texts and histograms."""
    number: float | None = None
    for field, raw in fields(value):
        if field == _SIMPLE_VALUE and isinstance(raw, int):
            number = struct.unpack("<f", raw.to_bytes(4, "little"))[0]
        elif field == _TENSOR and isinstance(raw, bytes) and (read := _tensor(raw)) is not None:
            number = read
    return None if number is None else (text(value, _TAG), number)


def _tensor(tensor: bytes) -> float | None:
    """The number of a tensor of one; None for any other."""
    kind = _NUMBERS.get(integer(tensor, _DTYPE))
    if kind is None:
        return None
    for field, raw in fields(tensor):
        if field in (_CONTENT, _FLOATS, _DOUBLES):
            packed = raw if isinstance(raw, bytes) else raw.to_bytes(kind.size, "little")
            return float(kind.unpack(packed)[0]) if len(packed) == kind.size else None
    return None


def _event_files(folder: Path) -> list[Path]:
    """The event files directly in a folder, the oldest first."""
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if _MARK in entry.name)
    except OSError:
        return []
    return [folder / name for name in names if (folder / name).is_file()]


def _masked_crc(data: bytes) -> int:
    """The CRC-32C of ``data`` as TensorFlow's record format stores it: rotated, plus a constant."""
    table, crc = _crc_table(), 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17 & 0xFFFFFFFF) + _MASK_DELTA) & 0xFFFFFFFF


@cache
def _crc_table() -> tuple[int, ...]:
    """The remainders of all bytes for the polynomial of Castagnoli, bits reversed (RFC 3720)."""
    return tuple(_remainder(byte) for byte in range(256))


def _remainder(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    return byte
