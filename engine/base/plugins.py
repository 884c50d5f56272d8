"""Find, load and check the objects that other packages add through entry points.

A package declares, in its own pyproject.toml:

    [project.entry-points."grubrics.metric_rules"]
    my_rule = "my_package.rules:MY_RULE"

The object has the type of its group, or is a list or tuple of such objects. A plugin that cannot be
loaded is named in one line and skipped: it never stops a command.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from importlib.metadata import Distribution

T = TypeVar("T")
PREFIX = "grubrics."
"""Every group of this program begins with it."""


@dataclass(frozen=True, slots=True)
class Plugin(Generic[T]):
    """One object of another package. ``name`` is the entry point's, ``source`` the package's name
    and version."""

    name: str
    source: str
    value: T


class Plugins(NamedTuple, Generic[T]):
    """The plugins of a group, sorted by package and name, and one line for each unusable one."""

    loaded: tuple[Plugin[T], ...]
    problems: tuple[str, ...]

    @property
    def objects(self) -> tuple[T, ...]:
        return tuple(plugin.value for plugin in self.loaded)


def load(group: str, kind: type[T]) -> Plugins[T]:
    """Load the entry points of ``group`` whose objects are of type ``kind``."""
    plugins: list[Plugin[T]] = []
    problems: list[str] = []
    for distribution in _distributions(tuple(sys.path)):
        try:
            source = f"{distribution.name} {distribution.version}"
            points = [point for point in distribution.entry_points if point.group == group]
        except Exception as error:
            problems.append(f"a package with entry points is damaged and skipped: {_line(error)}")
            continue
        for point in points:
            try:
                values = _require_type(point.load(), kind)
            except (Exception, SystemExit) as error:
                problems.append(f"plugin {point.name} of {source} is skipped: {_line(error)}")
            else:
                plugins += [Plugin(point.name, source, value) for value in values]
    return Plugins(
        tuple(sorted(plugins, key=lambda plugin: (plugin.source, plugin.name))), tuple(problems)
    )


@lru_cache(maxsize=1)
def _distributions(path: tuple[str, ...]) -> tuple[Distribution, ...]:
    """The installed packages that name one of our groups, each once.

    Few packages do, so most commands only pay for reading small files, once.
    """
    # Takes 15 ms, which commands without plugins do not need.
    from importlib.metadata import distributions

    by_name: dict[str, Distribution] = {}
    for distribution in distributions(path=list(path)):
        try:
            if f"[{PREFIX}" in (distribution.read_text("entry_points.txt") or "").replace(" ", ""):
                by_name.setdefault(distribution.name, distribution)
        except (OSError, UnicodeError):
            continue  # What cannot be read cannot be loaded either.
    return tuple(by_name.values())


def _require_type(value: object, kind: type[T]) -> list[T]:
    """Return the objects of an entry point as a list; TypeError for one of another type."""
    objects: list[T] = []
    for item in value if isinstance(value, list | tuple) else [value]:
        if not isinstance(item, kind):
            raise TypeError(f"expected {kind.__name__}, got {type(item).__name__}")
        objects.append(item)
    return objects


def _line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:200] if text else type(error).__name__
