"""A secret that a config only refers to stays a reference, or is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.base.errors import UsageError
from engine.config.compose import verl_config
from engine.config.exposure import into_environment
from engine.config.frozen import pinned_config
from engine.config.load import Config, load_config
from engine.config.secrets import VARIABLES
from engine.launch.launcher import manifest, plan
from engine.launch.ray_target import chosen_cluster
from tests.paths import CONFIGS

pytestmark = pytest.mark.long

SECRET = "correct-horse-9-battery"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", SECRET)
    monkeypatch.setenv("RENAMED", SECRET)
    monkeypatch.setenv("DB_PASSWORD", "abc")
    monkeypatch.setenv("HARMLESS", "a value that everybody may see")


def load(*overrides: str) -> Config:
    return load_config(str(CONFIGS / "grpo_tiny.yaml"), overrides, {})


@pytest.mark.parametrize(
    "reference",
    [
        "${oc.env:HF_TOKEN}",
        "${oc.env:RENAMED}",
        "${oc.env:HF_TOKEN,nothing}",
        "token ${oc.env:HF_TOKEN} inside",
        "${oc.env:DB_PASSWORD}",
    ],
)
@pytest.mark.parametrize(
    "key", ["grubrics.description", "trainer.project_name", "trainer.experiment_name"]
)
def test_a_reference_to_a_secret_is_refused_in_a_value_that_is_shown(
    key: str, reference: str
) -> None:
    with pytest.raises(UsageError, match=f"{key} refers to a secret") as caught:
        load(f"{key}={reference}")
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "override",
    [
        "guard.command=[curl,-H,'X: ${oc.env:HF_TOKEN}']",
        "+ray_kwargs.ray_init.namespace=${oc.env:RENAMED}",
        "+reward.reward_kwargs.deep={a: [{b: '${oc.env:HF_TOKEN}'}]}",
    ],
)
def test_a_secret_inside_lists_and_mappings_is_found(override: str) -> None:
    with pytest.raises(UsageError) as caught:
        load(override)
    assert "secret" in str(caught.value) and SECRET not in str(caught.value)


def test_a_secret_behind_another_key_is_found() -> None:
    overrides = (f"+{VARIABLES}A=${{oc.env:HF_TOKEN}}", f"grubrics.description=${{{VARIABLES}A}}")
    with pytest.raises(UsageError, match=r"grubrics\.description refers to a secret"):
        load(*overrides)


def test_a_harmless_variable_is_filled_in() -> None:
    config = load("grubrics.description=${oc.env:HARMLESS}")
    assert config.get("grubrics.description") == "a value that everybody may see"


@pytest.mark.parametrize(
    "override",
    [
        f"+{VARIABLES}HF_TOKEN=${{oc.env:HF_TOKEN}}",
        f"+{VARIABLES}PLAIN=x-${{oc.env:RENAMED}}",
        f"+{VARIABLES.rstrip('.')}={{HF_TOKEN: '${{oc.env:HF_TOKEN}}'}}",
    ],
)
def test_a_variable_of_the_runs_processes_stays_a_reference_in_everything_that_is_kept(
    tmp_path: Path, override: str
) -> None:
    made = manifest(plan(load(override), "try", tmp_path))
    kept = pinned_config(made.config)
    assert SECRET not in str(made) + kept
    assert "${oc.env:" in kept and "\\${" not in kept


def test_the_trainer_fills_the_reference_in_for_its_own_environment(tmp_path: Path) -> None:
    overrides = [f"+{VARIABLES}HUB=${{oc.env:HF_TOKEN}}", f"+{VARIABLES}PLAIN=1"]
    pinned = tmp_path / "recipe.yaml"
    made = manifest(plan(load(*overrides), "try", tmp_path))
    pinned.write_text(pinned_config(made.config))
    env: dict[str, str] = {}
    config = into_environment(load_config(str(pinned), (), {}), env)
    assert env == {"HUB": SECRET}
    composed = verl_config(config, tmp_path)
    assert composed["ray_kwargs"]["ray_init"]["runtime_env"]["env_vars"] == {"PLAIN": 1}
    assert SECRET not in str(composed)


def test_a_text_that_only_looks_like_a_reference_stays_a_text(tmp_path: Path) -> None:
    override = "grubrics.description=\\${oc.env:HF_TOKEN} is a reference"
    made = manifest(plan(load(override), "try", tmp_path))
    assert made.description == "${oc.env:HF_TOKEN} is a reference"
    pinned = tmp_path / "recipe.yaml"
    pinned.write_text(pinned_config(made.config))
    assert load_config(str(pinned), (), {}).get("grubrics.description") == made.description


def test_a_secret_is_not_sent_to_a_cluster() -> None:
    config = load(f"+{VARIABLES}HF_TOKEN=${{oc.env:HF_TOKEN}}")
    with pytest.raises(UsageError, match="set HF_TOKEN in its nodes' environment"):
        chosen_cluster("127.0.0.1:1", config)


@pytest.mark.parametrize(
    "override",
    [
        "guard.command=[curl,-H,'Authorization: Bearer opaque-value-1']",
        "guard.command=[notify,--token,opaque-value-1]",
        "grubrics.description=glpat-Q7w8E9r0T1y2U3i4O5p6",
        "grubrics.description=see https://h/x?api_key=opaque-value-1",
        f"grubrics.description=typed {SECRET}",
        "judge.max_concurrent=sk-Q7w8E9r0T1y2U3i4O5p6",
        "OPENAI_API_KEY:opaque-value-1",
        "OPENAI_API_KEY: opaque-value-1",
        "judge.model={opaque-value-1",
    ],
)
def test_a_secret_on_the_command_line_is_refused_and_not_repeated(override: str) -> None:
    with pytest.raises(UsageError) as caught:
        load(override)
    assert "opaque-value-1" not in str(caught.value)
    assert SECRET not in str(caught.value) and "Q7w8" not in str(caught.value)
