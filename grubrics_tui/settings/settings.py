"""The settings file: every setting with default and documentation, and how it is read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

from annotated_types import DocInfo, Interval, Len, doc

from engine.base.errors import nearest
from engine.base.jsonl import line
from engine.runs.kinds import KINDS, find_kind, kind_names
from grubrics_tui.settings.actions import key_conflicts

ThemeName = Literal["grubrics-dark", "grubrics-light", "grubrics-colour-blind"]
PanelName = Annotated[str, Len(1, 500)]
Origin = Literal["default", "file", "cli"]
Price = Annotated[float, Interval(ge=0, le=100_000)]


@dataclass(frozen=True)
class JudgePrice:
    """US dollars per million tokens."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    input: Price
    output: Price


@dataclass(frozen=True)
class Settings:
    """Every setting with its default. Types are checked where the file is read."""

    theme: Annotated[ThemeName, doc("Color theme; ctrl+t changes it until you quit.")] = (
        "grubrics-dark"
    )
    ascii: Annotated[
        bool | None,
        doc("true: ASCII only; false: Unicode; null: detect from the terminal encoding."),
    ] = None
    refresh_s: Annotated[
        float,
        Interval(ge=0.1, le=60),
        doc("Refresh interval in seconds, 0.1 to 60."),
    ] = 0.5
    smoothing: Annotated[
        float,
        Interval(ge=0, lt=1),
        doc("Initial smoothing weight of charts, from 0 (off) to below 1."),
    ] = 0.0
    panels: Annotated[
        Mapping[str, tuple[PanelName, ...]] | None,
        doc(
            "Panels of the live view by kind of run, in order, e.g. {grpo: [reward, actor/lr]}."
            " The name of a metric pins it; names joined by + share a panel. Later changes in the"
            " TUI take precedence."
        ),
    ] = None
    judge_price: Annotated[
        JudgePrice | None,
        doc("US dollars per million tokens of the judge, e.g. {input: 1.25, output: 10}."),
    ] = None
    keys: Annotated[
        Mapping[str, str] | None,
        doc("Keys of actions, e.g. {stop: S, next_panel: 'tab,n'}; `settings` lists the actions."),
    ] = None
    hints: Annotated[bool, doc("Show a key hint the first time a screen opens.")] = True
    bell: Annotated[bool, doc("Ring the terminal bell on a new alert.")] = False
    read_only: Annotated[
        bool, doc("true: no launch, stop, resume, delete, kill or edit in the TUI.")
    ] = False


@dataclass(frozen=True)
class Loaded:
    """The effective settings, the origin of each, and the errors of the file."""

    settings: Settings
    origins: Mapping[str, Origin]
    faults: tuple[str, ...] = ()


def panels_for(settings: Settings, kind: str) -> tuple[str, ...]:
    """Return the panels in the settings for a kind of run; empty for the default ones."""
    return {str(one): names for one, names in (settings.panels or {}).items()}.get(kind, ())


def settings_path(env: Mapping[str, str] = os.environ) -> Path:
    base = env.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(base) / "grubrics-tui" / "settings.yaml"


def docs() -> dict[str, str]:
    """Return the description of each setting."""
    return {
        name: next(item.documentation for item in kind.__metadata__ if isinstance(item, DocInfo))
        for name, kind in get_type_hints(Settings, include_extras=True).items()
    }


def load_settings(path: Path | None = None, *, read_only: bool = False) -> Loaded:
    """Return the settings of the file over the defaults.

    Each error is one line in ``faults``. The key, or the entry of ``keys`` or ``panels``, keeps its
    default: a viewer must not refuse to open because of a color. ``read_only`` is the option of the
    command line.
    """
    path = path or settings_path()
    given, faults = _read(path)
    values: dict[str, Any] = {}
    for key, value in given.items():
        try:
            values[key], wrong = _usable(key, value)
            faults += [f"{path}: {key}: {reason} (ignored)" for reason in wrong]
        except ValueError as error:
            default = getattr(Settings, str(key), None)
            then = f" ({_format_value(default)} is used)" if hasattr(Settings, str(key)) else ""
            faults.append(f"{path}: {_name(key)}: {error}{then}")
    origins: dict[str, Origin] = {
        one.name: "file" if one.name in values else "default" for one in fields(Settings)
    }
    if read_only:
        values["read_only"], origins["read_only"] = True, "cli"
    return Loaded(Settings(**values), origins, tuple(faults))


