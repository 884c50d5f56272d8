"""Protobuf messages without their schema: the numbers, texts and messages of their fields."""

from __future__ import annotations

from collections.abc import Iterator

Field = tuple[int, int | bytes]


def fields(message: bytes) -> Iterator[Field]:
    """``(number, value)`` of a protobuf message: bytes, or an integer for what is a number.

    Raises ValueError where it is not one.
    """
    offset = 0
    while offset < len(message):
        key, offset = _varint(message, offset)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, offset = _varint(message, offset)
            yield number, value
            continue
        if wire == 2:
            length, offset = _varint(message, offset)
        elif wire in (1, 5):
            length = 8 if wire == 1 else 4
        else:
            raise ValueError("not a protobuf message")
        if offset + length > len(message):
            raise ValueError("a torn protobuf message")
        raw = message[offset : offset + length]
        yield number, raw if wire == 2 else int.from_bytes(raw, "little")
        offset += length


def messages(message: bytes, number: int) -> Iterator[bytes]:
    """The embedded messages or texts of one field."""
    for field, value in fields(message):
        if field == number and isinstance(value, bytes):
            yield value


def text(message: bytes, number: int) -> str:
    """The last text of a field; empty when it has none."""
    last = list(messages(message, number))[-1:]
    return b"".join(last).decode("utf-8", errors="replace")


def integer(message: bytes, number: int) -> int:
    """The last number of a field as a signed integer; 0 when it has none, as in protobuf."""
    value = 0
    for field, raw in fields(message):
        if field == number and isinstance(raw, int):
            value = raw
    return value - 2**64 if value >= 2**63 else value


def _varint(data: bytes, offset: int) -> tuple[int, int]:
    value = shift = 0
    while offset < len(data) and shift < 70:
        byte = data[offset]
        value |= (byte & 0x7F) << shift
        offset, shift = offset + 1, shift + 7
        if byte < 0x80:
            return value, offset
    raise ValueError("a torn protobuf number")
