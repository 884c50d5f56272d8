"""The settings file: every mistake is one line, and the screen opens all the same."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from rich.color import Color, ColorSystem
from typer.testing import CliRunner

from engine.run.events import pending_stop
from grubrics_tui.cli import app
from grubrics_tui.settings.settings import (
    Loaded,
    Settings,
    docs,
    load_settings,
    settings_path,
    themes_of,
)
from grubrics_tui.settings.themes import ROLES, THEMES, Theme
from tests.grubrics_tui.pilots import LARGE, running
from tests.grubrics_tui.sample_run import SampleRun
from tests.paths import ROOT

pytestmark = pytest.mark.waits


def written(text: str) -> Path:
    path = settings_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_without_a_file_everything_is_default() -> None:
    loaded = load_settings()
    assert loaded.settings == Settings()
    assert set(loaded.origins.values()) == {"default"}


def test_a_value_of_the_file_counts_more_than_the_default() -> None:
    written("refresh_s: 2\njudge_price: {input: 1.25, output: 10}\n")
    loaded = load_settings()
    assert loaded.settings.refresh_s == 2
    assert loaded.settings.judge_price is not None
    assert loaded.settings.judge_price.output == 10
    assert (loaded.origins["refresh_s"], loaded.origins["theme"]) == ("file", "default")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("theme: grubrics-drak", "theme: grubrics-drak must be"),
        ("theme: grubrics-drak", "did you mean grubrics-dark?"),
        ("refesh_s: 1", "refesh_s: unknown setting; did you mean refresh_s?"),
        ("refresh_s: fast", "refresh_s: fast must be a valid number"),
        ("refresh_s: 0", "refresh_s: 0 must be greater than or equal to 0.1 (0.5 is used)"),
        ("judge_price: {input: 1, output: 2, cached: 3}", "judge_price: cached"),
        ("panels: {grop: [reward]}", "did you mean grpo?"),
        ("panels: {grpo: [rewrd]}", "grpo: rewrd is not a panel; did you mean reward?"),
        ("keys: {stp: S}", "keys: unknown action 'stp'; did you mean stop?"),
        ("keys: {stop: q}", "keys: stop: 'q' is already the key of leave"),
        ("keys: {stop: escpe}", "keys: stop: 'escpe' is not a valid key; did you mean escape?"),
        ("a: [", "invalid YAML"),
        ("refresh_s: 1\nrefresh_s: 2", "line 2: invalid YAML: found duplicate key refresh_s"),
        ("- 1", "must contain key: value pairs"),
        ("1: 2", "1: unknown setting"),
    ],
)
def test_what_is_wrong_is_one_line_and_leaves_the_default(text: str, says: str) -> None:
    path = written(text)
    loaded = load_settings()
    assert loaded.settings == Settings()
    (fault,) = loaded.faults
    assert fault.startswith(str(path))
    assert says in fault
    assert "\n" not in fault


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ("quit: Q", "keys: unknown action 'quit'; did you mean leave? (ignored)"),
        ("stp: X", "keys: unknown action 'stp'; did you mean stop? (ignored)"),
        ("zoom: escpe", "keys: zoom: 'escpe' is not a valid key; did you mean escape? (ignored)"),
        ("zoom: 3", "keys: zoom: 3 must be a valid string (ignored)"),
        ("1: x", "keys: 1: 1 must be a valid string (ignored)"),
        ("zoom: S", "keys: zoom: 'S' is already the key of stop (ignored)"),
    ],
)
def test_one_wrong_key_does_not_cost_the_others(entry: str, says: str) -> None:
    path = written(f"keys: {{stop: S, {entry}, resume: U}}\n")
    loaded = load_settings()
    assert loaded.settings.keys == {"stop": "S", "resume": "U"}
    assert loaded.faults == (f"{path}: {says}",)


def test_one_wrong_kind_of_panels_does_not_cost_the_other() -> None:
    written("panels: {grpo: [rewrd], sft: [loss]}\n")
    loaded = load_settings()
    assert loaded.settings.panels == {"sft": ("loss",)}
    assert len(loaded.faults) == 1


def test_two_actions_may_swap_their_keys() -> None:
    written("keys: {stop: u, resume: s}\n")
    assert load_settings().faults == ()


def test_one_wrong_value_does_not_cost_the_others() -> None:
    written("theme: grubrics-light\nrefresh_s: never\n")
    loaded = load_settings()
    assert loaded.settings.theme == "grubrics-light"
    assert len(loaded.faults) == 1


@pytest.mark.parametrize("theme", [theme.name for theme in THEMES])
def test_every_theme_can_be_chosen(theme: str) -> None:
    written(f"theme: {theme}\n")
    assert load_settings() == Loaded(Settings(theme=theme), load_settings().origins)


def test_every_theme_has_every_color() -> None:
    assert all(tuple(theme.colors) == ROLES for theme in THEMES)


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_a_selected_row_is_seen_in_a_terminal_of_256_colors(theme: Theme) -> None:
    """Rows are selected by the color ``line``, on the background and on panels."""
    roles = ("line", "background", "panel")
    selected, *behind = (
        Color.parse(theme.colors[role]).downgrade(ColorSystem.EIGHT_BIT) for role in roles
    )
    assert selected not in behind


def test_a_theme_of_the_settings_changes_colors_of_its_base() -> None:
    written("theme: dusk\nthemes: {dusk: {base: grubrics-light, series-1: '#8a3ffc'}}\n")
    loaded = load_settings()
    assert (loaded.settings.theme, loaded.faults) == ("dusk", ())
    theme = themes_of(loaded.settings)[-1]
    light = next(theme for theme in THEMES if theme.name == "grubrics-light")
    assert theme.dark == light.dark
    assert theme.colors == {**light.colors, "series-1": "#8a3ffc"}
    assert theme.for_textual.variables["band-1"] != light.for_textual.variables["band-1"]


@pytest.mark.parametrize(
    ("declaration", "problem"),
    [
        ("{primry: '#8a3ffc'}", "dusk: primry: unknown color; did you mean primary?"),
        ("{primary: purple}", "dusk: primary: purple must be a color in quotes, e.g. '#6cb6d9'"),
        ("{primary: #8a3ffc\n}", "dusk: primary: null must be a color in quotes, e.g. '#6cb6d9'"),
        ("{base: grubrics-lihgt}", "did you mean grubrics-light?"),
        ("purple", "dusk: purple must be a valid dictionary"),
        ("{1: '#8a3ffc'}", "dusk.1: 1 must be a valid string"),
    ],
)
def test_an_invalid_theme_is_one_line_and_does_not_cost_the_others(
    declaration: str, problem: str
) -> None:
    path = written(f"theme: dusk\nthemes:\n  noon: {{error: '#aa0000'}}\n  dusk: {declaration}\n")
    loaded = load_settings()
    assert loaded.settings.theme == Settings.theme
    assert [theme.name for theme in themes_of(loaded.settings)][3:] == ["noon"]
    (fault,) = loaded.faults
    assert fault.startswith(f"{path}: themes: ")
    assert problem in fault


@pytest.mark.parametrize("name", ["grubrics-light", "[red]"])
def test_a_theme_needs_a_new_plain_name(name: str) -> None:
    written(json.dumps({"themes": {name: {"error": "#aa0000"}}}))
    loaded = load_settings()
    assert themes_of(loaded.settings) == THEMES
    assert len(loaded.faults) == 1


def test_every_setting_is_described() -> None:
    assert all(docs()[name] for name in Settings.__dataclass_fields__)


def test_the_command_shows_values_with_their_origin_and_the_faults() -> None:
    written("refresh_s: 2\nthme: x\n")
    result = CliRunner().invoke(app, ["settings", "--json"])
    told = json.loads(result.stdout)
    assert result.exit_code == 1
    assert told["settings"]["refresh_s"] == {
        "value": 2.0,
        "origin": "file",
        "doc": docs()["refresh_s"],
    }
    assert told["actions"]["stop"] == "s"
    assert "did you mean theme?" in told["faults"][0]


def test_the_command_begins_with_what_is_wrong() -> None:
    written("refresh_s: 2\nthme: x\n")
    result = CliRunner().invoke(app, ["settings"])
    assert result.stdout.startswith("warning: ")
    assert "did you mean theme?" in result.stdout.splitlines()[0]


async def test_a_wrong_setting_is_said_on_the_screen(run: SampleRun, runs: Path) -> None:
    loaded = Loaded(Settings(), {}, ("settings.yaml: theme: [red]x[/] must be one of",))
    async with running(runs, LARGE, loaded=loaded) as driver:
        await driver.shows("settings.yaml: theme: [red]x[/] must be one of")


async def test_the_example_of_themes_and_keys_in_the_docs_works(run: SampleRun, runs: Path) -> None:
    page = (ROOT / "docs/cockpit.md").read_text()
    (example,) = re.findall(r"^```yaml\n(theme: .*?)^```$", page, re.MULTILINE | re.DOTALL)
    loaded = load_settings(written(example))
    assert loaded.faults == ()
    assert themes_of(loaded.settings)[-1].colors["series-1"] == "#8a3ffc"
    async with running(runs, LARGE, loaded=loaded) as driver:
        await driver.shows("step 12/40", "S stop")
        assert driver.app.theme == "dusk"


async def test_a_theme_of_the_settings_is_shown_and_ctrl_t_reaches_it(
    run: SampleRun, runs: Path
) -> None:
    loaded = Loaded(Settings(theme="dusk", themes={"dusk": {"background": "#102030"}}), {})
    async with running(runs, LARGE, loaded=loaded) as driver:
        await driver.shows("step 12/40")
        assert driver.app.theme_variables["background"] == "#102030"
        await driver.press("ctrl+t")
        assert driver.app.theme == "grubrics-dark"
        await driver.press("ctrl+t", "ctrl+t", "ctrl+t")
        assert driver.app.theme == "dusk"


async def test_a_remapped_key_acts_and_stands_in_footer_and_help(
    run: SampleRun, runs: Path
) -> None:
    loaded = Loaded(Settings(keys={"stop": "S", "zoom": "w"}), {})
    async with running(runs, LARGE, loaded=loaded) as driver:
        await driver.shows("step 12/40", "S stop", "w zoom")
        await driver.press("s")
        assert "Stop " not in driver.screen
        await driver.press("S")
        await driver.shows("Stop ")
        await driver.press("n", "question_mark")
        await driver.shows("Actions   S stop")


async def test_commas_and_full_stops_can_be_keys(run: SampleRun, runs: Path) -> None:
    keys = {"stop": ",", "zoom": ".", "chart_pan(-0.25)": "(", "chart_pan(0.25)": ")"}
    path = written(json.dumps({"keys": keys}))
    loaded = load_settings(path)
    assert not loaded.faults
    async with running(runs, LARGE, loaded=loaded) as driver:
        await driver.shows("step 12/40", ", stop", ". zoom")
        await driver.press("full_stop")
        await driver.until(lambda: bool(driver.app.screen.zoomed))  # type: ignore[attr-defined]
        await driver.press("comma")
        await driver.shows("Stop ")


async def test_a_read_only_screen_neither_offers_nor_does_what_changes_a_run(
    run: SampleRun, runs: Path
) -> None:
    loaded = Loaded(Settings(read_only=True), {})
    async with running(runs, LARGE, loaded=loaded) as driver:
        assert "s stop" not in await driver.shows("step 12/40", "tab panel")
        await driver.press("s", "y")
        assert "Stop " not in driver.screen
        for action in ("stop", "launch", "resume", "remove", "reap", "start"):
            await driver.app.screen.run_action(action)
        await driver.shows("read-only")
    assert pending_stop(run.run) is None
