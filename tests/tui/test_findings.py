"""What the doctor found: on the findings screen, in the live screen, and the keys that cure it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pilots import LARGE, SMALL, Driver, running
from sample_run import SampleRun

from engine import jsonl
from engine.launch import launcher
from engine.launch.launcher import manifest, plan
from engine.launch.pinned import pinned_recipe
from engine.runs.rundir import RunDir
from engine.watch.foreign.watch import open_foreign
from grubrics_tui.app import GrubricsApp
from grubrics_tui.cli import main
from grubrics_tui.diagnose_command import finding_json
from grubrics_tui.flags import FINDING
from grubrics_tui.navigation import OpenFindings
from grubrics_tui.run_doctor import RunDoctor
from grubrics_tui.screens.confirm_remedy import ConfirmRemedy
from grubrics_tui.screens.confirm_twin import ConfirmTwin
from grubrics_tui.screens.findings import FindingsScreen
from grubrics_tui.screens.live import LiveScreen
from grubrics_tui.screens.log import LogScreen
from grubrics_tui.settings import Loaded, Settings
from grubrics_tui.widgets.finding_list import FindingList
from tests.engine.preflight.project import Project, make_project

pytestmark = pytest.mark.waits

OOM = b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
REMOTE = b"ray.exceptions.RayTaskError(OutOfMemoryError): ray::WorkerDict.actor_update_actor()"
KEY = b"openai.AuthenticationError: Error code: 401 - Incorrect API key provided"
Call = Callable[..., tuple[int, str]]
TITLE = "GPU out of memory in training"


@pytest.fixture
def sick(runs: Path) -> SampleRun:
    """Out of memory in training, after the judge refused a key."""
    sample = SampleRun.create(runs, "grpo-sick")
    sample.grow(5)
    sample.print(OOM, REMOTE)
    sample.say("failed", reason="exit code 1 at step 5 of 40: OutOfMemoryError")
    return sample


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """What is launched here gets no supervisor: it is only looked at."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(launcher, "start_supervisor", lambda run: None)
    return make_project(tmp_path)


@pytest.fixture
def curable(project: Project, runs: Path) -> RunDir:
    contents = manifest(plan(project.recipe(), "grpo-sick", runs))
    sample = SampleRun.create(runs, "grpo-sick")
    jsonl.write_json(sample.run.manifest, contents)
    jsonl.write_atomic(sample.run.recipe, pinned_recipe(contents["config"]))
    sample.grow(5)
    sample.print(OOM)
    sample.say("failed", reason="exit code 1 at step 5 of 6: OutOfMemoryError")
    return sample.run


async def findings(driver: Driver, run: Any, *texts: str) -> str:
    driver.app.post_message(OpenFindings(run))
    await driver.until(lambda: isinstance(driver.app.screen, FindingsScreen))
    return await driver.shows(*texts)


def on(driver: Driver, screen: type) -> Any:
    return lambda: isinstance(driver.app.screen, screen)


@pytest.mark.parametrize("size", [LARGE, SMALL])
async def test_the_root_is_listed_and_told_with_its_evidence_and_remedies(
    sick: SampleRun, runs: Path, size: tuple[int, int]
) -> None:
    async with running(runs, size) as driver:
        screen = await findings(driver, sick.run, TITLE, "cuda_oom_training.oom", "90% sure")
        assert "asked for 2.00 GiB" in " ".join(screen.split())
        for _ in range(3):
            await driver.press("pagedown")
        await driver.shows("A Ray task ran out of GPU memory", "Shorter responses")


async def test_j_and_k_choose_a_finding(sick: SampleRun, runs: Path) -> None:
    sick.print(*[KEY] * 3)
    jsonl.write_json(sick.run.manifest, _with_rate(sick.run, 0.5))
    async with running(runs) as driver:
        await findings(driver, sick.run, TITLE, "2.00 GiB")
        listed = driver.app.screen.selected  # type: ignore[attr-defined]
        await driver.press("j")
        other = driver.app.screen.selected  # type: ignore[attr-defined]
        assert listed.id != other.id
        await driver.shows(other.id)
        await driver.press("k")
        await driver.shows(listed.id)


