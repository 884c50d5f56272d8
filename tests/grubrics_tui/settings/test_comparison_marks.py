"""One colour per run."""

from __future__ import annotations

from grubrics_tui.settings.comparison_marks import SERIES, RunColors
from grubrics_tui.settings.themes import THEMES


def test_a_run_keeps_its_colour_whatever_comes_after_it() -> None:
    colours = RunColors()
    first = colours.of("night-run")
    others = [colours.of(f"run-{number}") for number in range(7)]
    assert colours.of("night-run") == first
    assert {first, *others} == set(SERIES)


def test_a_ninth_run_shares_a_colour() -> None:
    colours = RunColors()
    assert {colours.of(f"run-{number}") for number in range(20)} == set(SERIES)


def test_every_theme_has_the_colours_of_lines_bands_and_raw_values() -> None:
    for theme in THEMES:
        for number in range(1, 9):
            assert {f"{kind}-{number}" for kind in ("series", "band", "faint")} <= set(
                theme.variables
            )
        assert len({theme.variables[name] for name in SERIES}) == len(SERIES)
