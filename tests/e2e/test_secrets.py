"""No secret reaches any file of a run, whatever goes wrong in it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.project import Project, make_project
from tests.engine.reward.judge.server import Reply, judge_server

pytestmark = pytest.mark.waits

JUDGE_KEY = "sk-marked-judge-0123456789abcdef"
HUB_TOKEN = "hf_markedhub0123456789abcdefgh"
WANDB_KEY = "markedwandb0123456789abcdef0123456789abcd"
OVERRIDE = "marked-override-0123456789abcdef"
MARKED = (JUDGE_KEY, HUB_TOKEN, WANDB_KEY, OVERRIDE)


def project_with_keys(tiny_world: Project, path: Path) -> Project:
    made = make_project(path)
    (made.path / "data").symlink_to(tiny_world.path / "data")
    (made.path / ".env").write_text(f"WANDB_API_KEY={WANDB_KEY}\nOPENAI_API_KEY='{JUDGE_KEY}'\n")
    return made


@pytest.mark.slow
def test_a_secret_among_the_overrides_is_refused_and_not_repeated(
    tiny_world: Project, tmp_path: Path
) -> None:
    project = project_with_keys(tiny_world, tmp_path / "project")
    done = project.run("launch", "grpo_tiny", f"judge.api_key={OVERRIDE}")
    assert done.returncode == 2
    assert OVERRIDE not in done.stdout + done.stderr
    assert not (project.path / "runs").exists()


@dataclass(frozen=True)
class Rude:
    """A run whose judge refuses the key, quoting it; ``printed`` is what the commands said."""

    folder: Path
    project: Project
    repro: dict[str, Any]
    printed: tuple[str, ...]


@pytest.fixture(scope="module")
def rude(tiny_world: Project, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rude]:
    folder = tmp_path_factory.mktemp("secrets")
    project = project_with_keys(tiny_world, folder / "project")
    body = {"error": {"message": f"Incorrect API key provided: {JUDGE_KEY}", "code": "401"}}
    with judge_server(every=Reply(401, body=body)) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_TOKEN", HUB_TOKEN)
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        launched = project.run_program(
            "launch",
            "grpo_tiny",
            "actor_rollout_ref.model.path=data/tiny/model",
            "judge.provider=openai",
            "judge.model=m",
            f"judge.base_url={server.url}/v1",
            "trainer.total_training_steps=2",
            "trainer.val_before_train=false",
            "--name",
            "rude",
            "--wait",
        )
        assert launched.returncode == 1, launched.stderr
        reproduced = project.run_program("reproduce", "rude", "--json")
        assert reproduced.returncode == 1, reproduced.stderr
        assert server.paths, "the judge was never asked"
        printed = (launched, reproduced, *asked(project))
        said = tuple(text for done in printed for text in (done.stdout, done.stderr))
        yield Rude(folder, project, json.loads(reproduced.stdout), said)


def asked(project: Project) -> Iterator[subprocess.CompletedProcess[str]]:
    """The commands that read a run."""
    for command in (("show", "rude"), ("log", "rude"), ("runs",)):
        yield project.run(*command)
        yield project.run(*command, "--json")


@pytest.mark.thorough
@pytest.mark.slow
def test_a_run_whose_judge_refuses_the_key_keeps_it_out_of_every_file(rude: Rude) -> None:
    run = rude.project.path / "runs" / "rude"
    assert "Incorrect API key" in (run / "attempt_1" / "reward.jsonl").read_text()
    files = [path for path in rude.folder.rglob("*") if path.is_file() and path.name != ".env"]
    assert [path for path in files if holds_secret(path.read_bytes())] == []


@pytest.mark.thorough
@pytest.mark.slow
def test_no_command_prints_it(rude: Rude) -> None:
    assert [text for text in rude.printed if holds_secret(text.encode())] == []


def holds_secret(content: bytes) -> bool:
    return any(secret.encode() in content for secret in MARKED)


@pytest.mark.thorough
@pytest.mark.slow
def test_its_repro_fails_too_and_blames_the_infrastructure(rude: Rude) -> None:
    repro = rude.repro
    assert repro["parent"] == {"run": "rude", "relation": "reproduction"}
    assert repro["verdict"]["outcome"] == "infrastructure", repro["verdict"]
    assert repro["rows"]["step"] == 1
    shown = rude.project.json("show", repro["run"])
    assert shown["parent"] == repro["parent"] and shown["state"] == "failed"
