"""Color themes: dark (the default), light, for color-blind eyes, and those of the settings."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from engine.base.errors import nearest

if TYPE_CHECKING:
    import textual.theme

_TEXTUAL_ROLES = (
    "primary", "secondary", "accent", "success", "warning", "error", "foreground", "background",
    "panel",
)  # fmt: skip
_BAND, _FAINT = 0.27, 0.42
"""Share of a line's color in the color of its band, and in that of its raw values."""
_COLOR = re.compile(r"#[0-9a-fA-F]{6}")
_NAME = re.compile(r"[\w-]{1,40}")


@dataclass(frozen=True)
class Theme:
    """A color such as ``#6cb6d9`` for each role: nine of Textual, and those of our drawings.

    ``series-N`` are the lines of charts, and ``phase-N`` the phases of a step.
    """

    name: str
    colors: Mapping[str, str]
    dark: bool = True

    @cached_property
    def for_textual(self) -> textual.theme.Theme:
        """The theme as Textual registers it, with the tints of each line."""
        from textual.color import Color  # ``grubrics-tui settings`` checks themes without Textual.
        from textual.theme import Theme as TextualTheme

        roles: dict[str, Any] = {role: self.colors[role] for role in _TEXTUAL_ROLES}
        variables = {role: color for role, color in self.colors.items() if role not in roles}
        background = Color.parse(self.colors["background"])
        for role in [role for role in variables if role.startswith("series-")]:
            color, number = Color.parse(variables[role]), role.removeprefix("series-")
            variables[f"band-{number}"] = background.blend(color, _BAND).hex
            variables[f"faint-{number}"] = background.blend(color, _FAINT).hex
        return TextualTheme(
            name=self.name,
            dark=self.dark,
            surface=roles["background"],
            variables=variables,
            **roles,
        )


THEMES = msgspec.json.decode(
    Path(__file__).with_name("themes.json").read_bytes(), type=tuple[Theme, ...]
)
"""The hues of the color-blind one are those of Okabe and Ito (2008), which people with any kind of
color blindness can distinguish."""
DARK = THEMES[0]
ROLES = tuple(DARK.colors)
"""What a theme gives a color to."""
_BUILT_IN = {theme.name: theme for theme in THEMES}


def user_theme(name: str, declaration: Mapping[str, Any]) -> Theme:
    """Return a theme of the settings: its colors over those of its ``base``."""
    base = _BUILT_IN[declaration.get("base", DARK.name)]
    colors = {role: color for role, color in declaration.items() if role != "base"}
    return Theme(name, {**base.colors, **colors}, base.dark)


def theme_problems(themes: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield the themes of the settings that cannot be used, each with the reason."""
    for name, declaration in themes.items():
        if name in _BUILT_IN:
            yield name, f"{name} is a built-in theme; choose another name"
            continue
        if not _NAME.fullmatch(name):
            yield name, f"'{name}' must be up to 40 letters, digits, - and _"
            continue
        for role, color in declaration.items():
            if role == "base":
                problem = unknown_theme(color, _BUILT_IN)
            elif role not in ROLES:
                close = nearest(role, ROLES)
                hint = f"did you mean {close}?" if close else f"known: {', '.join(ROLES)}"
                problem = f"unknown color; {hint}"
            elif not isinstance(color, str) or not _COLOR.fullmatch(color):
                shown = "null" if color is None else color
                problem = f"{shown} must be a color in quotes, e.g. '{DARK.colors[role]}'"
            else:
                continue
            if problem:
                yield name, f"{name}: {role}: {problem}"
                break


def unknown_theme(name: object, known: Collection[str]) -> str:
    """Return why there is no theme of that name; empty if there is one."""
    if isinstance(name, str) and name in known:
        return ""
    close = nearest(str(name), known)
    return f"{name} must be one of {', '.join(known)}" + (
        f"; did you mean {close}?" if close else ""
    )
