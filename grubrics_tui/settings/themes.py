"""Color themes: dark (the default), light, for color-blind eyes, and those of the settings."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

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


def _numbered(prefix: str, colors: str) -> dict[str, str]:
    return {f"{prefix}-{number}": color for number, color in enumerate(colors.split(), 1)}


DARK = Theme(
    "grubrics-dark",
    {
        "primary": "#6cb6d9",
        "secondary": "#8fa3bf",
        "accent": "#f0b45e",
        "success": "#7ccf8a",
        "warning": "#f0b45e",
        "error": "#f27d83",
        "foreground": "#d3dae3",
        "background": "#0e1217",
        "panel": "#1a2029",
        "cursor": "#e8eef5",
        "rule": "#39444f",
        "line": "#2a333f",
        "line-focus": "#4d7f99",
        "quiet": "#7a8797",
        "axis": "#66727f",
        "grid": "#1f2731",
        "track": "#1c242e",
        "mark": "#f5c469",
        **_numbered(
            "series",
            "#5cc8e6 #ee9468 #b69cf2 #7ccf8a #f07fb0 #e3c45f #6f9bf5 #a9b4c2",
        ),
        **_numbered(
            "phase",
            "#4fb3d9 #f0b45e #8c7be0 #c58ad6 #6a7a8c #5fbf8f #d97a86 #414c59",
        ),
    },
)

LIGHT = Theme(
    "grubrics-light",
    {
        "primary": "#1f6f94",
        "secondary": "#52657d",
        "accent": "#a36100",
        "success": "#2b7d3e",
        "warning": "#a36100",
        "error": "#b5303b",
        "foreground": "#23303d",
        "background": "#fbfaf7",
        "panel": "#efede7",
        "cursor": "#23303d",
        "rule": "#cfcabf",
        "line": "#d8d4ca",
        "line-focus": "#5a9ab8",
        "quiet": "#6b7682",
        "axis": "#848d96",
        "grid": "#eae7df",
        "track": "#e6e3da",
        "mark": "#b36b00",
        **_numbered(
            "series",
            "#15759c #bf5a23 #6d4fc4 #2b7d3e #b3246b #8a6a00 #2c56c9 #5f6a75",
        ),
        **_numbered(
            "phase",
            "#3a94ba #d9952f #7563cc #ab6abd #98a3ae #3f9f6c #c45c68 #c2c7cc",
        ),
    },
    dark=False,
)

# Hues of Okabe and Ito (2008), which people with any kind of color blindness can distinguish.
COLOR_BLIND = Theme(
    "grubrics-color-blind",
    {
        "primary": "#56b4e9",
        "secondary": "#999999",
        "accent": "#e69f00",
        "success": "#56b4e9",
        "warning": "#f0e442",
        "error": "#e8772e",
        "foreground": "#dddddd",
        "background": "#101214",
        "panel": "#1c1f23",
        "cursor": "#ffffff",
        "rule": "#3a4046",
        "line": "#30353b",
        "line-focus": "#56b4e9",
        "quiet": "#8b9299",
        "axis": "#767d84",
        "grid": "#22262b",
        "track": "#22262b",
        "mark": "#f0e442",
        **_numbered(
            "series",
            "#56b4e9 #e69f00 #cc79a7 #009e73 #f0e442 #3d8fd1 #d55e00 #bbbbbb",
        ),
        **_numbered(
            "phase",
            "#56b4e9 #e69f00 #009e73 #f0e442 #7d7d7d #0072b2 #cc79a7 #4a4a4a",
        ),
    },
)

THEMES = (DARK, LIGHT, COLOR_BLIND)
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
