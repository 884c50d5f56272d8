"""Records of JSON files as frozen structs: a damaged field counts as missing, the others stay.

A file may have been edited, copied from another machine, cut off, or written by an earlier version.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePath
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
)

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from engine.base import files, jsonl

S = TypeVar("S", bound=Struct)

# What a pattern and its bounds accept takes no call of Python. ``_READERS`` decide about the rest:
# a line in Greek, a long path.
_SHOWN = " -~¡-¬®-ʯ–—‘-”…▁-█"
Line = Annotated[str, Meta(pattern=rf"\A[{_SHOWN}]*\Z")]
"""A line of text that is safe to show: control and invisible characters are replaced by spaces."""
Text = Annotated[str, Meta(pattern=rf"\A[{_SHOWN}\n]*\Z")]
"""Lines of text that are safe to show."""
Location = Annotated[str, Meta(pattern=r"\A(?!~)[ -~]{1,240}\Z")]
"""A path that a file system takes. Not safe to show where it is longer, or not ASCII."""
Moment = Annotated[float, Meta(ge=0, le=2**37)]
"""Unix seconds that a calendar can show."""
Integer = Annotated[int, Meta(ge=-(2**53), le=2**53)]
"""One that JSON numbers hold exactly, and that a call of the system takes."""
Number = Annotated[float, Meta(ge=-1e100, le=1e100)]
"""A finite number, whose sums and squares are finite too."""
Word = Annotated[str, Meta(pattern=r"^[^\0]*\Z")]
"""A word of a command, or the value of a variable, that the system takes. Not safe to show."""
Words = Annotated[tuple[Word, ...], Meta()]
"""A command as it was written. One with a damaged word counts as missing: it would be another."""
VariableName = Annotated[str, Meta(pattern=r"^[^=\0]+\Z")]
"""The name of an environment variable."""

if TYPE_CHECKING:
    Json: TypeAlias = object
    """Any value of JSON without NaN, not nested too deeply for recursion. Not safe to show."""
else:
    # msgspec has no recursive types: these are more levels than files have, and ``jsonl.shallow``
    # reads the others. ``Any`` would take a call of Python for each value.
    Json = bool | int | float | str | None
    for _ in range(3):
        Json = bool | int | float | str | list[Json] | dict[str, Json] | None
    Json = Annotated[Json, Meta()]

_READERS: dict[Any, Callable[[Any], Any]] = {
    Words: lambda value: _whole(value, Word),
    Line: jsonl.line,
    Text: jsonl.text,
    Location: jsonl.location,
    Moment: jsonl.moment,
    Integer: jsonl.integer,
    Number: jsonl.number,
}


def read_record(path: Path, kind: type[S], limit: int = jsonl.LARGEST_FILE) -> S | None:
    """The record of a JSON file (see ``decode_record``); None when it is missing or too large."""
    try:
        return decode_record(files.read_regular(path, limit), kind)
    except OSError:
        return None


def read_lines(path: Path, kind: type[S]) -> Iterator[S]:
    """The records of a JSONL file; none for a missing one. Torn and other lines are skipped.

    OSError for anything but a regular file.
    """
    lines = jsonl.raw_lines(path)
    return (record for line in lines if (record := decode_record(line, kind)) is not None)


def decode_record(text: bytes, kind: type[S]) -> S | None:
    """The record of one JSON object. None when the text is torn or no object, and when a field
    without a default is missing or damaged.

    A damaged field has its default. Damaged items of a list and entries of a dict are left out, or
    None where their type allows it. What is longer than the ``max_length`` of its type is cut.
    Unknown fields are skipped.
    """
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return convert_record(jsonl.parse_line(text), kind)


def convert_record(value: Any, kind: type[S]) -> S | None:
    """The record of a JSON value; as ``decode_record``."""
    record = _valid_part(value, kind)
    return None if record is UNSET else cast("S", record)


def _valid_part(value: Any, kind: Any) -> Any:
    """What is valid of a value of a type; UNSET for nothing."""
    if kind is Json:
        return jsonl.shallow(value)
    if (reader := _READERS.get(kind)) is not None:
        valid = reader(value)
        return UNSET if valid is None else valid
    origin, parts = get_origin(kind) or kind, get_args(kind)
    if origin is Annotated and (longest := parts[-1].max_length) is not None:
        valid = _valid_part(value, parts[0] if len(parts) == 2 else Annotated[parts[:-1]])
        return valid if valid is UNSET else valid[:longest]
    if origin in (types.UnionType, Union):
        valid = (_valid_part(value, part) for part in parts if part is not types.NoneType)
        return next((part for part in valid if part is not UNSET), _none_of(parts))
    if origin in (list, tuple):
        return origin(_valid_items(value, parts[0])) if isinstance(value, list | tuple) else UNSET
    if origin in (dict, Mapping):
        return _valid_entries(value, *parts) if isinstance(value, dict) else UNSET
    if isinstance(kind, type) and issubclass(kind, Struct):
        return _valid_struct(value, kind) if isinstance(value, dict) else UNSET
    try:
        return jsonl.finite(msgspec.convert(value, kind))
    except (msgspec.ValidationError, RecursionError):
        return UNSET


def _none_of(parts: tuple[Any, ...]) -> UnsetType | None:
    """What a damaged value becomes where None is allowed: a gap stays in its place."""
    return None if types.NoneType in parts else UNSET


def _valid_items(items: Any, kind: Any) -> list[Any]:
    return [valid for item in items if (valid := _valid_part(item, kind)) is not UNSET]


def _whole(items: Any, kind: Any) -> tuple[Any, ...] | None:
    """The items if all of them are valid."""
    valid = _valid_items(items, kind) if isinstance(items, list | tuple) else None
    return None if valid is None or len(valid) < len(items) else tuple(valid)


def _valid_entries(entries: dict[Any, Any], key_kind: Any, kind: Any) -> dict[Any, Any]:
    valid = ((_valid_part(k, key_kind), _valid_part(v, kind)) for k, v in entries.items())
    return {key: value for key, value in valid if key is not UNSET and value is not UNSET}


def _valid_struct(value: dict[str, Any], kind: type[Struct]) -> Struct | UnsetType:
    fields = {
        field.name: valid
        for field in _fields(kind)
        if field.encode_name in value
        and (valid := _valid_part(value[field.encode_name], field.type)) is not UNSET
    }
    try:
        return kind(**fields)
    except (TypeError, ValueError):  # A field without a default is missing, or empty.
        return UNSET


_fields = functools.cache(msgspec.structs.fields)


def write_record(path: Path, record: Any) -> None:
    """Replace a JSON file by a record, with the version of the format."""
    jsonl.write_json(path, {"v": 1, **to_json(record)})


def to_json(value: Any) -> Any:
    """A record, or any value with records in it, as values of JSON: each field under its name.

    Paths become texts. TypeError for what JSON has no value for.
    """
    return msgspec.to_builtins(value, enc_hook=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    # Numbers and texts of another library, as NumPy's.
    for kind in (str, int, float):
        if isinstance(value, kind):
            return kind(value)
    raise TypeError(f"{type(value).__name__} has no value in JSON")