def _with_rate(run: RunDir, rate: float) -> dict[str, Any]:
    config = {"actor_rollout_ref.actor.optim.lr": {"value": rate, "origin": "cli"}}
    return {**run.read_manifest(), "config": config}


async def test_enter_opens_the_log_at_the_line_that_tells_it(sick: SampleRun, runs: Path) -> None:
    async with running(runs) as driver:
        await findings(driver, sick.run, TITLE, "line 21", "l line")
        await driver.press("enter")
        await driver.until(on(driver, LogScreen))
        await driver.shows("line 21", "torch.OutOfMemoryError: CUDA out of memory.")
        await driver.press("escape")
        await driver.until(on(driver, FindingsScreen))


async def test_f_opens_them_from_the_list_and_from_the_live_screen_and_back(
    sick: SampleRun, runs: Path
) -> None:
    async with running(runs) as driver:
        await driver.press("r")
        await driver.shows("1 run")
        await driver.press("f")
        await driver.shows(TITLE)
        await driver.press("escape")
        await driver.shows("1 run")
        await driver.press("enter")
        await driver.until(on(driver, LiveScreen))
        await driver.press("f")
        await driver.shows(TITLE, "cuda_oom_training.oom")


async def test_nothing_wrong_is_said(run: SampleRun, runs: Path) -> None:
    async with running(runs) as driver:
        screen = await findings(driver, run.run, "Nothing is wrong with what the files show.")
        assert "a remedy" not in screen and "l line" not in screen


async def test_what_cannot_be_looked_at_is_said(runs: Path, tmp_path: Path) -> None:
    run = SampleRun.create(runs, "gone")
    foreign = tmp_path / "night.log"
    foreign.write_text("step:1 - critic/score/mean:0.5\n")
    opened = open_foreign(foreign)
    foreign.unlink()
    async with running(runs) as driver:
        await findings(driver, opened, "Nothing could be looked at", "night.log")
        assert run.run.path.exists()


async def test_a_log_from_elsewhere_has_findings_and_nothing_to_launch(
    runs: Path, tmp_path: Path
) -> None:
    log = tmp_path / "night.log"
    log.write_bytes(b"step:1 - critic/score/mean:0.5\n" + OOM + b"\n")
    async with running(runs, watched=open_foreign(log)) as driver:
        await driver.shows("foreign")
        await driver.press("f")
        screen = await driver.shows(TITLE, "night.log line 2", "l line")
        assert "a remedy" not in screen and "t reproduce" not in screen
        await driver.press("a", "t")
        assert on(driver, FindingsScreen)()


async def test_a_line_that_no_log_has_is_said_to_be_missing(sick: SampleRun, runs: Path) -> None:
    jsonl.write_json(sick.run.manifest, _with_rate(sick.run, 0.5))
    async with running(runs) as driver:
        await findings(driver, sick.run, TITLE)
        while "breaks the model" not in driver.app.screen.selected.title:  # type: ignore[attr-defined]
            await driver.press("j")
        await driver.press("enter")
        await driver.shows("No line of a log tells this")
        assert on(driver, FindingsScreen)()


async def test_the_question_shows_the_whole_change_and_its_answer_launches(
    curable: RunDir, runs: Path
) -> None:
    async with running(runs) as driver:
        await findings(driver, curable, TITLE, "a remedy")
        await driver.press("a")
        await driver.until(on(driver, ConfirmRemedy))
        screen = await driver.shows("ppo_micro_batch_size_per_gpu: 4 -> 1", "launch with 1")
        assert "2  launch" not in screen
        assert "cannot be applied: run 'grpo-sick' was launched with that already" in screen
        await driver.press("1")
        await driver.until(on(driver, LiveScreen))
        await driver.shows("grpo-sick-remedy")
    child = RunDir(runs / "grpo-sick-remedy").read_manifest()
    assert child["parent"] == {"run": "grpo-sick", "relation": "remedy"}
    key = "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu"
    assert child["config"][key]["value"] == 1


