"""A kind that one place declares, and that no other place takes for another kind."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import UsageError
from engine.checks.estimate.training import _TRAINING
from engine.checks.preflight import run_checks
from engine.checks.values import value_findings
from engine.config.frozen import pinned_argv
from engine.config.load import Config, load_config
from engine.config.places import checkpoint_dir, model_name
from engine.config.scoring import asks_judge
from engine.config.steps import step_plan
from engine.config.unread import unread
from engine.launch.shrink import _SIZES
from engine.run import fixes
from engine.run.checkpoints.find import check_checkpoint
from engine.run.finding_kind import Case
from engine.run.history.rollouts import require_step
from engine.run.kinds import GRPO, KINDS, SFT, Kind, find_kind, read_kind
from engine.run.rule_context import RuleContext
from engine.run.run import Run
from grubrics_tui.model.run_source import kind_of, layout_of
from grubrics_tui.settings.layout import UNKNOWN, default_panels, first_layout

ROOT = Path(__file__).parents[3]
EVALUATION = Kind(
    name="evaluation",
    title="Evaluation",
    trainer="engine.train.evaluation",
    panels=("reward", "log"),
    model_key="evaluation.model",
    checkpoint_key="evaluation.output_dir",
    gpus_key="evaluation.n_gpus",
    batch_key="evaluation.batch_size",
    steps_key="evaluation.steps",
    seed_keys=("evaluation.seed",),
)


@pytest.fixture
def evaluation(monkeypatch: pytest.MonkeyPatch) -> Kind:
    monkeypatch.setitem(KINDS, EVALUATION.name, EVALUATION)
    return EVALUATION


def config_of(kind: Kind) -> Config:
    """Values under the keys of every kind: who reads another kind's key is found out."""
    values: dict[str, Any] = {
        "evaluation.model": "evaluated",
        "evaluation.output_dir": "reports",
        "evaluation.n_gpus": 3,
        "actor_rollout_ref.model.path": "of-grpo",
        "model.path": "of-sft",
        "trainer.default_local_dir": "of-grpo",
        "training.output_dir": "of-sft",
        "actor_rollout_ref.actor.optim.lr": 5.0,
        "training.learning_rate": 5.0,
    }
    origins = dict.fromkeys(values, "file")
    return Config("e", Path("e.yaml"), kind, (), values, origins, ())  # type: ignore[arg-type]


def run_of(tmp_path: Path, kind: str | None) -> Run:
    import json

    run = Run(tmp_path / "runs" / "one")
    run.path.mkdir(parents=True)
    named = {} if kind is None else {"kind": kind}
    folders = ("trainer.default_local_dir", "training.output_dir", "evaluation.output_dir")
    config = {key: {"value": key, "origin": "file"} for key in folders}
    text = {"v": 1, "id": "one", "cwd": str(tmp_path), "config": config, **named}
    run.manifest_file.write_text(json.dumps(text), encoding="utf-8")
    return run


def test_a_third_kind_has_its_own_keys_and_program(evaluation: Kind) -> None:
    config = config_of(evaluation)
    assert find_kind("evaluation") is evaluation
    assert model_name(config) == "evaluated" and checkpoint_dir(config) == "reports"
    assert pinned_argv(evaluation, Path("x"))[2] == "engine.train.evaluation"
    assert not asks_judge(config)
    assert default_panels("evaluation") == ("reward", "log")
    assert first_layout("evaluation").names == ["reward", "log"]


def test_code_for_other_kinds_refuses_a_third_kind(evaluation: Kind) -> None:
    config = config_of(evaluation)
    for refuse in (
        lambda: step_plan(config),
        lambda: unread(config),
        lambda: _TRAINING[evaluation],
        lambda: _SIZES[evaluation],
        lambda: EVALUATION.resume_overrides(Path("checkpoint")),
    ):
        with pytest.raises(UsageError, match="'evaluation'"):
            refuse()


def test_advice_for_a_third_kind_names_no_key_of_another(evaluation: Kind) -> None:
    context = RuleContext(config_of(evaluation).values, evaluation)
    assert value_findings(context) == []
    assert fixes.lower_rate(Case(context)).changes == ()
    assert fixes.clip_gradients(Case(context)).changes == ()


def test_a_config_of_a_third_kind_is_refused_until_it_has_sections(
    evaluation: Kind, tmp_path: Path
) -> None:
    (tmp_path / "e.yaml").write_text("grubrics: {kind: evaluation}\n", encoding="utf-8")
    with pytest.raises(UsageError, match="kind 'evaluation' is not supported, only grpo, sft"):
        load_config(str(tmp_path / "e.yaml"), env={})


def test_no_preflight_check_takes_a_third_kind_for_another(evaluation: Kind) -> None:
    checks = list(run_checks(config_of(evaluation), env={}))
    text = " ".join(check.message for check in checks)
    assert "of-grpo" not in text and "of-sft" not in text
    assert not [check for check in checks if check.status in ("ok", "warn")], text


def test_a_run_of_a_third_kind_is_read_by_its_own_keys(evaluation: Kind, tmp_path: Path) -> None:
    run = run_of(tmp_path, "evaluation")
    assert kind_of(run) is evaluation and layout_of(run) == "evaluation"
    assert str(tmp_path / "evaluation.output_dir") in check_checkpoint(run).message
    with pytest.raises(UsageError, match="Evaluation generates none"):
        require_step((), None, run.path)


@pytest.mark.parametrize("kind", ["distillation", None])
def test_a_run_without_a_known_kind_is_taken_for_none(tmp_path: Path, kind: str | None) -> None:
    run = run_of(tmp_path, kind)
    assert kind_of(run) is None and layout_of(run) == UNKNOWN
    assert not set(default_panels(UNKNOWN)) & {"reward", "judge", "loss"}
    assert not check_checkpoint(run).complete
    with pytest.raises(UsageError, match=f"{'kind' if kind is None else kind}.*grpo, sft"):
        read_kind(run.read_manifest().kind, run.manifest_file)


def test_an_unknown_kind_in_a_config_is_refused_with_those_that_exist(tmp_path: Path) -> None:
    (tmp_path / "e.yaml").write_text("grubrics: {kind: distillation}\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"distillation.*grpo, sft"):
        load_config(str(tmp_path / "e.yaml"), env={})


def test_every_kind_resumes_from_a_key_that_it_declares() -> None:
    assert GRPO.resume_overrides("c")[-1] == "trainer.resume_from_path=c"
    assert SFT.resume_overrides("c") == ["training.resume_from=c"]


def test_no_code_compares_a_kind_with_a_name() -> None:
    """Comparisons with a literal are how a third kind is taken for another one."""
    literal = re.compile(r"kind\"?\)?\s*(==|!=|in)\s*\(?[\"'](grpo|sft)[\"']")
    files = [path for name in ("engine", "grubrics_tui") for path in (ROOT / name).rglob("*.py")]
    assert files and not [path for path in files if literal.search(path.read_text("utf-8"))]


def test_a_run_without_a_config_names_the_command_that_runs_it_again(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="To run it again: grubrics-tui run --from one"):
        run_of(tmp_path, "command").require_config()
