"""What is made from a run still knows the file that the run's overrides took the place of."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from engine.base import files, jsonl
from engine.checks.check import Subject
from engine.checks.values import check, value_findings
from engine.config.frozen import in_file, pinned_config
from engine.config.load import load_config
from engine.doctor.metrics import read_context
from engine.launch.launcher import LaunchPlan, manifest, plan
from engine.launch.repro import plan_repro
from engine.launch.rerun import plan_rerun
from engine.run.finding import Change
from engine.run.history.columns import Columns
from engine.run.run import Run
from engine.run.state import RunState, write_state
from engine.run.trust import vouch
from tests.engine.checks.project import QWEN2, Project, make_project

pytestmark = pytest.mark.long

RATE = "actor_rollout_ref.actor.optim.lr"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(tmp_path)
    made = make_project(tmp_path)
    (tmp_path / "models/base/config.json").write_text(json.dumps(QWEN2))
    with (tmp_path / "configs/grpo.yaml").open("a") as file:
        file.write(f"{RATE}: 2e-4\n")
    return made


def kept(planned: LaunchPlan) -> Run:
    """The run as a launch leaves it, that has failed."""
    run, contents = Run(planned.directory), manifest(planned)
    run.attempt(1).path.mkdir(parents=True)
    run.write_manifest(contents)
    files.write_atomic(run.config_file, pinned_config(contents.config))
    vouch(run)
    write_state(run, RunState("failed", ended=2e9))
    return run


@pytest.fixture
def unhealthy(project: Project) -> Run:
    return kept(plan(project.config("grpo", f"{RATE}=3"), "unhealthy", Path("runs")))


def fixes(run: Run) -> list[object]:
    findings = value_findings(read_context(run, RunState("failed"), Columns()))
    return [change.after for finding in findings for change in finding.fixes[0].changes]


def test_a_run_goes_back_to_its_file(unhealthy: Run) -> None:
    assert fixes(unhealthy) == [2e-4]


def test_its_repro_and_the_repro_of_that_go_back_there_too(unhealthy: Run) -> None:
    repro = kept(plan_repro(unhealthy, {}).plan)
    second = kept(plan_repro(repro, {}).plan)
    assert (fixes(repro), fixes(second)) == ([2e-4], [2e-4])


def test_a_fix_that_did_not_go_far_enough_goes_back_there_too(unhealthy: Run) -> None:
    fix = kept(plan_rerun(unhealthy, [Change("config", RATE, 0.5, 3)]).plan)
    assert fixes(fix) == [2e-4]


def test_a_repro_needs_its_parent_no_more_once_it_is_launched(unhealthy: Run) -> None:
    repro = kept(plan_repro(unhealthy, {}).plan)
    shutil.rmtree(unhealthy.path)
    assert fixes(repro) == [2e-4]


def test_the_preflight_offers_a_repro_the_same(unhealthy: Run) -> None:
    config = plan_repro(unhealthy, {}).config
    assert check(Subject(config, {}, Path("runs"))).fix == f"{RATE}=0.0002"


def test_a_manifest_without_it_has_the_overrides_of_its_own(unhealthy: Run) -> None:
    contents = jsonl.read_json(unhealthy.manifest_file) or {}
    jsonl.write_json(unhealthy.manifest_file, {k: v for k, v in contents.items() if k != "in_file"})
    vouch(unhealthy)
    assert fixes(unhealthy) == [2e-4]


def test_a_config_that_only_has_the_name_of_a_runs_is_a_file(project: Project) -> None:
    shutil.copy("configs/grpo.yaml", "configs/config.yaml")
    config = load_config("configs/config.yaml", [f"{RATE}=3"], {})
    assert in_file(config) == {RATE: 2e-4}
