"""The colours: a dark default, a light one, and one for colour-blind eyes."""

from __future__ import annotations

from collections.abc import Mapping

from textual.color import Color
from textual.theme import Theme

_SERIES = 8
_BAND, _FAINT = 0.27, 0.42
"""How much of a line's colour its band and its raw values have."""


def _with_tints(variables: Mapping[str, str], background: str) -> dict[str, str]:
    """Every line's colour also as that of its band and of its raw values."""
    ground, tinted = Color.parse(background), dict(variables)
    for number in range(1, _SERIES + 1):
        colour = Color.parse(variables[f"series-{number}"])
        tinted[f"band-{number}"] = ground.blend(colour, _BAND).hex
        tinted[f"faint-{number}"] = ground.blend(colour, _FAINT).hex
    return tinted


DARK = Theme(
    name="grubrics-dark",
    primary="#6cb6d9",
    secondary="#8fa3bf",
    accent="#f0b45e",
    success="#7ccf8a",
    warning="#f0b45e",
    error="#f27d83",
    foreground="#d3dae3",
    background="#0e1217",
    surface="#0e1217",
    panel="#1a2029",
    variables=_with_tints(
        {
            "series-1": "#5cc8e6",
            "series-2": "#ee9468",
            "series-3": "#b69cf2",
            "series-4": "#7ccf8a",
            "series-5": "#f07fb0",
            "series-6": "#e3c45f",
            "series-7": "#6f9bf5",
            "series-8": "#a9b4c2",
            "cursor": "#e8eef5",
            "rule": "#39444f",
            "line": "#2a333f",
            "line-focus": "#4d7f99",
            "quiet": "#7a8797",
            "axis": "#66727f",
            "grid": "#1f2731",
            "track": "#1c242e",
            "mark": "#f5c469",
            "phase-1": "#4fb3d9",
            "phase-2": "#f0b45e",
            "phase-3": "#8c7be0",
            "phase-4": "#c58ad6",
            "phase-5": "#6a7a8c",
            "phase-6": "#5fbf8f",
            "phase-7": "#d97a86",
            "phase-8": "#414c59",
        },
        "#0e1217",
    ),
)

LIGHT = Theme(
    name="grubrics-light",
    primary="#1f6f94",
    secondary="#52657d",
    accent="#a36100",
    success="#2b7d3e",
    warning="#a36100",
    error="#b5303b",
    foreground="#23303d",
    background="#fbfaf7",
    surface="#fbfaf7",
    panel="#efede7",
    dark=False,
    variables=_with_tints(
        {
            "series-1": "#15759c",
            "series-2": "#bf5a23",
            "series-3": "#6d4fc4",
            "series-4": "#2b7d3e",
            "series-5": "#b3246b",
            "series-6": "#8a6a00",
            "series-7": "#2c56c9",
            "series-8": "#5f6a75",
            "cursor": "#23303d",
            "rule": "#cfcabf",
            "line": "#d8d4ca",
            "line-focus": "#5a9ab8",
            "quiet": "#6b7682",
            "axis": "#848d96",
            "grid": "#eae7df",
            "track": "#e6e3da",
            "mark": "#b36b00",
            "phase-1": "#3a94ba",
            "phase-2": "#d9952f",
            "phase-3": "#7563cc",
            "phase-4": "#ab6abd",
            "phase-5": "#98a3ae",
            "phase-6": "#3f9f6c",
            "phase-7": "#c45c68",
            "phase-8": "#c2c7cc",
        },
        "#fbfaf7",
    ),
)

# Hues of Okabe and Ito (2008): told apart by people with any kind of colour blindness.
COLOUR_BLIND = Theme(
    name="grubrics-colour-blind",
    primary="#56b4e9",
    secondary="#999999",
    accent="#e69f00",
    success="#56b4e9",
    warning="#f0e442",
    error="#e8772e",
    foreground="#dddddd",
    background="#101214",
    surface="#101214",
    panel="#1c1f23",
    variables=_with_tints(
        {
            "series-1": "#56b4e9",
            "series-2": "#e69f00",
            "series-3": "#cc79a7",
            "series-4": "#009e73",
            "series-5": "#f0e442",
            "series-6": "#3d8fd1",
            "series-7": "#d55e00",
            "series-8": "#bbbbbb",
            "cursor": "#ffffff",
            "rule": "#3a4046",
            "line": "#30353b",
            "line-focus": "#56b4e9",
            "quiet": "#8b9299",
            "axis": "#767d84",
            "grid": "#22262b",
            "track": "#22262b",
            "mark": "#f0e442",
            "phase-1": "#56b4e9",
            "phase-2": "#e69f00",
            "phase-3": "#009e73",
            "phase-4": "#f0e442",
            "phase-5": "#7d7d7d",
            "phase-6": "#0072b2",
            "phase-7": "#cc79a7",
            "phase-8": "#4a4a4a",
        },
        "#101214",
    ),
)

THEMES = (DARK, LIGHT, COLOUR_BLIND)
