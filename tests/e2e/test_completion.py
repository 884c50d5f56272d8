"""TAB in a real bash, by the script that ``grubrics-tui completion`` prints."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.project import Project
from tests.e2e.terminal import Terminal

pytestmark = pytest.mark.waits

CONFIG = "grubrics: {kind: grpo}\ntrainer: {total_training_steps: 5, save_freq: 2}\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a config and two runs, and a program of the name that bash completes."""
    path = tmp_path_factory.mktemp("project")
    (path / "configs").mkdir()
    (path / "configs" / "mine.yaml").write_text(CONFIG)
    for name in ("night-1", "night-2", "day"):
        (path / "runs" / name).mkdir(parents=True)
        (path / "runs" / name / "manifest.json").write_text("{}")
    (path / "bin").mkdir()
    program = path / "bin" / "grubrics-tui"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m grubrics_tui "$@"\n')
    program.chmod(0o755)
    return path


@pytest.fixture(scope="module")
def bash(folder: Path) -> Iterator[Terminal]:
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    env = {**Project(folder).env, "PATH": path, "PS1": "ready> "}
    terminal = Terminal(["bash", "--norc", "--noprofile", "-i"], folder, env, columns=200)
    terminal.wait_for("ready>")
    terminal.press('eval "$(grubrics-tui completion bash)" && echo completion=on\r')
    terminal.wait_for("(?m)^completion=on")
    yield terminal
    terminal.press("\x15exit\r")


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        ("dia", "diagnose "),
        ("launch mi", "launch mine "),
        ("impo", "import "),
        ("import run.sh --device cu", "import run.sh --device cuda "),
        ("launch mine --que", "launch mine --queue "),
        ("show da", "show day "),
        ("compare day nig", "compare day night-"),
        ("run --after da", "run --after day "),
        ("launch mine lr", "launch mine actor_rollout_ref.actor.optim.lr="),
        ("launch mine trainer.save_fr", "launch mine trainer.save_freq="),
        ("launch sft_tiny lr", "launch sft_tiny training.learning_rate="),
        ("launch nosuch lr", "launch nosuch lr"),
        ("completion z", "completion zsh "),
    ],
)
def test_tab_completes(bash: Terminal, typed: str, line: str) -> None:
    bash.press(f"\x15grubrics-tui {typed}", "\t", "|")
    bash.wait_for(rf"ready> grubrics-tui {line.replace('.', '[.]')}\|")


def asked(folder: Path, words: list[str], code: str = "") -> subprocess.CompletedProcess[str]:
    """What the program answers a shell, and what ``code`` prints afterwards."""
    line = {"COMP_WORDS": "\n".join(["grubrics-tui", *words]), "COMP_CWORD": str(len(words))}
    script = (
        "import sys; from grubrics_tui.cli import main\n"
        f"try: main()\nexcept SystemExit: {code or 'pass'}"
    )
    return subprocess.run(
        [sys.executable, "-c", script],
        cwd=folder,
        env={
            **os.environ,
            **Project(folder).env,
            **line,
            "_GRUBRICS_TUI_COMPLETE": "complete_bash",
        },
        capture_output=True,
        text=True,
    )


def test_an_empty_override_offers_what_the_config_sets(folder: Path) -> None:
    offers = asked(folder, ["launch", "mine", ""]).stdout.split()
    assert offers == ["grubrics.kind=", "trainer.save_freq=", "trainer.total_training_steps="]


@pytest.mark.parametrize("words", [["nosuch", "x"], ["launch", "nosuch", "lr"]])
def test_a_line_that_cannot_be_parsed_prints_nothing(folder: Path, words: list[str]) -> None:
    done = asked(folder, words)
    assert (done.stdout.strip(), done.stderr) == ("", "")


def test_an_answer_needs_neither_textual_nor_a_trainer(folder: Path) -> None:
    heavy = "{'textual', 'torch', 'verl', 'ray', 'numpy'}"
    done = asked(folder, ["launch", "mine", "lr"], f"print({heavy} & sys.modules.keys())")
    assert done.stdout.split("\n")[-2] == "set()"


@pytest.mark.sample(1)
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script(folder: Path, shell: str) -> None:
    done = Project(folder).run("completion", shell)
    assert (done.returncode, "grubrics-tui" in done.stdout) == (0, True)
