"""Copies of files without the secrets in them, block by block: a log may be larger than memory."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

from engine.base import jsonl
from engine.base.masking import mask_data, mask_text

_BLOCK = 1 << 20
_LONGEST_KEY = 64 << 10
"""Bytes after which a block ends even inside of what looks like a private key."""
_LONGEST_LINE = 64 << 20


class TooLongError(ValueError):
    """A line, or a JSON file, that is too long to be searched for secrets."""


def masked_text(handle: BinaryIO, size: int) -> Iterator[tuple[bytes, bool]]:
    """The first ``size`` bytes as masked blocks of whole lines, and whether each was changed."""
    for block in _blocks(handle, size):
        text = block.decode("utf-8", "surrogateescape")
        masked = mask_text(text)
        yield masked.encode("utf-8", "surrogateescape"), masked != text


def masked_jsonl(handle: BinaryIO, size: int) -> Iterator[tuple[bytes, bool]]:
    """The same for JSON lines, which stay valid. A line without a secret keeps its bytes."""
    for block in _blocks(handle, size):
        lines = block.splitlines(keepends=True)
        values = [_value(line) for line in lines]
        pairs = zip(lines, values, mask_data(values), strict=True)
        masked = [line if old == new else _line(new) for line, old, new in pairs]
        yield b"".join(masked), masked != lines


def masked_json(handle: BinaryIO, size: int) -> Iterator[tuple[bytes, bool]]:
    """The same for a JSON file, which is read at once."""
    if size > jsonl.LARGEST_FILE:
        raise TooLongError(f"larger than {jsonl.LARGEST_FILE >> 20} MiB")
    data = handle.read(size)
    value = _value(data)
    masked = mask_data(value)
    if masked == value:
        yield data, False
    elif isinstance(masked, str):
        yield masked.encode("utf-8", "surrogateescape"), True
    else:
        text = json.dumps(masked, ensure_ascii=False, indent=2)
        yield (text + "\n").encode(errors="backslashreplace"), True


def _value(data: bytes) -> Any:
    """The value of a line or a file; its text where it is not JSON, such as a torn line."""
    try:
        return jsonl.parse_value(data.lstrip(b"\0"))
    except ValueError:
        return data.decode("utf-8", "surrogateescape")


def _line(masked: Any) -> bytes:
    if isinstance(masked, str) and masked.endswith("\n"):
        return masked.encode("utf-8", "surrogateescape")
    return (json.dumps(masked, ensure_ascii=False) + "\n").encode(errors="backslashreplace")


def _blocks(handle: BinaryIO, size: int) -> Iterable[bytes]:
    """Blocks that end with a line, and not between the first and last line of a private key."""
    while size > 0:
        block = bytearray(handle.read(min(size, _BLOCK)))
        size -= len(block)
        if not block:
            return
        end = len(block) + _LONGEST_KEY
        while size > 0 and (block[-1:] != b"\n" or (_is_in_key(block) and len(block) < end)):
            line = handle.readline(min(size, _LONGEST_LINE - len(block) + 1))
            if not line:
                break
            block += line
            size -= len(line)
            if len(block) > _LONGEST_LINE:
                raise TooLongError(f"a line of more than {_LONGEST_LINE >> 20} MiB")
        yield bytes(block)


def _is_in_key(block: bytearray) -> bool:
    return block.rfind(b"-----BEGIN") > block.rfind(b"-----END")