async def test_n_launches_nothing(curable: RunDir, runs: Path) -> None:
    async with running(runs) as driver:
        await findings(driver, curable, TITLE, "a remedy")
        await driver.press("a")
        await driver.shows("launch with 1")
        await driver.press("n")
        await driver.until(on(driver, FindingsScreen))
    assert [path.name for path in runs.iterdir()] == ["grpo-sick"]


async def test_the_twin_is_shown_before_it_is_launched(curable: RunDir, runs: Path) -> None:
    async with running(runs) as driver:
        await findings(driver, curable, TITLE, "t reproduce")
        await driver.press("t")
        await driver.until(on(driver, ConfirmTwin))
        await driver.shows("trainer.total_training_steps: 6 -> 5", "y  launch the twin")
        await driver.press("y")
        await driver.until(on(driver, LiveScreen))
        await driver.shows("grpo-sick-twin")


async def test_a_run_without_its_recipe_says_why_there_is_no_twin(
    sick: SampleRun, runs: Path
) -> None:
    manifest = {k: v for k, v in sick.run.read_manifest().items() if k != "cwd"}
    jsonl.write_json(sick.run.manifest, manifest)
    async with running(runs) as driver:
        await findings(driver, sick.run, TITLE)
        await driver.press("t")
        await driver.shows("There is no twin of it", "the run's recipe is not there")


