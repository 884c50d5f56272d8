"""Tests see nothing of the shell and the home of who runs them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_USER = ("GRUBRICS_RUNS", "WANDB_API_KEY", "HF_TOKEN", "AZURE_OPENAI_KEY", "RAY_ADDRESS", "MY_KEY")


@pytest.mark.waits
def test_variables_of_the_shell_do_not_reach_a_test(tmp_path: Path) -> None:
    test = f"{Path(__file__)}::test_no_variable_of_the_user_is_set"
    env = {**os.environ, **dict.fromkeys(_USER, "mine"), "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", test]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_no_variable_of_the_user_is_set() -> None:
    assert not set(_USER) & set(os.environ)
    assert "grubrics-home-" in str(Path.home())
