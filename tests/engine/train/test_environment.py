"""What the processes of a run read from their environment."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.train.environment import COMPILED, keep_compiled_code_private


def test_compiled_code_is_in_a_private_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    env: dict[str, str] = {}
    keep_compiled_code_private(env, tmp_path / "attempt" / "compiled")
    assert env[COMPILED] == str(tmp_path / "cache/grubrics-tui/torchinductor")
    assert Path(env[COMPILED]).stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as other users")
def test_a_folder_that_somebody_else_made_first_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    theirs = tmp_path / "cache/grubrics-tui/torchinductor"
    theirs.mkdir(parents=True)
    os.chown(theirs, 54_321, 54_321)
    env: dict[str, str] = {}
    keep_compiled_code_private(env, tmp_path / "attempt" / "compiled")
    assert env[COMPILED] == str(tmp_path / "attempt/compiled")


def test_a_folder_that_the_user_chose_stays() -> None:
    env = {COMPILED: "/fast/disk"}
    keep_compiled_code_private(env, Path("unused"))
    assert env == {COMPILED: "/fast/disk"}
