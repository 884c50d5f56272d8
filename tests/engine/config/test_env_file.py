"""Credentials of a project lie in its .env, and the environment wins over it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.base.errors import UsageError
from engine.config.env_file import load_env_file


def test_variables_of_the_file_are_added(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text('# the judge\nOPENAI_API_KEY="sk-1 2"\nexport JUDGE_MODEL=m\n')
    env: dict[str, str] = {}
    load_env_file(env, tmp_path / ".env")
    assert env == {"OPENAI_API_KEY": "sk-1 2", "JUDGE_MODEL": "m"}


def test_what_is_set_already_wins(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("JUDGE_MODEL=file\n")
    env = {"JUDGE_MODEL": "shell"}
    load_env_file(env, tmp_path / ".env")
    assert env == {"JUDGE_MODEL": "shell"}


def test_windows_line_ends_do_not_reach_the_values(tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes(b"OPENAI_API_KEY=sk-1\r\nJUDGE_MODEL=m\r\n")
    env: dict[str, str] = {}
    load_env_file(env, tmp_path / ".env")
    assert env == {"OPENAI_API_KEY": "sk-1", "JUDGE_MODEL": "m"}


def test_a_broken_line_is_left_out_and_told_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_text("JUDGE_MODEL=m\nOPENAI_API_KEY='sk-1\nWANDB_MODE=offline\n")
    env: dict[str, str] = {}
    assert load_env_file(env, path) == [f"{path}: line 2 is not NAME=value and was left out"]
    assert env == {"JUDGE_MODEL": "m", "WANDB_MODE": "offline"}


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes(b"A=\xff\n")
    with pytest.raises(UsageError, match=r"\.env: not UTF-8 text"):
        load_env_file({}, tmp_path / ".env")


def test_a_missing_file_is_no_error(tmp_path: Path) -> None:
    env: dict[str, str] = {}
    load_env_file(env, tmp_path / ".env")
    assert env == {}


@pytest.mark.parametrize("line", ["'a=b'=1", "A=1\0"])
def test_what_no_environment_takes_is_one_line(tmp_path: Path, line: str) -> None:
    (tmp_path / ".env").write_text(f"{line}\n")
    with pytest.raises(UsageError, match="invalid variable name"):
        load_env_file(os.environ, tmp_path / ".env")


@pytest.mark.parametrize("mode", [0o666, 0o602])
def test_a_file_that_others_may_write_is_not_read(tmp_path: Path, mode: int) -> None:
    path = tmp_path / ".env"
    path.write_text("HF_ENDPOINT=http://127.0.0.1:9\n")
    path.chmod(mode)
    env: dict[str, str] = {}
    (complaint,) = load_env_file(env, path)
    assert env == {}
    assert "writable by everybody and was not read" in complaint and "chmod 600" in complaint


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as other users")
@pytest.mark.parametrize("linked", [False, True])
def test_a_file_or_link_of_another_user_is_not_read(tmp_path: Path, linked: bool) -> None:
    path = tmp_path / ".env"
    if linked:
        (tmp_path / "own").write_text("LD_PRELOAD=x.so\n")
        path.symlink_to(tmp_path / "own")
    else:
        path.write_text("LD_PRELOAD=x.so\n")
    os.chown(path, 54_321, 54_321, follow_symlinks=False)
    env: dict[str, str] = {}
    (complaint,) = load_env_file(env, path)
    assert env == {} and "is owned by uid 54321" in complaint
