"""A command that an answer recommends works in the state of the run."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec import structs
from typer.testing import CliRunner

from engine.base import files, jsonl
from engine.base.errors import UsageError
from engine.config.frozen import pinned_config
from engine.launch.command import launch_command, plan_command
from engine.launch.launcher import manifest, plan
from engine.measure.targets import find_target
from engine.run.checkpoints.ownership import claim
from engine.run.run import Run
from engine.run.state import RunState, observed_state, write_state
from engine.run.trust import vouch
from grubrics_tui.cli import app
from tests.command_lines import refusal
from tests.engine.checks.project import Project, make_project, write_model
from tests.engine.run.checkpoints.checkpoint_files import save, save_step, sft_files, track
from tests.waiting import wait_for

pytestmark = pytest.mark.waits

ASKED = (
    "resume RUN --dry-run", "export RUN made", "export RUN:99 made", "evaluate RUN",
    "fix RUN --dry-run", "reproduce RUN --dry-run", "launch --from RUN --dry-run", "show RUN",
    "diagnose RUN", "stop RUN", "run --from RUN --dry-run -- true",
)  # fmt: skip
"""What a person may type about a run; most of it is refused in some state."""
LOADING = ("export", "evaluate")
"""They load a model where they are not refused: only what they take is looked up."""
TRIED_DRY = ("resume", "launch", "fix", "reproduce", "run")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(tmp_path)
    return make_project(tmp_path)


def launched(project: Project, kind: str, state: RunState, *steps: int, total: int = 6) -> Run:
    """A run as it is left behind after ``steps`` were logged and saved."""
    run = Run(project.root / "runs" / "mine")
    contents = manifest(plan(project.config(kind), "mine", project.root / "runs"))
    run.attempt(1).path.mkdir(parents=True)
    run.write_manifest(structs.replace(contents, total_steps=total))
    files.write_atomic(run.config_file, pinned_config(contents.config))
    vouch(run)
    claim(run)
    run.attempt(1).console.write_text("Traceback\nKeyError: 'a'\n")
    for step in range(1, (steps[-1] if steps else 0) + 1):
        jsonl.append(run.train_log, {"v": 1, "step": step, "attempt": 1, "t": 1.0, "metrics": {}})
    folder = project.root / "checkpoints" / kind
    if kind == "grpo":
        save(folder, *steps)
    for step in steps if kind == "sft" else ():
        save_step(folder, step, sft_files())
        track(folder, step)
    write_state(run, state.evolve(step=steps[-1] if steps else None, total_steps=total, ended=2e9))
    return run


FINISHED, FAILED = RunState("finished", exit_code=0), RunState("failed", exit_code=1)
STOPPED = RunState("finished", reason="stopped by user")


def final(run: Run) -> Run:
    write_model(Path("checkpoints/sft/final"))
    claim(run)
    return run


def command(project: Project, *words: str) -> Run:
    run = launch_command(plan_command(words, project.root / "runs", name="mine"))
    wait_for(lambda: observed_state(run).has_ended)
    return run


def adopted(project: Project) -> Run:
    lines = [json.dumps({"step": step, "train/loss": 1 / step}) for step in range(1, 9)]
    (project.root / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    said = CliRunner().invoke(app, ["adopt", "metrics.jsonl", "--name", "mine"])
    assert said.exit_code == 0, said.output
    return Run(project.root / "runs" / "mine")


def ended(run: Run) -> Run:
    CliRunner().invoke(app, ["stop", run.id, "--detach"])
    wait_for(lambda: observed_state(run).has_ended)
    return run


STATES: dict[str, Callable[[Project], Run]] = {
    "GRPO, finished": lambda p: launched(p, "grpo", FINISHED, 3, 6),
    "GRPO, finished, without checkpoints": lambda p: launched(p, "grpo", FINISHED),
    "GRPO, stopped": lambda p: launched(p, "grpo", STOPPED, 3),
    "GRPO, failed before its first checkpoint": lambda p: launched(p, "grpo", FAILED),
    "GRPO, failed after a checkpoint": lambda p: launched(p, "grpo", FAILED, 3),
    "GRPO, lost": lambda p: launched(p, "grpo", RunState("lost"), 3),
    "SFT, finished without its final model": lambda p: launched(p, "sft", FINISHED, 3, 6),
    "SFT, stopped after its last step": lambda p: launched(p, "sft", STOPPED, 3, 6),
    "SFT, stopped before": lambda p: launched(p, "sft", STOPPED, 3),
    "SFT, finished": lambda p: final(launched(p, "sft", FINISHED, 6)),
    "SFT, finished, without checkpoints": lambda p: launched(p, "sft", FINISHED),
    "SFT, failed": lambda p: launched(p, "sft", FAILED),
    "command, finished": lambda p: command(p, "true"),
    "command, failed": lambda p: command(p, "false"),
    "adopted": adopted,
    "adopted, ended": lambda p: ended(adopted(p)),
}


def say(text: str) -> str:
    words = [word.replace("RUN", "mine") for word in shlex.split(text)]
    if words[0] in LOADING:
        return no_target(words[1]) or ""
    done = CliRunner().invoke(app, words)
    return f"{done.output}\n{done.exception}"


def no_target(name: str) -> str | None:
    try:
        find_target(name, Path("runs"))
    except UsageError as error:
        return str(error)
    return None


def recommended(text: str) -> Iterator[list[str]]:
    """The commands in an answer, with folders in the place of FOLDER."""
    for command in re.findall(r"grubrics-tui ((?:[^\n.;,)\]]|\.(?=\S))+)", text):
        words = shlex.split(command.replace("FOLDER", "new-folder"))
        if words and words[0] in (*LOADING, *TRIED_DRY, "stop", "pipeline"):
            yield words


def objection(words: list[str]) -> str | None:
    """Why a recommended command does not work now; None if it does, or would without --dry-run."""
    if (why := refusal(words)) is not None:
        return why
    if words[0] in LOADING:
        return no_target(words[1])
    if words[0] in TRIED_DRY:
        at = words.index("--") if "--" in words else len(words)
        done = CliRunner().invoke(app, [*words[:at], "--dry-run", *words[at:]])
        return f"{done.output} {done.exception}" if done.exit_code or done.exception else None
    is_over = words[0] == "stop" and observed_state(Run(Path("runs/mine"))).has_ended
    return "the run has ended" if is_over else None


@pytest.mark.parametrize("state", STATES)
def test_no_answer_recommends_what_another_command_refuses(state: str, project: Project) -> None:
    run = STATES[state](project)
    try:
        wrong = {
            (asked, " ".join(words)): why
            for asked in ASKED
            for words in recommended(say(asked))
            if (why := objection(words)) is not None
        }
    finally:
        if not observed_state(run).has_ended:
            ended(run)
    assert wrong == {}
