"""Whose files count as a stranger's."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from engine.base import writers

STRANGER = 54_321
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as other users")


def installed(folder: Path, owner: int) -> Path:
    """This program, installed in ``folder`` and owned by ``owner``."""
    package = folder / "engine"
    (package / "base").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "base/__init__.py").touch()
    shutil.copy(writers.__file__, package / "base")
    for path in (package, *package.rglob("*")):
        os.chown(path, owner, owner)
    return folder


def complaint(program: Path, file: Path) -> str:
    """What the program that is installed in a folder says of a file."""
    code = (
        "import sys; from pathlib import Path; from engine.base.writers import path_complaint; "
        "print(path_complaint(Path(sys.argv[1])))"
    )
    command = [sys.executable, "-c", code, str(file)]
    answer = subprocess.run(command, cwd=program, capture_output=True, text=True, check=True)
    return answer.stdout.strip()


@needs_root
def test_files_of_the_owner_of_the_program_count_as_the_users(tmp_path: Path) -> None:
    program = installed(tmp_path / "checkout", STRANGER)
    own, other = program / "config.yaml", program / "other.yaml"
    for file, owner in ((own, STRANGER), (other, STRANGER + 1)):
        file.touch()
        os.chown(file, owner, owner)
    assert complaint(program, own) == "None"
    assert complaint(program, other) == f"is owned by uid {STRANGER + 1}"


def test_a_folder_that_everybody_may_write_counts_unless_it_holds_the_program(
    tmp_path: Path,
) -> None:
    workspace = tmp_path / "workspace"
    program = installed(workspace / "checkout", os.geteuid())
    config = program / "config.yaml"
    config.touch()
    workspace.chmod(0o777)
    assert complaint(program, config) == "None"
    elsewhere = installed(tmp_path / "site", os.geteuid())
    assert complaint(elsewhere, config) == f"is in {workspace}, which is writable by everybody"
