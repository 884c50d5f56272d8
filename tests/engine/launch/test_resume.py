"""What can be resumed, from where and with which values; and what is refused."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from engine.base import jsonl
from engine.base.errors import UsageError
from engine.base.files import content_hash
from engine.config.frozen import pinned_config
from engine.config.load import load_config
from engine.launch.kept_data import keep_data
from engine.launch.launcher import manifest, plan, start_supervisor
from engine.launch.resume import find_resumable, resume, resume_plan
from engine.run.checkpoints.ownership import STAMP, claim
from engine.run.host.environment import package_versions
from engine.run.manifest import AttemptRecord, Difference
from engine.run.processes import identify
from engine.run.run import Run
from engine.run.state import RunState, observed_state, write_state
from engine.run.trust import PROOF, is_launched_here, vouch
from tests.engine.run.checkpoints.checkpoint_files import archive, save, save_step, sft_files, track
from tests.manifests import change_config, change_manifest
from tests.paths import ROOT
from tests.waiting import ended, wait_for

pytestmark = pytest.mark.waits

CONFIG = """
grubrics: {kind: grpo, device: cpu}
algorithm: {adv_estimator: grpo}
data: {train_files: train.jsonl, train_batch_size: 4}
trainer: {default_local_dir: checkpoints, resume_mode: disable, total_training_steps: 8}
"""

SFT = {
    key: {"value": value, "origin": "file"}
    for key, value in {
        "grubrics.kind": "sft",
        "model.path": "model",
        "data.train_file": "train.jsonl",
        "training.output_dir": "checkpoints",
    }.items()
}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run as a launch leaves it, whose trainer is ``true``: it ended early, at no step yet."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    (tmp_path / "try.yaml").write_text(CONFIG)
    (tmp_path / "train.jsonl").write_text("{}\n")
    made = Run(tmp_path / "runs" / "mine")
    config = load_config("try.yaml", ["data.train_batch_size=2"], {"JUDGE_MAX_CONCURRENT": "3"})
    contents = manifest(plan(config, "mine"))
    idle = [AttemptRecord(number=1, argv=("true",))]
    contents = structs.replace(contents, total_steps=8, attempts=idle)
    made.attempt(1).path.mkdir(parents=True)
    made.write_manifest(contents)
    made.config_file.write_text(pinned_config(contents.config))
    vouch(made)
    write_state(made, RunState("failed", total_steps=8))
    claim(made)
    return made


@pytest.fixture
def folder(run: Run, tmp_path: Path) -> Path:
    return tmp_path / "checkpoints"


def log(run: Run, *steps: int) -> None:
    run.attempt(1).console.touch()
    for step in steps:
        jsonl.append(run.train_log, {"v": 1, "step": step, "metrics": {}})


def newest(run: Run) -> AttemptRecord:
    return run.read_manifest().attempts[-1]


def rewrite(run: Run, **changes: Any) -> None:
    change_manifest(run, **changes)
    vouch(run)


def test_a_step_that_was_saved_but_not_logged_is_done_again(run: Run, folder: Path) -> None:
    save(folder, 2, 4)
    log(run, 1, 2, 3)
    assert resume(run).step == 2
    assert newest(run).from_ == str(folder / "global_step_2")
    assert f"trainer.resume_from_path={folder}/global_step_2" in newest(run).argv


def test_without_an_earlier_checkpoint_the_gap_is_reported(run: Run, folder: Path) -> None:
    save(folder, 2)
    log(run, 1)
    assert "step 2 was saved but not logged" in resume(run).warnings[0]


def test_a_clock_that_jumped_back_loses_no_checkpoint(run: Run, folder: Path) -> None:
    save(folder, 2)
    log(run, 1, 2)
    for path in (folder, *folder.rglob("*")):
        os.utime(path, (0, 0))
    assert resume(run).step == 2


def test_a_checkpoint_of_another_run_does_not_count(run: Run, folder: Path) -> None:
    save(folder, 2)
    log(run, 1, 2)
    stamp = jsonl.read_json(folder / "grubrics_run.json") or {}
    jsonl.write_json(folder / "grubrics_run.json", {**stamp, "run": "other"})
    with pytest.raises(UsageError, match="belongs to run 'other'"):
        resume(run)


def test_a_resumed_run_keeps_what_its_attempts_took_before(run: Run, folder: Path) -> None:
    save(folder, 2)
    log(run, 1, 2)
    write_state(run, RunState("failed", started=100.0, ended=160.0, ran_before=40.0, began=20.0))
    resume(run)
    assert ended(run).ran_before == 100
    assert ended(run).first_start == 20


def test_a_renamed_run_says_what_it_was_called(run: Run, folder: Path) -> None:
    save(folder, 2)
    log(run, 1, 2)
    renamed = Run(run.path.rename(run.path.with_name("other")))
    with pytest.raises(UsageError, match=r"launched as 'mine'.* rename the folder"):
        resume(renamed)
    assert resume(Run(renamed.path.rename(run.path))).step == 2


def test_a_run_that_was_moved_reads_its_config_where_it_is(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    save(folder, 2)
    log(run, 1, 2)
    argv = ["true", "--config", str(run.config_file), "--no-env"]
    rewrite(run, attempts=[{"number": 1, "argv": argv}])
    (tmp_path / "elsewhere").mkdir()
    moved = Run(run.path.rename(tmp_path / "elsewhere" / "mine"))
    resume(moved)
    assert newest(moved).argv[:4] == ("true", "--config", str(moved.config_file), "--no-env")


def test_a_plan_says_what_would_be_resumed_and_writes_nothing(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    save(folder, 2)
    log(run, 1, 2)
    (tmp_path / "train.jsonl").write_text('{"changed": 1}\n')
    before = {path: path.stat().st_mtime_ns for path in run.path.rglob("*")}
    planned, argv = resume_plan(run)
    assert {path: path.stat().st_mtime_ns for path in run.path.rglob("*")} == before
    with pytest.raises(UsageError, match="step 7"):
        resume_plan(run, 7)
    assert resume(run) == planned
    assert newest(run).argv == tuple(argv)


def test_an_active_run_cannot_be_resumed(run: Run) -> None:
    write_state(run, RunState("running", supervisor=identify(os.getpid())))
    with pytest.raises(UsageError, match="run 'mine' is still active"):
        resume(run)


def test_a_run_without_a_checkpoint_is_to_be_launched_again(run: Run) -> None:
    log(run, 1)
    before = run.manifest_file.read_text()
    with pytest.raises(UsageError, match=r"no complete checkpoint .*launch --from mine"):
        resume(run)
    assert run.manifest_file.read_text() == before
    assert len(run.attempts()) == 1


def test_a_run_that_never_trained_starts_from_the_beginning(run: Run) -> None:
    write_state(run, RunState("finished", reason="stopped by user before it started"))
    resumed = resume(run)
    assert (resumed.step, resumed.attempt) == (0, 2)
    assert newest(run).argv == ("true",)


def test_a_finished_run_cannot_be_resumed(run: Run, folder: Path) -> None:
    save(folder, 8)
    log(run, *range(1, 9))
    write_state(run, RunState("finished", step=8, total_steps=8))
    with pytest.raises(UsageError, match=r"already finished \(step 8 of 8\).* export mine FOLDER"):
        resume(run)


def test_a_run_that_was_killed_while_it_wrote_its_model_is_resumed_at_its_last_step(
    run: Run, folder: Path
) -> None:
    save(folder, 8)
    log(run, *range(1, 9))
    write_state(run, RunState("lost", step=8, total_steps=8))
    (folder / ".final.4242").mkdir()
    assert resume_plan(run)[0].step == 8
    final = folder / "final"
    final.mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer.json", STAMP):
        (final / name).write_bytes((folder / STAMP).read_bytes())
    with pytest.raises(UsageError, match=r"already finished \(step 8 of 8\)"):
        resume_plan(run)


def test_a_step_without_a_checkpoint_names_those_there_are(run: Run, folder: Path) -> None:
    save(folder, 2, 4)
    log(run, 1, 2, 3, 4)
    with pytest.raises(UsageError, match="no complete checkpoint of step 3; available: 2, 4"):
        resume(run, from_step=3)


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (3, r"step 3 was never saved: trainer.save_freq=2"),
        (2, r"step 2 was saved, then removed: trainer.max_actor_ckpt_to_keep=1"),
        (6, r"the run reached step 5"),
    ],
)
def test_a_step_that_was_removed_is_told_from_one_that_was_never_saved(
    run: Run, folder: Path, step: int, why: str
) -> None:
    save(folder, 4)
    log(run, 1, 2, 3, 4, 5)
    keeping = {"trainer.save_freq": 2, "trainer.max_actor_ckpt_to_keep": 1}
    change_config(run, **{key: {"value": value} for key, value in keeping.items()})
    vouch(run)
    with pytest.raises(UsageError, match=rf"available: 4 \({why}\)"):
        resume(run, from_step=step)


def test_steps_after_the_chosen_one_are_no_longer_the_last(run: Run, folder: Path) -> None:
    save(folder, 2, 4, 6)
    log(run, *range(1, 7))
    assert resume(run, from_step=2).step == 2
    ended(run)
    assert resume(run).step == 2
    ended(run)
    save(folder, 4)
    assert resume(run).step == 4


def test_sft_resumes_from_its_own_checkpoint_layout(run: Run, folder: Path) -> None:
    run.config_file.unlink()
    rewrite(run, kind="sft", config=SFT)
    save_step(folder, 4, sft_files())
    track(folder, 4)
    log(run, 1, 2, 3, 4, 5)
    assert resume(run).step == 4
    assert newest(run).argv == ("true", f"training.resume_from={folder}/global_step_4")


def test_sft_without_its_final_model_can_be_resumed(run: Run, folder: Path) -> None:
    entry = {"training.output_dir": {"value": "checkpoints", "origin": "file"}}
    rewrite(run, kind="sft", config=entry)
    run.config_file.unlink()
    save_step(folder, 8, sft_files())
    track(folder, 8)
    log(run, *range(1, 9))
    with pytest.raises(UsageError, match=r"grubrics\.kind"):  # the config above is no SFT config
        resume(run)
    rewrite(run, config=SFT)
    assert resume(run).step == 8


def test_an_edited_config_file_changes_nothing(run: Run, folder: Path) -> None:
    save(folder, 2)
    log(run, 1, 2)
    Path("try.yaml").write_text(CONFIG.replace("train_batch_size: 4", "train_batch_size: 64"))
    run.config_file.write_text("grubrics: {kind: grpo}\n")
    vouch(run)
    assert "try.yaml changed since the launch; the run keeps the values" in resume(run).warnings[0]
    values = load_config(str(run.config_file), env={"JUDGE_MAX_CONCURRENT": "9"}).values
    assert values["data.train_batch_size"] == 2
    assert load_config(str(run.config_file), env={}).values["judge.max_concurrent"] == 3


def test_changed_data_is_reported_and_recorded(run: Run, folder: Path) -> None:
    save(folder, 2)
    log(run, 1, 2)
    Path("train.jsonl").write_text("{}\n{}\n")
    resumed = resume(run)
    assert resumed.warnings == (
        "train.jsonl changed since the launch; the run uses its new content",
    )
    events = [record["message"] for record in jsonl.read(run.events) if "message" in record]
    assert resumed.warnings[0] in events
    assert Difference("data.train.jsonl.rows", 1, 2) in newest(run).changes_since


def test_a_package_that_was_upgraded_is_recorded_once(run: Run, folder: Path) -> None:
    save(folder, 2)
    log(run, 1, 2)
    before = {**package_versions(), "verl": "0.0.1"}
    rewrite(run, environment={**run.read_manifest().environment, "packages": before})
    resume(run)
    upgraded = [change.what for change in newest(run).changes_since]
    assert "environment.packages.verl" in upgraded
    ended(run)
    resume(run)
    assert newest(run).number == 3
    assert "environment.packages.verl" not in [c.what for c in newest(run).changes_since]


def test_a_changed_default_is_reported(run: Run, folder: Path) -> None:
    save(folder, 2)
    log(run, 1, 2)
    change_config(run, **{"judge.max_tokens": {"value": 1, "origin": "default"}})
    vouch(run)
    assert "the default of judge.max_tokens changed from 1 to " in resume(run).warnings[0]


@pytest.mark.parametrize("entry", ["broken", {"origin": "cli"}, None])
@pytest.mark.parametrize("apart", [True, False])
def test_a_recorded_config_that_lost_a_value_is_refused(
    run: Run, folder: Path, entry: object, apart: bool
) -> None:
    save(folder, 2)
    log(run, 1, 2)
    file = run.settings_file
    recorded = jsonl.read_json(file) or {}
    if not apart:
        file.unlink()
        file = run.manifest_file
        recorded = {**(jsonl.read_json(file) or {}), "config": recorded["config"]}
    recorded["config"]["data.train_batch_size"] = entry
    jsonl.write_json(file, recorded)
    vouch(run)
    before = run.config_file.read_text()
    with pytest.raises(UsageError, match=f"{file}: .*: data.train_batch_size; the run cannot"):
        resume(run)
    jsonl.write_json(file, {**recorded, "config": "cut"})
    vouch(run)
    with pytest.raises(UsageError, match=f"{file}: holds no config"):
        resume_plan(run)
    assert run.config_file.read_text() == before
    assert newest(run).number == 1


def test_a_config_file_that_is_gone_is_written_again(run: Run, folder: Path) -> None:
    before = run.config_file.read_text()
    run.config_file.unlink()
    vouch(run)
    resume(run)
    assert run.config_file.read_text() == before


def test_only_a_folder_that_is_whole_is_gone_on_from(run: Run, folder: Path) -> None:
    save(folder, 2, 4)
    (folder / "global_step_4" / "actor" / "optim_world_size_1_rank_0.pt").write_bytes(b"PK")
    archive(folder / "global_step_9.tmp" / "data.pt")
    log(run, 1, 2, 3, 4)
    assert resume(run).step == 2


def test_the_trainer_gets_the_command_of_the_first_attempt(run: Run, folder: Path) -> None:
    code = "import sys; print(sys.argv[1:])"
    rewrite(run, attempts=[{"number": 1, "argv": [sys.executable, "-c", code, "--given"]}])
    save(folder, 2)
    log(run, 1, 2)
    resume(run)
    ended(run)
    output = run.attempt(2).console.read_text()
    assert "'--given', 'trainer.resume_mode=resume_path'" in output


def test_a_run_does_not_start_in_a_folder_that_was_taken_while_it_waited(
    run: Run, folder: Path
) -> None:
    save(folder, 2)
    stamp = jsonl.read_json(folder / "grubrics_run.json") or {}
    jsonl.write_json(folder / "grubrics_run.json", {**stamp, "run": "b", "fingerprint": "b"})
    write_state(run, RunState("starting", heartbeat=time.time()))
    start_supervisor(run)
    ended(run)
    state = observed_state(run)
    assert state.state == "failed"
    assert "holds checkpoints of run 'b', which has another configuration" in (state.reason or "")
    assert not run.attempt(1).console.exists()


def test_a_resumed_attempt_counts_from_its_checkpoint(run: Run, folder: Path) -> None:
    save(folder, 2)
    log(run, 1, 2)
    resume(run)
    ended(run)
    assert observed_state(run).reason == "exit code 0, but ended at step 2 of 8"


def test_files_of_an_attempt_are_private_with_any_umask(run: Run) -> None:
    run.path.chmod(0o700)
    before = os.umask(0)
    try:
        resume(run)
        wait_for(lambda: observed_state(run).has_ended)
    finally:
        os.umask(before)
    written = [
        *run.attempt(2).path.rglob("*"),
        run.attempt(2).path,
        run.state_file,
        run.manifest_file,
    ]
    written += [run.config_file, run.events, run.path / "supervisor.log", run.path / PROOF]
    assert run.attempt(2).console in written
    assert {str(path): path.stat().st_mode & 0o077 for path in written} == {
        str(path): 0 for path in written
    }
    assert is_launched_here(run)


@pytest.mark.row("H17")
def test_a_run_is_found_by_one_of_its_checkpoints(run: Run, folder: Path) -> None:
    save_step(folder, 3)
    found, step = find_resumable(run.path.parent, str(folder / "global_step_3"), None)
    assert (found.path, step) == (run.path, 3)


def test_a_checkpoint_and_another_step_are_refused(run: Run, folder: Path) -> None:
    save_step(folder, 3)
    with pytest.raises(UsageError, match="--from 2 and global_step_3 are different steps"):
        find_resumable(run.path.parent, str(folder / "global_step_3"), 2)


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("", r" is no checkpoint; give .*global_step_3 or .*global_step_7$"),
        ("global_step_9", r"global_step_9: no such checkpoint; give .*_3 or .*_7$"),
        ("none/global_step_9", r"no such checkpoint; give RUN, or FOLDER/global_step_N$"),
        ("none", r"none: no such run or checkpoint; give .*_3 or .*_7$"),
    ],
)
def test_a_path_that_is_no_checkpoint_is_refused_with_those_there_are(
    run: Run, folder: Path, path: str, says: str
) -> None:
    for step in (3, 7):
        save_step(folder, step)
    with pytest.raises(UsageError, match=says):
        find_resumable(run.path.parent, str(folder / path), None)


def test_a_mistyped_run_is_no_path(run: Run) -> None:
    with pytest.raises(UsageError, match=f"did you mean '{run.id}'"):
        find_resumable(run.path.parent, f"{run.id}x", None)


def test_a_checkpoint_without_the_mark_of_a_run_is_refused(run: Run, tmp_path: Path) -> None:
    save_step(tmp_path / "external", 3)
    with pytest.raises(UsageError, match="does not name the run that saved it"):
        find_resumable(run.path.parent, str(tmp_path / "external" / "global_step_3"), None)


@pytest.mark.row("H10")
def test_a_run_that_expects_certain_data_does_not_resume_on_others(run: Run, folder: Path) -> None:
    digest = content_hash(Path("train.jsonl"))
    change_config(run, **{"grubrics.expect_data": {"value": [digest]}})
    vouch(run)
    log(run, 1, 2, 3)
    save(folder, 3)
    Path("train.jsonl").write_text("{}\n{}\n")
    with pytest.raises(UsageError, match=r"train\.jsonl changed since the launch, and grubrics"):
        resume(run)
    assert len(run.read_manifest().attempts) == 1


@pytest.mark.row("H09")
@pytest.mark.parametrize("expects", [False, True])
def test_a_run_continues_with_the_copy_of_data_that_has_changed(
    run: Run, folder: Path, expects: bool
) -> None:
    digest = content_hash(Path("train.jsonl"))
    demand = {"grubrics.expect_data": {"value": [digest] if expects else None}}
    change_config(run, **demand)
    vouch(run)
    keep_data(run, run.read_full_manifest())
    log(run, 1, 2, 3)
    save(folder, 3)
    Path("train.jsonl").unlink()
    (warning,) = resume(run).warnings
    (copy,) = run.data.iterdir()
    assert f"the run continues with the copy {copy}" in warning
    assert content_hash(copy) == digest
    assert f'data.train_files="{copy}"' in newest(run).argv
    (event,) = [e for e in jsonl.read(run.events) if e["event"] == "resume"]
    assert next(change["what"] for change in event["changes"]).startswith("data.train.jsonl")
