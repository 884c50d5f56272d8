"""The settings file: every setting with default and documentation, and how it is read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

from annotated_types import DocInfo, Interval, Len, doc

from engine.base.errors import UsageError, nearest
from engine.base.jsonl import line
from engine.run.kinds import KINDS, find_kind, kind_names
from grubrics_tui.settings.actions import key_conflicts
from grubrics_tui.settings.themes import (
    DARK,
    THEMES,
    Theme,
    theme_problems,
    unknown_theme,
    user_theme,
)

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

    theme: Annotated[str, doc("Color theme; ctrl+t changes it until you quit.")] = DARK.name
    themes: Annotated[
        Mapping[str, Mapping[str, Any]] | None,
        doc(
            "Your color themes: colors over those of a base, e.g. {dusk: {base: grubrics-light,"
            " primary: '#8a3ffc'}}; `settings` lists the colors."
        ),
    ] = None
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
    screenshots: Annotated[
        str | None,
        doc("Folder for screenshots (P); null: screenshots/ here, and none in read-only mode."),
    ] = None
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
    return {str(name): panels for name, panels in (settings.panels or {}).items()}.get(kind, ())


def themes_of(settings: Settings) -> tuple[Theme, ...]:
    """Return the built-in themes and those of the settings."""
    declared = (settings.themes or {}).items()
    return (*THEMES, *(user_theme(name, declaration) for name, declaration in declared))


def settings_path() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(base) / "grubrics-tui" / "settings.yaml"


def docs() -> dict[str, str]:
    """Return the description of each setting."""
    return {
        name: next(item.documentation for item in kind.__metadata__ if isinstance(item, DocInfo))
        for name, kind in get_type_hints(Settings, include_extras=True).items()
    }


def load_settings(path: Path | None = None, *, read_only: bool = False) -> Loaded:
    """Return the settings of the file over the defaults.

    Each error is one line in ``faults``. The key, or the entry of ``keys``, ``panels`` or
    ``themes``, keeps its default: a viewer must not refuse to open because of a color.
    ``read_only`` is the option of the command line.
    """
    path = path or settings_path()
    raw, faults = _read_file(path)
    values: dict[str, Any] = {}
    for key, value in raw.items():
        try:
            values[key], problems = _check_entries(key, value)
            faults += [f"{path}: {key}: {problem} (ignored)" for problem in problems]
        except ValueError as error:
            faults.append(f"{path}: {_one_line(key)}: {error}{_default_used(key)}")
    if "theme" in values and (problem := _theme_problem(values)):
        name = values.pop("theme")
        declared = raw.get("themes")
        if not isinstance(declared, dict) or name not in declared:  # Else it was reported above.
            faults.append(f"{path}: theme: {problem}{_default_used('theme')}")
    origins: dict[str, Origin] = {
        field.name: "file" if field.name in values else "default" for field in fields(Settings)
    }
    if read_only:
        values["read_only"], origins["read_only"] = True, "cli"
    return Loaded(Settings(**values), origins, tuple(faults))


def _default_used(key: Any) -> str:
    if not hasattr(Settings, str(key)):
        return ""
    return f" ({_format_value(getattr(Settings, str(key)))} is used)"


def _theme_problem(values: dict[str, Any]) -> str:
    """Return why there is no such theme."""
    known = [*(theme.name for theme in THEMES), *(values.get("themes") or {})]
    return unknown_theme(values["theme"], known)


def _read_file(path: Path) -> tuple[dict[Any, Any], list[str]]:
    """Return the entries of the file, or why it cannot be used."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}, []
    except (OSError, UnicodeError) as error:
        return {}, [f"{path}: cannot be read: {error}"]
    from engine.base.yaml_files import parse_yaml  # Most users have no such file.

    try:
        content = parse_yaml(str(path), text)
    except UsageError as error:
        return {}, [f"{error}; using the defaults"]
    if content is None:
        return {}, []
    if not isinstance(content, dict):
        return {}, [f"{path}: must contain key: value pairs; using the defaults"]
    return content, []


class _EntryError(ValueError):
    """One entry of a mapping is wrong; the others may be right."""

    def __init__(self, entry: Any, problem: str) -> None:
        super().__init__(problem)
        self.entry = entry


def _check_entries(key: Any, value: Any) -> tuple[Any, list[str]]:
    """Return the value in its type without its invalid entries, and the problems of those."""
    problems: list[str] = []
    while True:
        try:
            return _check_value(key, value), problems
        except _EntryError as error:
            problems.append(str(error))
            value = {name: item for name, item in value.items() if name != error.entry} or None


def _check_value(key: Any, value: Any) -> Any:
    """Return the value in its type. ValueError with one line: what is wrong, what is valid."""
    known = docs()
    if key not in known:
        close = nearest(str(key), known)
        hint = f"did you mean {close}?" if close else f"known: {', '.join(known)}"
        raise ValueError(f"unknown setting; {hint}")
    # Importing pydantic takes half of the TUI's start-up time; most users have no settings file.
    from pydantic import TypeAdapter, ValidationError

    kind = get_type_hints(Settings, include_extras=True)[key]
    try:
        checked = TypeAdapter(kind).validate_python(value)
    except ValidationError as error:
        # A misspelled key is also reported as a missing one, which is less helpful.
        first: Any = min(error.errors(), key=lambda details: details["type"] == "missing")
        entry = first["loc"][0] if first["loc"] else None
        if key in _ENTRY_PROBLEMS and isinstance(value, dict) and entry in value:
            raise _EntryError(entry, _format_error(first)) from None
        raise ValueError(_format_error(first)) from None
    if checked and key in _ENTRY_PROBLEMS:
        for entry, problem in _ENTRY_PROBLEMS[key](checked):
            raise _EntryError(entry, problem)
    return checked


def _panel_problems(panels: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str, str]]:
    """Yield unknown kinds, and names that look like a misspelled panel: without a slash, which most
    metrics have."""
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


_ENTRY_PROBLEMS: Mapping[str, Callable[[Any], Iterator[tuple[str, str]]]] = {
    "keys": key_conflicts,
    "panels": _panel_problems,
    "themes": theme_problems,
}
"""Settings whose entries are checked, and ignored if invalid, one by one."""


def _format_error(error: Any) -> str:
    """Format an error of pydantic: place, value, what it must be, nearest valid value."""
    path = ".".join(str(part) for part in error["loc"] if part != "[key]")
    message = error["msg"].removeprefix("Input ").replace("should be", "must be")
    expected = error.get("ctx", {}).get("expected", "").replace(" or ", ",").split(",")
    close = nearest(str(error["input"]), [option.strip("' ") for option in expected if option])
    hint = f"; did you mean {close}?" if close else ""
    prefix = f"{_one_line(path)}: " if path else ""
    return f"{prefix}{_format_value(error['input'])} {message}{hint}"


def _format_value(value: Any) -> str:
    text = "null" if value is None else str(value)
    return text if len(text) <= 40 else f"{text[:39]}…"


def _one_line(key: Any) -> str:
    return line(str(key)) or "?"
