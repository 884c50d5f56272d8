"""What the doctor would say of a value is said before the launch, and refuses nothing."""

from __future__ import annotations

import pytest

from engine.checks.check import Check, Subject
from engine.checks.preflight import require_launchable
from engine.checks.values import check, value_findings
from engine.doctor.metrics import RuleContext
from tests.engine.checks.project import Project

RATE = "actor_rollout_ref.actor.optim.lr"
SUPERVISED = "training.learning_rate"


def answer(project: Project, name: str, *overrides: str) -> Check:
    return check(Subject(project.config(name, *overrides), {}, project.root / "runs"))


@pytest.mark.parametrize("name", ["grpo", "sft"])
def test_values_that_people_train_with_are_fine(project: Project, name: str) -> None:
    result = answer(project, name)
    assert (result.id, result.status, result.fix) == ("values", "ok", None)


@pytest.mark.parametrize(("name", "key"), [("grpo", RATE), ("sft", SUPERVISED)])
def test_a_rate_that_breaks_the_model_is_a_warning_with_the_value_of_the_file(
    project: Project, name: str, key: str
) -> None:
    result, before = answer(project, name, f"{key}=3"), project.config(name).get(key)
    assert result.status == "warn"
    assert result.message.startswith(f"Learning rate 3 is too high: {key} is 3. ")
    assert result.fix == f"{key}={before}"


def test_the_words_are_those_of_the_doctor(project: Project) -> None:
    config = project.config("grpo", f"{RATE}=3")
    (findings,) = value_findings(RuleContext(config.values, config.kind))
    message = answer(project, "grpo", f"{RATE}=3").message
    assert findings.title in message and findings.cause.removesuffix(".") in message


def test_several_values_are_one_line_with_every_fix(project: Project) -> None:
    greedy = "actor_rollout_ref.rollout.val_kwargs.n"
    result = answer(project, "grpo", "data.max_response_length=4", f"{greedy}=3")
    assert "Responses of 4 tokens" in result.message
    assert "the 3 answers to a prompt are equal" in result.message
    assert result.fix == f"data.max_response_length=512; {greedy}=1"


def test_the_fix_silences_the_warning(project: Project) -> None:
    result = answer(project, "grpo", f"{RATE}=3")
    assert answer(project, "grpo", f"{RATE}=3", str(result.fix)).status == "ok"


def test_a_launch_tells_of_it_and_goes_on(project: Project) -> None:
    if project.checks()["environment"].status == "fail":
        pytest.skip("the training stack is not installed")
    warnings = require_launchable(project.config("grpo", f"{RATE}=3"), project.root, env={})
    assert "values" in [warning.id for warning in warnings]