def _read(path: Path) -> tuple[dict[Any, Any], list[str]]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}, []
    except (OSError, UnicodeError) as error:
        return {}, [f"{path}: cannot be read: {error}"]
    import yaml

    try:
        found = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        where = getattr(error, "problem_mark", None)
        place = f", line {where.line + 1}" if where else ""
        return {}, [f"{path}{place}: invalid YAML; using the defaults"]
    if found is None:
        return {}, []
    if not isinstance(found, dict):
        return {}, [f"{path}: must contain key: value pairs; using the defaults"]
    return found, []


class _EntryError(ValueError):
    """One entry of a mapping is wrong; the others may be right."""

    def __init__(self, entry: Any, reason: str) -> None:
        super().__init__(reason)
        self.entry = entry


def _usable(key: Any, value: Any) -> tuple[Any, list[str]]:
    """The value in its type without the entries that are wrong, and what is wrong with those."""
    wrong: list[str] = []
    while True:
        try:
            return _checked(key, value), wrong
        except _EntryError as error:
            wrong.append(str(error))
            value = {entry: one for entry, one in value.items() if entry != error.entry} or None


def _checked(key: Any, value: Any) -> Any:
    """The value in its type; ValueError with one line that says what is wrong and what is right."""
    known = docs()
    if key not in known:
        close = nearest(str(key), known)
        hint = f"did you mean {close}?" if close else f"known: {', '.join(known)}"
        raise ValueError(f"unknown setting; {hint}")
    # Half of what the screen takes to start: only where somebody has a settings file.
    from pydantic import TypeAdapter, ValidationError

    kind = get_type_hints(Settings, include_extras=True)[key]
    try:
        found = TypeAdapter(kind).validate_python(value)
    except ValidationError as error:
        first = _first(error.errors())
        entry = first["loc"][0] if first["loc"] else None
        if key in _PROBLEMS and isinstance(value, dict) and entry in value:
            raise _EntryError(entry, _reason(first)) from None
        raise ValueError(_reason(first)) from None
    for entry, reason in _PROBLEMS.get(key, lambda _: iter(()))(found or {}):
        raise _EntryError(entry, reason)
    return found


def _panel_problems(panels: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str, str]]:
    """Unknown kinds, and names that look like a misspelt panel: metrics mostly hold a slash."""
    for kind, names in panels.items():
        if (known_kind := find_kind(kind)) is None:
            close = nearest(kind, KINDS)
            hint = f"did you mean {close}?" if close else f"known: {kind_names()}"
            yield kind, f"unknown kind '{kind}'; {hint}"
            continue
        known = known_kind.panels
        for name in names:
            if name not in known and "/" not in name and (close := nearest(name, known)):
                yield kind, f"{kind}: {_format_value(name)} is not a panel; did you mean {close}?"


_PROBLEMS: Mapping[str, Callable[[Any], Iterator[tuple[str, str]]]] = {
    "keys": key_conflicts,
    "panels": _panel_problems,
}


def _first(errors: Any) -> Any:
    """The first thing that is wrong. A misspelt key is also a missing one, which says less."""
    return min(errors, key=lambda error: error["type"] == "missing")


def _reason(error: Any) -> str:
    """What is wrong, with the value at fault and the nearest right one."""
    place = ".".join(str(part) for part in error["loc"] if part != "[key]")
    message = error["msg"].removeprefix("Input ").replace("should be", "must be")
    options = _options(error.get("ctx", {}).get("expected", ""))
    close = nearest(str(error["input"]), options)
    hint = f"; did you mean {close}?" if close else ""
    where = f"{_name(place)}: " if place else ""
    return f"{where}{_format_value(error['input'])} {message}{hint}"


def _options(expected: str) -> Iterator[str]:
    yield from (part.strip("' ") for part in expected.replace(" or ", ",").split(",") if part)


def _format_value(value: Any) -> str:
    text = "null" if value is None else str(value)
    return text if len(text) <= 40 else f"{text[:39]}…"


def _name(key: Any) -> str:
    return line(str(key)) or "?"
