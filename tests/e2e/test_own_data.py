"""The page on own data and rewards: its commands run as they stand, with a tiny model."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from typing import Any

import pytest

from tests.e2e.project import Project
from tests.paths import ROOT

pytestmark = pytest.mark.slow

PAGE = (ROOT / "docs/own-data.md").read_text()
FILES = dict(re.findall(r"^`([\w.]+)`\n\n```\w+\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
MODEL = "Qwen/Qwen2.5-0.5B-Instruct"
SMALL = (
    "trainer.total_training_steps=1",
    "trainer.val_before_train=false",
    "trainer.save_freq=-1",
    "data.max_response_length=8",
    "actor_rollout_ref.rollout.n=2",
)
"""Of the launched runs: one step of 16 short responses."""


def commands() -> list[list[str]]:
    """The indented commands of the page, without those inside blocks of code."""
    text = re.sub(r"^```.*?^```$", "", PAGE, flags=re.MULTILINE | re.DOTALL)
    return [shlex.split(line) for line in re.findall(r"^    (\S.*)$", text, re.MULTILINE)]


@pytest.fixture(scope="module")
def answers(
    pristine_sft: tuple[Project, dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, subprocess.CompletedProcess[str]]:
    """What every command of the page printed, in a folder that has nothing but its files."""
    project = Project(tmp_path_factory.mktemp("own"))
    [final] = pristine_sft[0].path.glob("checkpoints/**/final")
    shutil.copytree(final, project.path / "model")
    for name, text in FILES.items():
        (project.path / name).write_text(text)
    return {shlex.join(words): run(project, words) for words in commands()}


def run(project: Project, words: list[str]) -> subprocess.CompletedProcess[str]:
    words = ["model" if word == MODEL else word for word in words]
    if words[0] == "python":
        return project.python(*words[1:])
    return project.run(*words[1:], *(SMALL if words[1:3] == ["launch", "sums"] else ()))


def test_every_command_of_the_page_succeeds(
    answers: dict[str, subprocess.CompletedProcess[str]],
) -> None:
    failed = {words: answer for words, answer in answers.items() if answer.returncode != 0}
    assert not failed, [(words, end.stdout, end.stderr) for words, end in failed.items()]
    assert len(answers) >= 9


@pytest.mark.row("V33")
def test_the_other_numbers_of_the_reward_are_in_metrics_rollouts_and_comparison(
    answers: dict[str, subprocess.CompletedProcess[str]],
) -> None:
    by_name = {words.split()[1]: answer.stdout for words, answer in answers.items()}
    assert re.search(r"^reward/words\t1\t\d", by_name["metrics"], re.MULTILINE)
    assert "words" in by_name["rollouts"] and "ground truth" in by_name["rollouts"]
    assert "reward/boxed" in by_name["compare"]