async def test_a_question_whose_thread_dies_says_of_what(
    curable: RunDir, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(run: RunDir) -> None:
        raise LookupError("no such rule")

    monkeypatch.setattr("engine.launch.twin.twin_of", broken)
    async with running(runs) as driver:
        await findings(driver, curable, TITLE, "t reproduce")
        await driver.press("t")
        await driver.shows("could not be read", "LookupError: no such rule")
        await driver.press("n")
        await driver.until(on(driver, FindingsScreen))


async def test_a_read_only_screen_neither_cures_nor_reproduces(curable: RunDir, runs: Path) -> None:
    loaded = Loaded(Settings(read_only=True), {})
    async with running(runs, loaded=loaded) as driver:
        screen = await findings(driver, curable, TITLE)
        assert "a remedy" not in screen and "t reproduce" not in screen
        await driver.press("a", "t", "1", "y")
        for action in ("apply_remedy", "reproduce"):
            await driver.app.screen.run_action(action)
        await driver.shows("read-only")
        assert on(driver, FindingsScreen)()
    assert [path.name for path in runs.iterdir()] == ["grpo-sick"]


async def test_what_a_log_says_is_inert(runs: Path) -> None:
    sample = SampleRun.create(runs, "grpo-sick")
    sample.print(b"step:1 - critic/score/mean:0.5", OOM + b" [red]x[/] \x1b[2J\x1b]0;owned\x07")
    sample.say("failed")
    async with running(runs) as driver:
        screen = await findings(driver, sample.run, "[red]x[/]")
        assert "\x1b" not in screen and "owned" not in screen


async def test_without_unicode_it_is_told_in_ascii(
    sick: SampleRun, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with running(runs, loaded=Loaded(Settings(ascii=True), {})) as driver:
        screen = await findings(driver, sick.run, "cuda_oom_training.oom", TITLE)
        assert screen.isascii()


def _verl_line(step: int, gradient: float) -> bytes:
    return f"step:{step} - critic/score/mean:0.5 - actor/grad_norm:{gradient}\n".encode()


@pytest.fixture
def exploding(tmp_path: Path) -> Path:
    """A foreign log whose gradients explode and whose run then dies."""
    log = tmp_path / "night.log"
    lines = [_verl_line(n, 0.5 + n / 100 if n < 20 else 900.0 + n) for n in range(1, 41)]
    log.write_bytes(b"".join(lines) + OOM + b"\n")
    return log


@pytest.mark.parametrize("size", [LARGE, SMALL])
async def test_a_log_from_elsewhere_has_its_banner_and_its_flags(
    exploding: Path, runs: Path, quick: list[bool], size: tuple[int, int]
) -> None:
    async with running(runs, size, watched=open_foreign(exploding)) as driver:
        await driver.shows("GPU out of memory in training", "and 1 more", "f shows why")
        history = driver.app.screen.history  # type: ignore[attr-defined]
        [flagged] = [flags for flags in history.flags() if flags.kind is FINDING]
        assert flagged.texts == ("Gradients grew to 939", "GPU out of memory in training")


async def test_trouble_in_a_log_from_elsewhere_is_told_as_it_comes(
    tmp_path: Path, runs: Path, quick: list[bool]
) -> None:
    log = tmp_path / "night.log"
    log.write_bytes(_verl_line(1, 0.5))
    loaded = Loaded(Settings(bell=True), {})
    async with running(runs, watched=open_foreign(log), loaded=loaded) as driver:
        await driver.until(lambda: driver.app.screen._was_diagnosed)  # type: ignore[attr-defined]
        assert "f shows why" not in driver.screen
        with log.open("ab") as handle:
            handle.write(OOM + b"\n")
        await driver.shows(TITLE, "f shows why")
    assert quick == [True]


async def test_opening_a_log_with_old_trouble_rings_nothing(
    exploding: Path, runs: Path, quick: list[bool]
) -> None:
    loaded = Loaded(Settings(bell=True), {})
    async with running(runs, watched=open_foreign(exploding), loaded=loaded) as driver:
        await driver.shows(TITLE, "f shows why")
    assert quick == []


async def test_the_screen_says_of_a_log_what_diagnose_says(
    exploding: Path, runs: Path, quick: list[bool], call: Call
) -> None:
    async with running(runs, watched=open_foreign(exploding)) as driver:
        await driver.shows(TITLE, "f shows why")
        seen = driver.app.screen.history.findings  # type: ignore[attr-defined]
        await driver.press("f")
        await driver.shows("cuda_oom_training.oom", "Gradients grew")
        listed = driver.app.screen.query_one(FindingList).findings
    code, said = call("diagnose", "--json", str(exploding))
    told = json.loads(said)["findings"]
    assert code == 1
    assert [finding_json(one) for one in seen] == told
    assert [finding_json(one) for one in listed] == told


async def test_remedies_have_the_numbers_that_the_command_takes(
    curable: RunDir, runs: Path, call: Call
) -> None:
    jsonl.write_json(curable.manifest, _sick_rate(curable))
    said = call("diagnose", curable.id, "--runs", str(runs))[1]
    number = (
        next(line for line in said.splitlines() if "Set it to" in line).split(":")[0].split()[1]
    )
    assert int(number) > 1
    assert "apply: grubrics-tui remedy grpo-sick --number N" in said
    dry = call("remedy", curable.id, "--runs", str(runs), "--number", number, "--dry-run")[1]
    assert dry.startswith("Set it to")
    async with running(runs) as driver:
        await findings(driver, curable, TITLE)
        while "breaks the model" not in driver.app.screen.selected.title:  # type: ignore[attr-defined]
            await driver.press("j")
        await driver.shows(f"{number}  Set it to")
        await driver.press("a")
        await driver.shows(f"launch with {number}")


def _sick_rate(run: RunDir) -> dict[str, Any]:
    manifest = run.read_manifest()
    manifest["config"]["actor_rollout_ref.actor.optim.lr"] = {"value": 0.5, "origin": "cli"}
    return manifest


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """The doctor is asked at once; each ring of the terminal's bell is noted."""
    rung: list[bool] = []
    monkeypatch.setattr("grubrics_tui.run_doctor._FIRST_S", 0.05)
    monkeypatch.setattr("grubrics_tui.run_doctor._LOOK_S", 0.1)
    monkeypatch.setattr("grubrics_tui.run_doctor._LIVE_SHARE", 0.5)
    monkeypatch.setattr(GrubricsApp, "bell", lambda self: rung.append(True))
    return rung


async def test_the_banner_tells_of_trouble_as_it_comes_and_rings_once(
    run: SampleRun, runs: Path, quick: list[bool]
) -> None:
    async with running(runs, loaded=Loaded(Settings(bell=True), {})) as driver:
        await driver.shows("step 12/40")
        assert "f shows why" not in driver.screen
        run.print(b"step:12 - critic/score/mean:0.5", KEY)
        run.grow()
        run.say("running")
        await driver.shows("The judge refuses the caller", "f shows why and what cures it")
        assert quick == [True]
        history = driver.app.screen.history  # type: ignore[attr-defined]
        flagged = [flags for flags in history.flags() if flags.kind is FINDING]
        assert flagged[0].texts == ("The judge refuses the caller",)
        run.print(KEY)
        run.grow()
        run.say("running")
        await driver.shows("step 14/40")
        assert quick == [True]


async def test_without_the_setting_nothing_rings(
    run: SampleRun, runs: Path, quick: list[bool]
) -> None:
    run.print(KEY)
    async with running(runs) as driver:
        await driver.shows("The judge refuses the caller")
    assert quick == []


async def test_opening_a_run_that_failed_long_ago_rings_nothing(
    sick: SampleRun, runs: Path, quick: list[bool]
) -> None:
    async with running(runs, loaded=Loaded(Settings(bell=True), {})) as driver:
        await driver.press("r")
        await driver.shows("1 run")
        await driver.press("enter")
        await driver.shows(TITLE, "f shows why")
    assert quick == []


def test_who_left_is_told_nothing_more(sick: SampleRun) -> None:
    doctor = RunDoctor(sick.run)
    doctor.leave()
    assert list(doctor.findings()) == []


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Types a command; gives its exit code and what it printed."""

    def typed(*words: str) -> tuple[int, str]:
        monkeypatch.setattr("sys.argv", ["grubrics-tui", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out + err

    return typed


def test_remedy_shows_what_would_change(curable: RunDir, runs: Path, call: Call) -> None:
    code, said = call("remedy", "grpo-sick", "--runs", str(runs), "--dry-run")
    assert code == 0
    assert "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu: 4 -> 1" in said
    assert said.endswith("dry run: nothing was launched\n")
    assert [path.name for path in runs.iterdir()] == ["grpo-sick"]


def test_remedy_launches_the_child_and_says_so_in_json(
    curable: RunDir, runs: Path, call: Call
) -> None:
    code, said = call("remedy", "grpo-sick", "--runs", str(runs), "--number", "3", "--json")
    told = json.loads(said)
    assert code == 0
    assert (told["parent"], told["run"]) == ("grpo-sick", "grpo-sick-remedy")
    assert told["changes"][0] == {
        "kind": "config",
        "key": "actor_rollout_ref.rollout.gpu_memory_utilization",
        "before": 0.5,
        "after": 0.4,
        "why": "",
    }
    assert (runs / "grpo-sick-remedy" / "manifest.json").is_file()


@pytest.mark.parametrize("number", ["0", "9"])
def test_remedy_lists_them_for_a_number_that_is_none(
    curable: RunDir, runs: Path, call: Call, number: str
) -> None:
    code, said = call("remedy", "grpo-sick", "--runs", str(runs), "--number", number)
    assert code == 2
    assert "the remedies of 'grpo-sick' are: 1 Smaller micro batches; 2 " in said


def test_a_healthy_run_has_no_remedy(run: SampleRun, runs: Path, call: Call) -> None:
    code, said = call("remedy", run.run.id, "--runs", str(runs))
    assert code == 2
    assert "no finding has a remedy that changes its recipe" in said


def test_diagnose_says_what_a_log_says_inertly(runs: Path, call: Call) -> None:
    sample = SampleRun.create(runs, "grpo-sick")
    sample.print(OOM + b" \x1b[2J\x1b]0;owned\x07")
    sample.say("failed")
    code, said = call("diagnose", "grpo-sick", "--runs", str(runs))
    assert code == 1
    assert "\x1b" not in said and "CRITICAL: GPU out of memory in training" in said
