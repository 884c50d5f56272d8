"""The records of a ``.wandb`` transaction log, and the few protobuf fields of them that count.

The file begins with ``:W&B``, a magic number and a version. Then it is LevelDB's log format:
blocks of 32 KiB, in each of them pieces with a header of CRC-32, length and kind, and a record is
one whole piece or a first, some middle and a last one. A record is a protobuf message; W&B's own
package has no reader for it that others may use, and the base install does without the package.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

from engine.base import files
from engine.base.holes import after_hole

HEADER = b":W&B\xe1\xbe"
VERSION = 0

_BLOCK = 32 * 1024
_PIECE = struct.Struct("<IHB")
_WHOLE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_LARGEST_RECORD = 64 * 1024 * 1024

Field = tuple[int, int | bytes]


class WandbLog:
    """Follows one log. A torn record at the end is left for the next look.

    What is damaged costs only its block: the next block begins with a piece.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = len(HEADER) + 1
        self._parts: list[bytes] = []
        self._size = 0

    def records(self, at_most: int) -> list[bytes]:
        """The new whole records, reading about ``at_most`` bytes."""
        try:
            descriptor = files.open_descriptor(self._path)
        except OSError:
            return []
        try:
            self._size = os.fstat(descriptor).st_size
            if self._size < self._offset:
                self._offset, self._parts = len(HEADER) + 1, []
            if (found := after_hole(descriptor, self._offset)) > self._offset:
                self._offset, self._parts = found // _BLOCK * _BLOCK, []
            data = os.pread(descriptor, max(_BLOCK, at_most), self._offset)
        except OSError:
            return []
        finally:
            os.close(descriptor)
        return list(self._split(data))

    @property
    def read_share(self) -> float:
        """How much of the log has been read; 1 when only a torn record can be left."""
        behind = self._size - self._offset
        return 1.0 if behind < _BLOCK else 1 - behind / self._size

    def _split(self, data: bytes) -> Iterator[bytes]:
        place = 0
        while place < len(data):
            room = _BLOCK - (self._offset + place) % _BLOCK
            if room < _PIECE.size:
                place += room
                continue
            if len(data) - place < _PIECE.size:
                break
            checksum, length, kind = _PIECE.unpack_from(data, place)
            end = place + _PIECE.size + length
            if length + _PIECE.size <= room and end > len(data):
                break
            body = data[place + _PIECE.size : end]
            whole = length + _PIECE.size <= room and _fits(checksum, kind, body)
            if not whole and len(data) - place < room:
                break  # The writer may still be at it.
            place = end if whole else place + room
            if not whole:
                self._parts = []  # A damaged piece takes its record with it.
            elif (record := self._join(kind, body)) is not None:
                yield record
        self._offset += min(place, len(data))

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


def fields(message: bytes) -> Iterator[Field]:
    """``(number, value)`` of a protobuf message: bytes, or an integer for what is a number.

    Raises ValueError where it is not one.
    """
    place = 0
    while place < len(message):
        key, place = _varint(message, place)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, place = _varint(message, place)
            yield number, value
            continue
        if wire == 2:
            length, place = _varint(message, place)
        elif wire in (1, 5):
            length = 8 if wire == 1 else 4
        else:
            raise ValueError("not a protobuf message")
        if place + length > len(message):
            raise ValueError("a torn protobuf message")
        raw = message[place : place + length]
        yield number, raw if wire == 2 else int.from_bytes(raw, "little")
        place += length


def messages(message: bytes, number: int) -> Iterator[bytes]:
    """The embedded messages or texts of one field."""
    for found, value in fields(message):
        if found == number and isinstance(value, bytes):
            yield value


def text(message: bytes, number: int) -> str:
    """The last text of a field; empty when it has none."""
    last = list(messages(message, number))[-1:]
    return b"".join(last).decode("utf-8", errors="replace")


def integer(message: bytes, number: int) -> int:
    """The last number of a field as a signed integer; 0 when it has none, as protobuf has it."""
    value = 0
    for found, raw in fields(message):
        if found == number and isinstance(raw, int):
            value = raw
    return value - 2**64 if value >= 2**63 else value


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while place < len(data) and shift < 70:
        byte = data[place]
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return value, place
    raise ValueError("a torn protobuf number")


def _fits(checksum: int, kind: int, body: bytes) -> bool:
    return _WHOLE <= kind <= _LAST and zlib.crc32(body, zlib.crc32(bytes([kind]))) == checksum
