"""JSON files that many processes write and that readers may open at any moment."""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def append(path: Path, record: dict[str, Any]) -> None:
    """Append one line in a single O_APPEND write, so lines of concurrent writers never mix."""
    line = (json.dumps(finite(record), ensure_ascii=False) + "\n").encode()
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)


def read(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a JSONL file. A missing file is empty; torn and foreign lines are skipped."""
    try:
        handle = path.open("rb")
    except FileNotFoundError:
        return
    with handle:
        for line in handle:
            record = parse_line(line)
            if record is not None:
                yield record


def parse_line(line: bytes) -> dict[str, Any] | None:
    """One JSONL line as a dict, or None when it is torn or not an object."""
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def read_json(path: Path) -> dict[str, Any] | None:
    """A JSON object file, or None when it is missing, torn or not an object."""
    try:
        return parse_line(path.read_bytes())
    except OSError:
        return None


def write_json(path: Path, value: Any) -> None:
    """Replace ``path`` atomically with ``value`` as indented JSON."""
    write_atomic(path, json.dumps(finite(value), indent=2, ensure_ascii=False) + "\n")


def write_atomic(path: Path, text: str) -> None:
    """Replace ``path`` so that a reader sees the old or the new text, never a part of either."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as handle:
            handle.write(text)
            handle.flush()
            os.fsync(handle.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def finite(value: Any) -> Any:
    """``value`` with every NaN and infinity as None: JSON has no such numbers."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value
