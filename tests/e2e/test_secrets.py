"""No secret reaches any file of a run, whatever goes wrong in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.project import Project, make_project
from tests.engine.judge.server import JudgeServer, Reply, judge_server

pytestmark = pytest.mark.waits

JUDGE_KEY = "sk-marked-judge-0123456789abcdef"
HUB_TOKEN = "hf_markedhub0123456789abcdefgh"
WANDB_KEY = "markedwandb0123456789abcdef0123456789abcd"
OVERRIDE = "marked-override-0123456789abcdef"
MARKED = (JUDGE_KEY, HUB_TOKEN, WANDB_KEY, OVERRIDE)


@pytest.fixture
def project(tiny_world: Project, tmp_path: Path) -> Project:
    made = make_project(tmp_path / "project")
    (made.path / "data").symlink_to(tiny_world.path / "data")
    (made.path / ".env").write_text(f"WANDB_API_KEY={WANDB_KEY}\nOPENAI_API_KEY='{JUDGE_KEY}'\n")
    return made


@pytest.fixture
def rude_server() -> Iterator[JudgeServer]:
    """Refuses every call and quotes the key it was given."""
    body = {"error": {"message": f"Incorrect API key provided: {JUDGE_KEY}", "code": "401"}}
    with judge_server(every=Reply(401, body=body)) as server:
        yield server


def holders(folder: Path) -> list[str]:
    """Files below ``folder`` that hold a marked secret, apart from .env itself."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != ".env"]
    return [
        str(path)
        for path in files
        if any(secret.encode() in path.read_bytes() for secret in MARKED)
    ]


def test_a_secret_among_the_overrides_is_refused_and_not_repeated(project: Project) -> None:
    done = project.run("launch", "grpo_tiny", f"judge.api_key={OVERRIDE}")
    assert done.returncode == 2
    assert OVERRIDE not in done.stdout + done.stderr
    assert not (project.path / "runs").exists()


@pytest.mark.slow
def test_a_run_whose_judge_refuses_the_key_keeps_it_out_of_every_file(
    project: Project, rude_server: JudgeServer, tmp_path: Path
) -> None:
    env = {"HF_TOKEN": HUB_TOKEN, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = project.run(
        "launch",
        "grpo_tiny",
        "actor_rollout_ref.model.path=data/tiny/model",
        "judge.provider=openai",
        "judge.model=m",
        f"judge.base_url={rude_server.url}/v1",
        "trainer.total_training_steps=2",
        "--name",
        "rude",
        "--wait",
        env=env,
    )
    assert done.returncode == 1, done.stderr
    run = project.path / "runs" / "rude"
    assert "Incorrect API key" in (run / "attempt_1" / "reward.jsonl").read_text()
    assert rude_server.paths, "the judge was never asked"
    assert holders(tmp_path) == []
    for shown in (done.stdout, done.stderr, *screens(project)):
        assert not any(secret in shown for secret in MARKED)


def screens(project: Project) -> Iterator[str]:
    """What the commands that read a run say about it."""
    commands: list[tuple[Any, ...]] = [("show", "rude"), ("log", "rude"), ("runs",)]
    for command in commands:
        yield project.run(*command).stdout
        yield project.run(*command, "--json").stdout
