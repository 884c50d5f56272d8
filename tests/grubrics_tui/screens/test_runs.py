"""The list of runs."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine.base import jsonl
from engine.base.typed import to_json
from engine.run.checkpoints.ownership import STAMP, Stamp
from engine.run.checkpoints.step_folders import complete_steps
from engine.run.columns import find_columns
from engine.run.events import pending_stop
from engine.run.registry import list_runs
from engine.run.run import Run, archive_root
from engine.run.trust import vouch
from grubrics_tui.screens.preflight.edit_launch import OverridesScreen
from grubrics_tui.screens.runs.screen import RunsScreen
from grubrics_tui.screens.runs.table import RunList, Table, Widths
from grubrics_tui.settings.state_files import ListViewFile
from grubrics_tui.widgets import facts
from tests.engine.run.checkpoints.checkpoint_files import save
from tests.engine.supervise.kept_runs import make_trained
from tests.grubrics_tui.pilots import SMALL, running
from tests.grubrics_tui.plain_picture import plain
from tests.grubrics_tui.sample_run import SampleRun
from tests.manifests import change_manifest

OUT_OF_MEMORY = "exit code 1 at step 3 of 40: OutOfMemoryError: " + "tried to allocate; " * 8


def ended(runs: Path, name: str = "old", **details: str) -> SampleRun:
    sample = SampleRun.create(runs, name)
    sample.grow(3)
    sample.say("failed", **{"reason": "exit code 1", **details})
    return sample


async def test_every_run_is_listed_with_state_step_and_reason(run: SampleRun, runs: Path) -> None:
    ended(runs, "broken")
    async with running(runs) as driver:
        await driver.press("r")
        screen = await driver.shows("● running", "✗ failed", "exit code 1", "2 runs")
        assert "12/40" in screen
        assert "3/40" in screen


async def test_a_run_that_was_stopped_does_not_look_finished(run: SampleRun, runs: Path) -> None:
    run.say("finished", reason="stopped by user at step 12 of 40")
    async with running(runs) as driver:
        await driver.press("r")
        screen = await driver.shows("□ stopped", "stopped by user at step 12 of 40")
        assert "finished" not in screen


@pytest.mark.thorough
async def test_the_elapsed_time_of_the_selected_run_goes_on_between_its_steps(
    run: SampleRun, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [info] = list_runs(runs)
    started = info.state.first_start or 0.0
    now = [started + 300]
    monkeypatch.setattr(facts, "time", SimpleNamespace(time=lambda: now[0]))
    async with running(runs) as driver:
        await driver.press("r")
        await driver.shows("elapsed 5:00")
        now[0] += 60
        await driver.shows("elapsed 6:00")


async def test_the_keys_for_filters_marks_and_notes_are_told_at_80_columns(
    run: SampleRun, runs: Path
) -> None:
    ended(runs)
    async with running(runs, SMALL) as driver:
        await driver.press("r")
        await driver.shows("/ filter", "space select", "x compare", "n notes")


@pytest.mark.thorough
async def test_g_and_shift_g_go_to_both_ends_of_the_list(run: SampleRun, runs: Path) -> None:
    for name in ("a", "b", "c"):
        ended(runs, name)
    async with running(runs) as driver:
        await driver.press("r")
        await driver.shows("4 runs")
        listed = driver.app.screen.query_one(RunList)
        await driver.press("G")
        assert listed.selected == listed.items[-1]
        await driver.press("g")
        assert listed.selected == listed.items[0]


async def test_what_a_queued_run_waits_for_is_said(run: SampleRun, runs: Path) -> None:
    waiting = SampleRun.create(runs, "waiting")
    waiting.say("queued", waiting_for="GPU 0, which grpo-night holds")
    async with running(runs) as driver:
        await driver.press("r")
        await driver.shows("◌ queued", "waiting for GPU 0, which grpo-night holds")


async def test_a_long_reason_can_be_read_in_full_at_80_columns(runs: Path) -> None:
    ended(runs, reason=f"{OUT_OF_MEMORY}and gave up")
    async with running(runs, SMALL) as driver:
        await driver.press("r")
        await driver.shows("✗ failed  exit code 1 at step 3", "gave up")


async def test_names_that_are_cut_keep_their_ends(runs: Path) -> None:
    for number in (1, 2):
        ended(runs, f"grpo_healthbench-with-a-name-of-a-friday-night-{number}")
    async with running(runs, SMALL) as driver:
        await driver.press("r")
        await driver.shows("iday-night-1 ", "iday-night-2 ", "grpo_health…")


async def test_the_footer_is_whole_at_80_columns(run: SampleRun, runs: Path) -> None:
    ended(runs, "broken")
    async with running(runs, SMALL) as driver:
        await driver.press("r")
        await driver.shows("enter open", "v summary", "u resume", "p orphans", "q quit")
        await driver.press("j")
        await driver.shows("enter open", "s stop", "p orphans", "? help", "q quit")


@pytest.mark.thorough
async def test_ten_thousand_runs_can_be_walked_through(runs: Path) -> None:
    ended(runs)
    (only,) = list_runs(runs)
    async with running(runs) as driver:
        await driver.press("r")
        await driver.shows("1 run ")
        driver.app.screen.query_one(RunList).fill([only] * 10_000)
        await driver.press("end", "pageup", "down")
        await driver.shows("10,000 runs", "✗ failed")


async def test_enter_opens_the_selected_run(run: SampleRun, runs: Path) -> None:
    other = SampleRun.create(runs, "other")
    other.grow(5)
    other.say("finished")
    async with running(runs, SMALL) as driver:
        await driver.press("r")
        await driver.shows("other", "grpo-night")
        await driver.press("j", "k", "enter")
        await driver.shows("1 reward", "step ")


async def test_a_run_that_appears_is_listed_without_asking(run: SampleRun, runs: Path) -> None:
    async with running(runs) as driver:
        await driver.press("r")
        await driver.shows("1 run ")
        SampleRun.create(runs, "newcomer")
        await driver.shows("newcomer", "2 runs")


async def test_an_empty_folder_says_so(runs: Path) -> None:
    async with running(runs) as driver:
        await driver.press("r")
        assert "enter open" not in await driver.shows("No runs in")


async def test_an_empty_list_offers_no_key_that_needs_a_run(runs: Path) -> None:
    async with running(runs) as driver:
        await driver.press("r")
        await driver.shows("No runs in")
        below = driver.app.screen
        offered = {entry.binding.action for entry in below.active_bindings.values()}
        needing = {"open_run", "findings", "notes", "mark", "compare", "select(0)", "cursor_down"}
        assert not offered & needing and {"filter", "back"} <= offered
        await driver.press("question_mark")
        shown = await driver.shows("Inactive")
        assert "f findings" in shown[shown.index("Inactive") :]
        offered_now = {action.description for action in driver.app.offered_actions(below)}
        assert "Edit tags and note" not in offered_now
        assert "Orphaned processes of ended runs" in offered_now


async def test_an_unreadable_folder_is_named_and_the_screen_stays(tmp_path: Path) -> None:
    not_a_folder = tmp_path / "runs"
    not_a_folder.write_text("")
    async with running(not_a_folder) as driver:
        await driver.press("r")
        await driver.shows("Cannot read", "Not a directory", "unreadable")
        await driver.press("c")
        await driver.shows("Run to launch")


# The way back


async def test_escape_leads_back_to_the_screen_the_person_came_from(
    run: SampleRun, runs: Path
) -> None:
    async with running(runs) as driver:
        await driver.shows("step 12/40")
        await driver.press("r")
        await driver.shows("1 run ")
        await driver.press("escape")
        await driver.shows("step 12/40")


@pytest.mark.thorough
async def test_from_a_run_opened_in_the_list_escape_leads_to_the_list(
    run: SampleRun, runs: Path
) -> None:
    async with running(runs) as driver:
        await driver.press("c")
        await driver.shows("Run to launch")
        await driver.press("r")
        await driver.shows("1 run ")
        await driver.press("enter")
        await driver.shows("step 12/40")
        await driver.press("escape")
        await driver.shows("1 run ")
        await driver.press("escape")
        await driver.shows("Run to launch")


async def test_escape_on_the_first_screen_only_names_the_key_that_quits(
    run: SampleRun, runs: Path
) -> None:
    async with running(runs) as driver:
        await driver.shows("step 12/40")
        await driver.press("escape")
        await driver.shows("1 run ")
        await driver.press("escape")
        await driver.shows("Press q to quit")
        await driver.press("escape", "q")
        await driver.until(lambda: driver.app.return_code == 0)


# Archive, delete, resume


async def test_archiving_asks_first_and_says_how_to_undo_it(runs: Path) -> None:
    ended(runs)
    async with running(runs) as driver:
        await driver.press("r")
        await driver.shows("1 run ")
        await driver.press("d")
        await driver.shows("Archive or delete ", "archive the run", "delete files")
        await driver.press("a")
        await driver.shows("grubrics-tui archive --undo old", "No runs in")
    assert [info.id for info in list_runs(archive_root(runs))] == ["old"]


@pytest.mark.thorough
async def test_selected_runs_that_are_gone_are_no_longer_selected(runs: Path) -> None:
    for name in ("old-a", "old-b", "new"):
        ended(runs, name)
    async with running(runs) as driver:
        await driver.press("r")
        await driver.shows("3 runs")
        await driver.press("slash", *"old", "enter")
        await driver.shows("2 of 3 runs")
        await driver.press("space", "space")
        await driver.shows("2 selected")
        await driver.press("d")
        await driver.shows("Archive or delete ")
        await driver.press("a")
        assert "selected" not in await driver.shows("0 of 1 runs")


async def test_checkpoints_are_freed_after_a_question_that_names_what_stays(runs: Path) -> None:
    run, folder = make_trained(runs)
    async with running(runs) as driver:
        await driver.press("r")
        await driver.shows("1 run ")
        await driver.press("F")
        await driver.shows("frees steps 10, 30", "20 (best)", "40 (last)", "keep only the last")
        await driver.press("y")
        await driver.shows("Checkpoints of 1 run:")
    assert list(complete_steps(folder)) == [20, 40]
    assert run.manifest_file.exists()


async def test_a_key_pressed_twice_deletes_nothing(runs: Path) -> None:
    sample = ended(runs)
    async with running(runs) as driver:
        await driver.press("r")
        await driver.shows("1 run ")
        await driver.press("d")
        await driver.shows("delete files")
        await driver.press("d", "enter", "escape")
        assert sample.run.manifest_file.exists()


async def test_deleting_says_what_it_frees_and_leaves_the_checkpoints(runs: Path) -> None:
    sample = ended(runs)
    folder = save_checkpoint(sample)
    async with running(runs) as driver:
        await driver.press("r")
        await driver.shows("1 run ")
        await driver.press("d")
        await driver.shows("checkpoints  3.0 MiB", "delete files and checkpoints", "permanently")
        await driver.press("y")
        await driver.shows("Deleted old:", "freed", "No runs in")
    assert (folder / "global_step_3" / "model.pt").exists()


@pytest.mark.thorough
async def test_checkpoints_go_with_the_run_by_a_key_of_their_own(runs: Path) -> None:
    folder = save_checkpoint(ended(runs))
    async with running(runs) as driver:
        await driver.press("r")
        await driver.shows("1 run ")
        await driver.press("d")
        await driver.shows("delete files and checkpoints")
        await driver.press("c")
        await driver.shows("Deleted old:", "No runs in")
    assert not folder.exists()


def save_checkpoint(sample: SampleRun) -> Path:
    change_manifest(sample.run, checkpoint_dir="saved")
    vouch(sample.run)
    folder = sample.run.path.parent / "saved"
    (folder / "global_step_3").mkdir(parents=True)
    (folder / "global_step_3" / "model.pt").write_bytes(bytes(3 * 2**20))
    jsonl.write_json(folder / STAMP, to_json(Stamp.of(sample.run, sample.run.read_manifest())))
    return folder


async def test_resuming_asks_first_and_says_from_which_step(runs: Path) -> None:
    sample = ended(runs)
    folder = save_checkpoint(sample)
    shutil.rmtree(folder / "global_step_3")
    save(folder, 2)
    async with running(runs) as driver:
        await driver.press("r")
        await driver.shows("1 run ")
        await driver.press("u")
        await driver.shows("from the checkpoint at step 2 of 40, as attempt 2", "1 logged step")
        await driver.press("escape")
    assert len(sample.run.attempts()) == 1


async def test_a_resume_that_cannot_be_says_why(runs: Path) -> None:
    ended(runs)
    async with running(runs) as driver:
        await driver.press("r")
        await driver.shows("1 run ")
        await driver.press("u")
        await driver.shows("Resume old?", "old cannot be resumed", "n  cancel")
        await driver.press("escape")
        assert "Resume old?" not in driver.screen


async def test_keys_pressed_faster_than_the_screen_follows_act_on_the_run_under_the_cursor(
    runs: Path,
) -> None:
    for name in ("a", "b", "c"):
        SampleRun.create(runs, f"run-{name}").say("finished")
    async with running(runs) as driver:
        await driver.press("r")
        await driver.shows("run-a", "run-c")
        screen = driver.app.screen
        assert isinstance(screen, RunsScreen)
        screen.action_cursor_down()
        screen.action_cursor_down()
        under = screen.query_one(RunList).selected
        assert under is not None
        screen.action_remove()
        await driver.shows("Archive or delete", under.id)


async def test_keys_act_on_the_marked_runs_and_never_on_the_one_under_the_cursor(
    runs: Path,
) -> None:
    for number, name in enumerate(("third", "second", "first")):
        SampleRun.create(runs, name, started=1e9 + number).say("failed", started=1e9 + number)
    async with running(runs) as driver:
        await driver.press("r")
        await driver.shows("3 runs")
        await driver.press("space", "space")
        await driver.shows("2 selected: x compare")
        selected = driver.app.screen.query_one(RunList).selected
        assert selected is not None and selected.id == "third"
        await driver.press("d")
        screen = await driver.shows("Archive or delete 2 runs?", "delete files")
        question = screen[screen.index("Archive or delete 2") : screen.index("archive the 2")]
        assert "first" in question and "second" in question and "third" not in question
        await driver.press("y")
        await driver.shows("1 run ")
    assert [info.id for info in list_runs(runs)] == ["third"]


@pytest.mark.thorough
async def test_marked_runs_that_a_filter_hides_are_named_before_they_are_archived(
    runs: Path,
) -> None:
    for name in ("hidden", "shown"):
        ended(runs, name)
    async with running(runs) as driver:
        await driver.press("r")
        await driver.shows("2 runs")
        await driver.press("space", "space", "slash", *"shown", "enter")
        await driver.shows("1 of 2 runs")
        await driver.press("d")
        await driver.shows("Archive or delete 2 runs?", "hidden")
        await driver.press("a")
        await driver.shows("No runs match the filter", "Archived shown, hidden.")
        await driver.shows("Restore them: grubrics-tui archive --undo shown hidden")
    assert {info.id for info in list_runs(archive_root(runs))} == {"hidden", "shown"}


@pytest.mark.thorough
async def test_one_marked_run_in_the_way_keeps_all_of_them(run: SampleRun, runs: Path) -> None:
    ended(runs)
    async with running(runs) as driver:
        await driver.press("r")
        await driver.shows("2 runs")
        await driver.press("space", "space", "d")
        await driver.shows("nothing was done", "grpo-night is running; deselect it with space")
        await driver.press("s")
        await driver.shows("old is failed; deselect it with space")
    assert len(list_runs(runs)) == 2


async def test_stop_asks_every_marked_run(run: SampleRun, runs: Path) -> None:
    other = SampleRun.create(runs, "other")
    other.say("running")
    ended(runs)
    async with running(runs) as driver:
        await driver.press("r")
        await driver.shows("3 runs")
        await driver.press("slash", *"state:running", "enter")
        await driver.shows("2 of 3 runs")
        await driver.press("space", "space", "s")
        await driver.shows("Stop 2 runs?", "grpo-night is running", "other is running")
        await driver.press("y")
        await driver.shows("Stop requested: ")
    assert pending_stop(run.run) and pending_stop(other.run)


async def test_resume_shows_the_checkpoint_of_every_marked_run(runs: Path) -> None:
    for name in ("one", "two"):
        ended(runs, name)
    async with running(runs) as driver:
        await driver.press("r")
        await driver.shows("2 runs")
        await driver.press("space", "space", "u")
        await driver.shows("Resume 2 runs?", "cannot be resumed", "n  cancel")


@pytest.mark.thorough
async def test_without_marks_a_key_acts_on_the_run_under_the_cursor(runs: Path) -> None:
    for number, name in enumerate(("second", "first")):
        SampleRun.create(runs, name, started=1e9 + number).say("failed", started=1e9 + number)
    async with running(runs) as driver:
        await driver.press("r")
        await driver.shows("2 runs")
        await driver.press("space", "space", "escape", "d")
        await driver.shows("Archive or delete ", "second")


async def test_a_run_is_launched_again_with_another_value_and_a_folder_of_its_own(
    fixable: Run, runs: Path
) -> None:
    async with running(runs, config="grpo") as driver:
        await driver.press("r")
        await driver.shows(fixable.id)
        await driver.press("R")
        await driver.called(OverridesScreen.list_keys)
        await driver.press(*"optim.lr=1e-4", "enter")
        as_launched = f"as run {fixable.id} was launched"
        await driver.shows(as_launched, "0.0001", f"those of run '{fixable.id}' stay")


def drawn_order(screen: str, *names: str) -> list[str]:
    """The names in the order of their lines."""
    return sorted(names, key=screen.index)


@pytest.fixture
def rewarded(runs: Path) -> None:
    """``best`` is older than ``worst``."""
    for name, reward, age_s in (("best", 0.9, 900), ("worst", 0.1, 300)):
        sample = ended(runs, name)
        metrics = {"reward/mean": reward}
        step = {"v": 1, "step": 4, "attempt": 1, "t": 1.0, "metrics": metrics}
        jsonl.append(sample.run.train_log, step)
        sample.started -= age_s
        sample.say("failed", reason="exit code 1")


async def test_keys_sort_the_runs_by_a_column_and_reverse_the_order(
    rewarded: None, runs: Path
) -> None:
    async with running(runs) as driver:
        await driver.press("r")
        await driver.shows("2 runs")
        # State, run, step, reward.
        await driver.press(*[">"] * 4)
        await driver.shows("reward ▼")
        assert drawn_order(driver.screen, "best", "worst") == ["best", "worst"]
        await driver.press("i")
        await driver.shows("reward ▲")
        await driver.until(lambda: drawn_order(driver.screen, "best", "worst") == ["worst", "best"])
        await driver.press(*["<"] * 4)
        await driver.until(lambda: "reward ▲" not in driver.screen)


@pytest.mark.parametrize(
    ("order", "sign"),
    [("id", "▲"), ("-id", "▼"), ("step", "▼"), ("-step", "▲"), ("age", "▲"), ("-age", "▼")],
)
def test_the_sign_of_the_order_points_up_where_values_rise(order: str, sign: str) -> None:
    widths = Widths(("x" * 8,), 0, dict.fromkeys(find_columns(["step", "age"]), 8))
    [head] = plain([Table.fit(widths, 80).draw_head(order)]).splitlines()
    assert [word for word in head.split() if word in "▲▼"] == [sign]


@pytest.mark.thorough
async def test_ctrl_d_and_ctrl_u_move_by_pages(runs: Path) -> None:
    for number in range(40):
        ended(runs, f"run-{number}")
    async with running(runs, SMALL) as driver:
        await driver.press("r")
        await driver.shows("40 runs")
        listed = driver.app.screen.query_one(RunList)
        await driver.press("ctrl+d")
        assert listed.selected not in listed.items[:2]
        await driver.press("ctrl+u")
        assert listed.selected == listed.items[0]


@pytest.mark.thorough
async def test_a_click_on_a_head_sorts_and_a_second_one_reverses(
    rewarded: None, runs: Path
) -> None:
    async with running(runs) as driver:
        await driver.press("r")
        await driver.shows("2 runs")
        run_list = driver.app.screen.query_one(RunList)
        head = next(line for line in driver.screen.splitlines() if "reward" in line)
        for sign in ("▼", "▲"):
            # One column is left of the list, and one line above its heads: its frame.
            await driver.click(run_list, (head.index("reward") - 1, 1))
            await driver.shows(f"reward {sign}")


@pytest.mark.thorough
async def test_chosen_columns_are_shown_and_kept(run: SampleRun, runs: Path) -> None:
    async with running(runs) as driver:
        await driver.press("r", "w")
        await driver.shows("Columns of the list of runs", "[x] step")
        await driver.press(*["down"] * 2, "space", "enter")
        assert "waiting" not in await driver.shows("run", "step")
        assert ListViewFile().load().columns is not None
    async with running(runs) as driver:
        await driver.press("r")
        chosen = driver.app.screen.query_one(RunList).chosen
        assert chosen is not None
        assert [column.name for column in chosen] == list(ListViewFile().load().columns or ())


async def test_the_default_columns_come_back_with_one_key(run: SampleRun, runs: Path) -> None:
    ListViewFile().save_columns(["note"])
    async with running(runs) as driver:
        await driver.press("r", "w", "d", "enter")
        await driver.shows("step", "12/40")
        assert ListViewFile().load().columns is None


@pytest.mark.thorough
async def test_a_filter_is_saved_under_a_name_and_applied_with_a_digit(
    run: SampleRun, runs: Path
) -> None:
    async with running(runs) as driver:
        await driver.press("r", "slash", *"state:failed", "ctrl+s")
        await driver.shows("Save the filter as")
        await driver.press(*"bad", "enter", "escape")
        await driver.shows("grpo-night")
        await driver.press("b")
        await driver.shows("Saved filters", "1 bad state:failed")
        await driver.press("1")
        await driver.shows("0 of 1 runs", "No runs match the filter")


async def test_a_saved_filter_is_deleted(run: SampleRun, runs: Path) -> None:
    ListViewFile().save_filter("bad", "state:failed")
    async with running(runs) as driver:
        await driver.press("r", "b", "d")
        await driver.shows("none yet")
        assert ListViewFile().load().filters == {}


async def test_the_details_have_the_overrides_of_the_run(run: SampleRun, runs: Path) -> None:
    manifest = jsonl.read_json(run.run.manifest_file)
    assert manifest is not None
    change = {"key": "optim.lr", "before": 1e-6, "after": 3e-5, "origin": "cli"}
    jsonl.write_json(run.run.manifest_file, {**manifest, "changes": [change]})
    async with running(runs, SMALL) as driver:
        await driver.press("r")
        await driver.shows("changed  optim.lr=3e-05")
