"""One color per run."""

from __future__ import annotations

from grubrics_tui.settings.comparison_marks import SERIES, RunColors
from grubrics_tui.settings.themes import THEMES


def test_a_run_keeps_its_color_when_others_follow() -> None:
    colors = RunColors()
    first = colors.of("night-run")
    others = [colors.of(f"run-{number}") for number in range(7)]
    assert colors.of("night-run") == first
    assert {first, *others} == set(SERIES)


def test_a_ninth_run_shares_a_color() -> None:
    colors = RunColors()
    assert {colors.of(f"run-{number}") for number in range(20)} == set(SERIES)


def test_every_theme_has_the_colors_of_lines_bands_and_raw_values() -> None:
    for theme in THEMES:
        variables = theme.for_textual.variables
        for number in range(1, 9):
            assert {f"{kind}-{number}" for kind in ("series", "band", "faint")} <= set(variables)
        assert len({variables[name] for name in SERIES}) == len(SERIES)
