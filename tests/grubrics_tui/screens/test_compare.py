"""Runs side by side on the screen and in the shell."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from engine.base import jsonl
from engine.runs.trust import vouch
from grubrics_tui.cli import app
from grubrics_tui.screens.compare.screen import CompareScreen, labels
from grubrics_tui.screens.compare.table import CompareTable
from grubrics_tui.screens.runs.screen import RunsScreen
from grubrics_tui.widgets.chart import Chart
from tests.grubrics_tui.pilots import LARGE, SMALL, Driver, cli_output, running
from tests.grubrics_tui.sample_run import SampleRun

pytestmark = pytest.mark.waits

HOSTILE = "\x1b[2J[red]x[/red] [@click=app.quit]\u202egnp.exe\u200b"


async def compare(driver: Driver, runs: int = 3) -> CompareScreen:
    """Mark the first runs of the list and compare them."""
    await driver.press("r")
    await driver.shows("growing", "short", "long")
    await driver.press(*["space"] * runs, "x")
    await driver.message(CompareScreen.AllRead)
    screen = driver.app.screen
    assert isinstance(screen, CompareScreen)
    await driver.until(lambda: screen.comparison is not None and len(screen.comparison.summary) > 5)
    return screen


async def test_marked_runs_are_drawn_in_the_colors_of_their_marks(
    three: dict[str, SampleRun], runs: Path
) -> None:
    async with running(runs) as driver:
        screen = await compare(driver)
        marks = next(s for s in driver.app.screen_stack if isinstance(s, RunsScreen)).marks
        lines = screen.query_one(Chart).plot.lines
        assert [line.ink for line in lines] == [marks.color(name) for name in marks.ids]
        assert len({line.ink for line in lines}) == 3
        assert [line.x.size for line in lines] == [8, 5, 30]
        await driver.shows("reward/mean", "◆ growing", "━ long", "each run at its last step")


async def test_differences_are_shown_with_their_origin(
    three: dict[str, SampleRun], runs: Path
) -> None:
    async with running(runs) as driver:
        await compare(driver)
        await driver.shows("config · optim", "lr", "3e-5  cli", "1e-5  file", "results")


async def test_equal_steps_cut_every_run_at_the_last_common_step(
    three: dict[str, SampleRun], runs: Path
) -> None:
    async with running(runs) as driver:
        screen = await compare(driver)
        await driver.press("e")
        await driver.shows("up to step 5")
        assert {line.x[-1] for line in screen.query_one(Chart).plot.lines} == {5.0}


async def test_another_baseline_is_what_deltas_are_to(
    three: dict[str, SampleRun], runs: Path
) -> None:
    async with running(runs) as driver:
        await compare(driver)
        await driver.press("b", "d")
        screen = await driver.shows("more than the baseline short", "◆ short")
        steps = next(line for line in screen.splitlines() if "steps done" in line)
        assert steps.split()[3:6] == ["+3", "5", "+25"]


async def test_another_metric_is_found_by_typing(three: dict[str, SampleRun], runs: Path) -> None:
    async with running(runs) as driver:
        screen = await compare(driver)
        await driver.press("slash", *"judlat", "enter")
        await driver.until(lambda: screen.metric.startswith("judge_api_latency"))
        await driver.shows(screen.metric)


async def test_the_cursor_reads_every_run_at_the_same_step(
    three: dict[str, SampleRun], runs: Path
) -> None:
    async with running(runs) as driver:
        await compare(driver)
        await driver.press("home")
        head = (await driver.shows("step 1")).splitlines()[1]
        for sample in three.values():
            first = next(iter(jsonl.read(sample.run.train_log)))["metrics"]["reward/mean"]
            assert f"{first:.4g}" in head


async def test_a_running_run_grows_on_the_screen(three: dict[str, SampleRun], runs: Path) -> None:
    async with running(runs) as driver:
        screen = await compare(driver)
        three["growing"].grow(3)
        await driver.until(lambda: screen.query_one(Chart).plot.lines[0].x.size == 11)


async def test_a_row_is_shown_in_full(three: dict[str, SampleRun], runs: Path) -> None:
    three["long"].configure({HOSTILE: ("a-long-folder-name/" * 5, "cli")})
    async with running(runs) as driver:
        screen = await compare(driver)
        await select(driver, screen, "gnp.exe")
        await driver.press("enter")
        whole = await driver.shows("not set", "cli")
        assert "".join(whole.split()).count("a-long-folder-name/") >= 5
        await driver.press("escape")
        assert driver.app.screen is screen


async def select(driver: Driver, screen: CompareScreen, label: str) -> None:
    """Go down to the row whose key has ``label``."""
    table = screen.query_one(CompareTable)
    for _ in range(60):
        if table.selected is not None and label in table.selected.label:
            return
        await driver.press("j")
    raise AssertionError(f"no row {label}")


async def test_values_wider_than_the_screen_are_scrolled_and_short_ones_stay(
    three: dict[str, SampleRun], runs: Path
) -> None:
    long = "/data/" + "folder/" * 6
    three["long"].configure({"data.file": (long + "one.pq", "file"), "seed": (1, "file")})
    three["short"].configure({"data.file": (long + "two.pq", "file"), "seed": (2, "file")})
    async with running(runs, SMALL) as driver:
        await compare(driver)
        await driver.press("tab", "G", *["pagedown"] * 4)
        screen = await driver.shows("/data/folder", "seed")
        assert "one.pq" not in screen
        await driver.press(*["right_curly_bracket"] * 9)
        screen = await driver.shows("one.pq", "two.pq", "column")
        assert "at 8" in screen
        seeds = next(line for line in screen.splitlines() if "seed" in line)
        assert "1" in seeds and "2" in seeds
        await driver.press(*["left_curly_bracket"] * 9)
        await driver.shows("/data/folder")


def shell(sample: SampleRun, **variables: str) -> None:
    environment = {"environment": {"variables": variables}}
    jsonl.write_json(sample.run.manifest, {**sample.run.read_manifest(), **environment})
    vouch(sample.run)


async def test_variables_of_the_shell_are_folded(three: dict[str, SampleRun], runs: Path) -> None:
    for name, sample in three.items():
        shell(sample, VIRTUAL_ENV=f"/venvs/{name}", CUDA_VISIBLE_DEVICES=name)
    async with running(runs, SMALL) as driver:
        await compare(driver)
        await driver.press("tab", *["pagedown"] * 5)
        screen = await driver.shows("shell: 1 variable that cannot change training; v shows them")
        assert "CUDA_VISIBLE_DEVICES" in screen and "VIRTUAL_ENV" not in screen
        await driver.press("v", *["pagedown"] * 5)
        await driver.shows("VIRTUAL_ENV", "/venvs/short")
    output = CliRunner().invoke(app, ["compare", "long", "short", "--runs", str(runs)]).stdout
    assert "CUDA_VISIBLE_DEVICES" in output and "/venvs" not in output
    assert "shell: 1 difference without effect on training" in output


async def test_one_panel_at_a_time_on_a_small_terminal(
    three: dict[str, SampleRun], runs: Path
) -> None:
    async with running(runs, SMALL) as driver:
        await compare(driver)
        assert "results" not in driver.screen
        await driver.press("tab")
        await driver.shows("results")
        assert "each run at its last step, row 1" in driver.screen


async def test_escape_leads_back_to_the_list_and_the_marks_stay(
    three: dict[str, SampleRun], runs: Path
) -> None:
    async with running(runs) as driver:
        await compare(driver, 2)
        await driver.press("escape")
        await driver.shows("2 selected: x compare")
        await driver.press("escape")
        await driver.shows("/ filter   space select   x compare")


@pytest.mark.parametrize("size", [(40, 10), (60, 15), (300, 100)])
async def test_every_size_is_survived(
    three: dict[str, SampleRun], runs: Path, size: tuple[int, int]
) -> None:
    async with running(runs, LARGE) as driver:
        await compare(driver)
        for width, height in (size, LARGE, size):
            await driver.resize((width, height))
            await driver.press("tab", "greater_than_sign", "less_than_sign", "j", "k", "z", "z")
        assert isinstance(driver.app.screen, CompareScreen)


async def test_hostile_text_is_inert(three: dict[str, SampleRun], runs: Path) -> None:
    three["long"].configure({f"data.{HOSTILE}": (HOSTILE, HOSTILE)})
    record = {
        "v": 1,
        "step": 31,
        "attempt": 1,
        "t": 1.0,
        "metrics": {HOSTILE: 1.0, "reward/mean": 0.1},
    }
    jsonl.append(three["long"].run.train_log, record)
    replace = {"v": 1, "tags": [HOSTILE, "fine"], "text": HOSTILE}
    jsonl.write_json(three["long"].run.notes, replace)
    async with running(runs) as driver:
        screen = await compare(driver)
        await driver.press("slash", *"click", "enter")
        await driver.until(lambda: "click" in screen.metric)
        shown = await driver.shows("[red]x[/red]")
        assert not set("\x1b\u202e\u200b") & set(shown)
        await driver.press("escape", "escape", "end")
        assert not set("\x1b\u202e\u200b") & set(await driver.shows("#fine"))
    result = CliRunner().invoke(app, ["compare", "long", "short", "--runs", str(runs)])
    assert not set("\x1b\u202e\u200b") & set(result.output)
    result = CliRunner().invoke(app, ["compare", "long", "short", "--json", "--runs", str(runs)])
    assert not set("\x1b\u202e\u200b") & set(result.output)


def test_long_names_stay_apart() -> None:
    names = ["sweep-" + "x" * 40 + tail for tail in ("-a-same-end-here", "-b-same-end-here")]
    assert len(set(labels(names))) == 2


def test_the_command_prints_what_the_screen_shows(three: dict[str, SampleRun], runs: Path) -> None:
    text = cli_output(runs, "compare", "long", "short")
    assert "deltas to long" in text
    assert "3e-5  (cli)" in text
    command = ("compare", "long", "short", "--baseline", "short", "--json")
    comparison = json.loads(cli_output(runs, *command))
    assert (comparison["runs"], comparison["baseline"], comparison["common_step"]) == (
        ["long", "short"],
        "short",
        5,
    )
    done = next(row for row in comparison["summary"] if row["name"] == "steps done")
    assert done["deltas"] == {"long": 25.0, "short": 0.0}
    assert comparison["config"][0]["values"]["long"] == {"value": "3e-5", "origin": "cli"}


async def test_runs_of_different_kinds_are_said_to_be_with_what_they_share(
    three: dict[str, SampleRun], runs: Path
) -> None:
    tuned = SampleRun.create(runs, "tuned", kind="sft")
    tuned.grow(8)
    tuned.say("finished")
    line = "different kinds (grpo, sft): apart from steps and times, they share "
    async with running(runs, LARGE) as driver:
        await compare(driver, 4)
        screen = await driver.shows("apart from steps and times, they share ")
        assert "different kinds: " in screen and "; each run at its last step" in screen
    assert f"note: {line}" in cli_output(runs, "compare", "long", "tuned")
    comparison = json.loads(cli_output(runs, "compare", "long", "tuned", "--json"))
    assert comparison["different_kinds"] == ["grpo", "sft"]
    assert line not in cli_output(runs, "compare", "long", "short")


async def test_rewards_on_different_scales_are_warned_of_on_the_screen_and_in_the_shell(
    three: dict[str, SampleRun], runs: Path
) -> None:
    warning = "rewards are not on the same scale: judge.model, reward_config.lambda_len differ"
    assert "one scale" not in cli_output(runs, "compare", *three)
    for index, sample in enumerate(three.values()):
        sample.configure(
            {
                "reward_config.lambda_len": (0.1 * index, "cli"),
                "judge.model": (f"judge-{index}", "environment"),
                "judge.timeout_s": (60 + index, "cli"),
            }
        )
    assert f"WARNING: {warning}" in cli_output(runs, "compare", *three)
    keys = json.loads(cli_output(runs, "compare", *three, "--json"))["reward_scale"]
    assert keys == ["judge.model", "reward_config.lambda_len"]
    async with running(runs, LARGE) as driver:
        await compare(driver)
        await driver.shows(warning)


def test_a_metric_is_printed_step_by_step(three: dict[str, SampleRun], runs: Path) -> None:
    comparison = json.loads(
        cli_output(runs, "compare", "long", "short", "--metric", "reward/mean", "--json")
    )
    curve = comparison["series"]["reward/mean"]
    assert curve["steps"] == list(range(1, 31))
    assert curve["values"]["short"][5:] == [None] * 25


@pytest.fixture
def ablation(runs: Path) -> tuple[SampleRun, SampleRun]:
    """Two runs of the same numbers, although a weight of the reward was changed."""
    samples = []
    for name, weight in (("base", "0.3"), ("lambda-0", "0.0")):
        sample = SampleRun.create(runs, name)
        sample.grow(6)
        sample.say("finished")
        sample.configure({"reward_config.lambda_info": (weight, "cli")})
        samples.append(sample)
    return samples[0], samples[1]


def test_an_ablation_without_effect_is_named_by_the_command(
    ablation: tuple[SampleRun, SampleRun], runs: Path
) -> None:
    text = CliRunner().invoke(app, ["compare", "base", "lambda-0", "--runs", str(runs)]).output
    assert "ERROR: base and lambda-0: Both runs logged identical metrics" in text
    assert "reward_config.lambda_info" in text and "never reached the training" in text


async def test_an_ablation_without_effect_is_shown_above_the_differences(
    ablation: tuple[SampleRun, SampleRun], runs: Path
) -> None:
    async with running(runs) as driver:
        await driver.press("r")
        await driver.shows("base", "lambda-0")
        await driver.press("space", "space", "x")
        await driver.message(CompareScreen.AllRead)
        await driver.shows("! ", "Both runs logged identical metrics")
