"""Runs side by side on the screen and in the shell."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from engine.base import jsonl
from engine.report.differences import Difference
from engine.run.history.plot import Line, Plot
from engine.run.trust import vouch
from grubrics_tui.cli import app
from grubrics_tui.drawing.comparison import Grid, TableLine, line
from grubrics_tui.drawing.spans import Span
from grubrics_tui.screens.compare.charts import SmallChart
from grubrics_tui.screens.compare.screen import CompareScreen, labels
from grubrics_tui.screens.compare.table import CompareTable
from grubrics_tui.screens.runs.screen import RunsScreen
from grubrics_tui.widgets.chart import Chart
from grubrics_tui.widgets.key_footer import KeyFooter
from tests.grubrics_tui.conftest import Call
from tests.grubrics_tui.pilots import LARGE, SMALL, Driver, cli_output, running
from tests.grubrics_tui.plain_picture import plain
from tests.grubrics_tui.sample_run import SampleRun
from tests.manifests import change_manifest

pytestmark = pytest.mark.waits

HOSTILE = "\x1b[2J[red]x[/red] [@click=app.quit]\u202egnp.exe\u200b"


async def compare(driver: Driver, runs: int = 3) -> CompareScreen:
    """Mark the first runs of the list and compare them."""
    await driver.press("r")
    await driver.shows("growing", "short", "long")
    await driver.press(*["space"] * runs, "x")
    await driver.called(CompareScreen.show)
    screen = driver.app.screen
    assert isinstance(screen, CompareScreen)
    await driver.until(lambda: screen.comparison is not None and len(screen.comparison.summary) > 5)
    return screen


@pytest.mark.thorough
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


@pytest.mark.thorough
async def test_another_baseline_is_what_deltas_are_to(
    three: dict[str, SampleRun], runs: Path
) -> None:
    async with running(runs) as driver:
        await compare(driver)
        await driver.press("b", "d")
        screen = await driver.shows("more than the baseline short", "◆ short")
        steps = next(line for line in screen.splitlines() if "steps done" in line)
        assert steps.split()[3:6] == ["+3", "5", "+25"]


@pytest.mark.thorough
async def test_another_metric_is_found_by_typing(three: dict[str, SampleRun], runs: Path) -> None:
    async with running(runs) as driver:
        screen = await compare(driver)
        await driver.press("slash", *"judlat", "enter")
        await driver.until(lambda: screen.metric.startswith("judge_api_latency"))
        await driver.shows(screen.metric)


@pytest.mark.thorough
async def test_the_cursor_reads_every_run_at_the_same_step(
    three: dict[str, SampleRun], runs: Path
) -> None:
    async with running(runs) as driver:
        await compare(driver)
        await driver.press("home")
        head = (await driver.shows("step 1")).splitlines()[1]
        for sample in three.values():
            first = next(iter(jsonl.read(sample.run.train_log)))["metrics"]["reward/mean"]
            assert f"{first:.3g}" in head


async def test_a_running_run_grows_on_the_screen(three: dict[str, SampleRun], runs: Path) -> None:
    async with running(runs) as driver:
        screen = await compare(driver)
        three["growing"].grow(3)
        await driver.until(lambda: screen.query_one(Chart).plot.lines[0].x.size == 11)


@pytest.mark.thorough
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


@pytest.mark.thorough
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
        screen = await driver.shows("one.pq", "two.pq", "cell")
        assert "at 8" in screen
        seeds = next(line for line in screen.splitlines() if "seed" in line)
        assert "1" in seeds and "2" in seeds
        await driver.press(*["left_curly_bracket"] * 9)
        await driver.shows("/data/folder")


def shell(sample: SampleRun, **variables: str) -> None:
    environment = {"environment": {"variables": variables}}
    change_manifest(sample.run, **environment)
    vouch(sample.run)


@pytest.mark.thorough
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


@pytest.fixture
def seeds(runs: Path) -> list[SampleRun]:
    """Two configurations with three seeds each."""
    samples = []
    for number, (arm, rate) in enumerate((("base", 1e-5), ("high", 3e-5)) * 3):
        seed = number // 2 + 1
        sample = SampleRun.create(runs, f"{arm}-s{seed}")
        sample.seed = number
        sample.grow(6)
        sample.say("finished")
        sample.configure(
            {
                "actor_rollout_ref.actor.optim.lr": (rate, "cli"),
                "grubrics.seed": (seed, "cli"),
                "data.seed": (seed, "cli"),
            }
        )
        samples.append(sample)
    return samples


async def compare_seeds(driver: Driver) -> CompareScreen:
    await driver.press("r")
    await driver.shows("base-s1", "high-s3")
    await driver.press(*["space"] * 6, "x")
    await driver.called(CompareScreen.show)
    screen = driver.app.screen
    assert isinstance(screen, CompareScreen)
    await driver.until(lambda: screen.comparison is not None and len(screen.comparison.summary) > 5)
    return screen


async def test_runs_that_differ_only_in_seeds_are_one_line_with_a_band(
    seeds: list[SampleRun], runs: Path
) -> None:
    async with running(runs) as driver:
        screen = await compare_seeds(driver)
        lines = screen.query_one(Chart).plot.lines
        assert sorted(line.label for line in lines) == ["base-s*", "high-s*"]
        assert all(line.band("spread") is not None for line in lines)
        await driver.shows("base-s*", "1, 2, 3", "± 95% over the seeds")


@pytest.mark.thorough
async def test_the_runs_of_a_group_can_be_shown_apart(seeds: list[SampleRun], runs: Path) -> None:
    async with running(runs) as driver:
        screen = await compare_seeds(driver)
        await driver.press("g")
        await driver.until(lambda: len(screen.query_one(Chart).plot.lines) == 6)
        await driver.shows("no intervals: one run each")


@pytest.mark.thorough
async def test_a_row_in_full_has_the_interval_and_every_run(
    seeds: list[SampleRun], runs: Path
) -> None:
    async with running(runs) as driver:
        screen = await compare_seeds(driver)
        await select(driver, screen, "reward, best")
        await driver.press("enter")
        await driver.shows("95% interval", "base-s1", "high-s3")


@pytest.mark.thorough
async def test_several_metrics_are_shown_at_once_and_one_alone_with_o(
    three: dict[str, SampleRun], runs: Path
) -> None:
    async with running(runs) as driver:
        screen = await compare(driver)
        await driver.shows("reward/mean", "reward/std", "actor/entropy")
        await driver.press("o")
        await driver.until(lambda: sum(chart.display for chart in screen.query(Chart)) == 1)
        assert "reward/std" not in driver.screen


@pytest.mark.thorough
async def test_a_click_on_a_chart_chooses_its_metric(
    three: dict[str, SampleRun], runs: Path
) -> None:
    async with running(runs) as driver:
        screen = await compare(driver)
        await driver.shows("reward/std")
        chart = next(one for one in screen.query(SmallChart) if one.metric == "reward/std")
        await driver.click(chart)
        await driver.until(lambda: screen.metric == "reward/std")


def test_a_group_is_a_column_of_the_command(seeds: list[SampleRun], runs: Path) -> None:
    ids = [sample.run.id for sample in seeds]
    text = cli_output(runs, "compare", *ids)
    assert "deltas to base-s*" in text
    assert "± half of the 95% interval over the seeds" in text
    assert "optim.lr" in text and "data.seed" not in text
    apart = json.loads(cli_output(runs, "compare", *ids, "--each", "--json"))
    assert [group["runs"] for group in apart["groups"]] == [[run] for run in ids]


def test_chosen_groups_have_the_chosen_names(three: dict[str, SampleRun], runs: Path) -> None:
    command = ("compare", "growing", "--group", "done=long,short", "--json", "--baseline", "done")
    comparison = json.loads(cli_output(runs, *command))
    assert [group["name"] for group in comparison["groups"]] == ["growing", "done"]
    assert comparison["groups"][1]["runs"] == ["long", "short"]
    assert comparison["baseline"] == "done"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["long"], "1 run chosen; a comparison takes 2 to 64"),
        (["long", "short", "--baseline", "x"], "baseline 'x' is not among the compared runs"),
        (["long", "--group", "a"], "--group a: expected NAME=RUN,RUN"),
        (["--group", "a=long", "--group", "b=long"], "run 'long' is already in a"),
        (["long", "short", "--screen"], "--screen needs a terminal"),
    ],
)
def test_a_wrong_choice_is_refused_in_one_line(
    three: dict[str, SampleRun], runs: Path, call: Call, arguments: list[str], message: str
) -> None:
    code, output = call("compare", *arguments, "--runs", str(runs))
    assert code == 2
    assert message in output


def test_logs_of_other_trainers_are_compared(
    three: dict[str, SampleRun], runs: Path, tmp_path: Path
) -> None:
    """Two HF folders of the same name go by their paths, and their config is not known."""
    for seed in (1, 2):
        folder = tmp_path / f"seed-{seed}" / "output"
        folder.mkdir(parents=True)
        history = [{"step": step, "loss": seed / step, "epoch": 0.1} for step in (1, 2, 3)]
        state = {"log_history": history, "global_step": 3, "max_steps": 3}
        jsonl.write_json(folder / "trainer_state.json", state)
    paths = [str(tmp_path / f"seed-{seed}" / "output") for seed in (1, 2)]
    group = f"trl={','.join(paths)}"
    text = cli_output(runs, "compare", "--group", group, "long")
    assert "2 runs" in text and f"config: not known of {paths[0]}, {paths[1]}" in text
    comparison = json.loads(cli_output(runs, "compare", *paths, "--json"))
    assert comparison["runs"] == paths
    loss = next(row for row in comparison["summary"] if row["name"] == "loss, last")
    assert list(loss["values"].values()) == pytest.approx([1 / 3, 2 / 3])


@pytest.mark.thorough
async def test_one_panel_at_a_time_on_a_small_terminal(
    three: dict[str, SampleRun], runs: Path
) -> None:
    async with running(runs, SMALL) as driver:
        await compare(driver)
        assert "results" not in driver.screen
        await driver.press("tab")
        await driver.shows("results")
        assert "each run at its last step, row 1" in driver.screen


@pytest.mark.thorough
async def test_escape_leads_back_to_the_list_and_the_marks_stay(
    three: dict[str, SampleRun], runs: Path
) -> None:
    async with running(runs) as driver:
        await compare(driver, 2)
        await driver.press("escape")
        await driver.shows("2 selected: x compare")
        await driver.press("escape")
        await driver.shows("/ filter   space select   x compare")


@pytest.mark.sample(1)
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


@pytest.mark.thorough
async def test_hostile_text_is_inert(three: dict[str, SampleRun], runs: Path) -> None:
    three["long"].configure({f"data.{HOSTILE}": (HOSTILE, "cli")})
    record = {
        "v": 1,
        "step": 31,
        "attempt": 1,
        "t": 1.0,
        "metrics": {HOSTILE: 1.0, "reward/mean": 0.1},
    }
    jsonl.append(three["long"].run.train_log, record)
    replace = {"v": 1, "tags": [HOSTILE, "fine"], "text": HOSTILE}
    jsonl.write_json(three["long"].run.notes_file, replace)
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


def test_labels_leave_out_what_all_names_begin_with() -> None:
    assert labels(["grpo_tiny-1a2b-base-s*", "grpo_tiny-1a2b-warm-s*"]) == ["base-s*", "warm-s*"]
    assert labels(["grpo-base", "grpo-warm"]) == ["grpo-base", "grpo-warm"]


def test_the_command_prints_what_the_screen_shows(three: dict[str, SampleRun], runs: Path) -> None:
    text = cli_output(runs, "compare", "long", "short")
    assert "deltas to long in parentheses" in text
    row = next(line for line in text.splitlines() if "steps done" in line)
    assert row.split() == ["steps", "done", "30", "5", "(-25)"]
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


@pytest.mark.thorough
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
        await driver.called(CompareScreen.show)
        await driver.shows("! ", "Both runs logged identical metrics")


@pytest.mark.thorough
async def test_a_layout_that_waits_for_a_batch_is_not_forgotten_below_a_dialog(
    three: dict[str, SampleRun], runs: Path
) -> None:
    """Recomposing a footer is a batch, and comes with every resize."""
    async with running(runs) as driver:
        footer = (await compare(driver)).query_one(KeyFooter)
        await driver.press("slash")
        await driver.shows("Choose a metric")
        with driver.app.batch_update():
            footer.styles.height = 3
            await driver.settle()
        await driver.until(lambda: footer.size.height == 3, "a higher footer")


@pytest.mark.thorough
async def test_a_click_puts_the_cursor_on_a_row_of_the_table(
    three: dict[str, SampleRun], runs: Path
) -> None:
    async with running(runs) as driver:
        table = (await compare(driver)).query_one(CompareTable)
        await driver.press("tab")
        await driver.click(table, (5, 4))
        await driver.until(lambda: table.selected is not None)
        assert table.selected is not None
        assert table.selected.label == "steps done"


@pytest.mark.thorough
async def test_the_head_of_a_small_chart_never_cuts_a_number(
    three: dict[str, SampleRun], runs: Path
) -> None:
    async with running(runs) as driver:
        screen = await compare(driver)
        chart = screen.query_one(SmallChart)
        chart.metric = "actor/pg_loss"
        values = (-0.0563, -0.00392, -0.0123)
        lines = tuple(Line(np.ones(1), np.array([value]), "run") for value in values)
        view = chart.view
        heads = [plain(chart.head(Plot(lines), view, width)) for width in range(1, 60)]
        assert all(len(head) <= width for width, head in enumerate(heads, 1))
        numbers = {word for head in heads for word in head.split() if word[0] == "-"}
        assert numbers == {f"{value:.3g}" for value in values}
        assert heads[34] == "actor/pg_loss  -0.0563 -0.00392 …"


def test_a_warning_that_does_not_fit_ends_with_an_ellipsis() -> None:
    warning = TableLine("! rewards are not on the same scale: lambda_defense, reward_model")
    row = line(warning, Grid.of([warning], 2, 40), 40)
    assert plain([row]) == "! rewards are not on the same scale: la…"


def test_the_cursor_of_the_table_is_seen_without_colors() -> None:
    source = Difference("optim", "lr", ())
    shown = TableLine("lr", ((Span("3e-05"),),), source)
    grid = Grid.of([shown], 1, 40)
    chosen, other = (plain([line(shown, grid, 40, chosen=chosen)]) for chosen in (True, False))
    assert chosen == other.replace("  lr", "› lr", 1) != other


@pytest.mark.thorough
async def test_shift_g_goes_to_the_last_row_of_the_table(
    three: dict[str, SampleRun], runs: Path
) -> None:
    async with running(runs) as driver:
        screen = await compare(driver)
        rows = len([row for row in screen.query_one(CompareTable).items if not row.is_heading])
        await driver.press("tab", "G")
        await driver.shows(f"row {rows} of {rows}")
