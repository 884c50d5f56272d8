"""What a reward function is made of: its file and what it imports from its own folder."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from engine.reward.own.files import code_files, keep_code
from engine.reward.own.function import RewardFunction
from engine.reward.own.processes import RewardProcesses, source_of
from tests.reward_arguments import as_arguments


def write(root: Path, **files: str) -> None:
    """Files by name; ``__`` in a name stands for a folder."""
    for name, text in files.items():
        path = root.joinpath(*name.split("__")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def names(root: Path, path: str = "rw.py") -> set[str]:
    result = code_files(RewardFunction(str(root / path)))
    return {str(each.relative_to(root)) for each in result}


def test_the_imports_of_this_program_are_not_followed_to_ask_for_trust() -> None:
    function = RewardFunction("pkg://engine.train.verl_score")
    assert {file.name for file in code_files(function, everywhere=True)} == {
        "verl_score.py",
        "__init__.py",
    }


def test_siblings_are_found_through_each_other_and_libraries_are_not(tmp_path: Path) -> None:
    write(
        tmp_path,
        rw="import json, first\nfrom pkg import deep\n",
        first="import second as s\n",
        second="import rw\n",
        unused="",
        pkg__deep="from .inner import x\nfrom . import other\n",
        pkg__inner="x = 1\n",
        pkg__other="",
        pkg__unused="",
    )
    (tmp_path / "pkg" / "__init__.py").write_text("")
    assert names(tmp_path) == {
        "rw.py", "first.py", "second.py",
        "pkg/__init__.py", "pkg/deep.py", "pkg/inner.py", "pkg/other.py",
    }  # fmt: skip


def test_imports_inside_functions_and_by_literal_name_count(tmp_path: Path) -> None:
    late = "def compute_score(**_):\n    import late\n    from importlib import import_module\n"
    write(tmp_path, rw=late + "    import_module('named')\n", late="", named="")
    assert names(tmp_path) == {"rw.py", "late.py", "named.py"}


def test_the_own_folder_may_be_imported_as_a_package_of_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, rewards__rw="from rewards.parts import x\nimport other\n")
    write(tmp_path, rewards__parts="x = 1\n", other="")
    assert names(tmp_path, "rewards/rw.py") == {"rewards/rw.py", "rewards/parts.py"}
    result = code_files(RewardFunction("pkg://rewards.rw"))
    assert [each.name for each in result] == ["rw.py", "parts.py"]
    write(tmp_path, rewards__more="")
    (tmp_path / "rewards" / "__init__.py").write_text("import rewards.more\n")
    assert {each.name for each in code_files(RewardFunction("pkg://rewards.rw"))} == {
        "rw.py", "parts.py", "__init__.py", "more.py",
    }  # fmt: skip


def test_a_file_that_cannot_be_parsed_is_still_part_of_it(tmp_path: Path) -> None:
    write(tmp_path, rw="import broken\n", broken="x = (\n")
    assert names(tmp_path) == {"rw.py", "broken.py"}


def test_the_copies_are_executed_and_the_originals_place_stays(tmp_path: Path) -> None:
    text = "import part, pathlib\ndata = pathlib.Path(__file__).with_name('data.txt').read_text()\n"
    text += "def compute_score(**_):\n    return part.VALUE + float(data)\n"
    write(tmp_path, rw=text, part="VALUE = 0.5\n")
    (tmp_path / "data.txt").write_text("2")
    function = RewardFunction(str(tmp_path / "rw.py"))
    (tmp_path / "run").mkdir()
    keep_code(function, tmp_path / "run" / "code")
    write(tmp_path, rw="def compute_score(**_):\n    return 9\n", part="VALUE = 9\n")
    assert scored(function, tmp_path / "run" / "code") == 2.5


def test_copies_of_a_package_and_behind_links_are_executed_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, mine__rw="from mine import V\nfrom .part import W\n", mine__part="W = 2\n")
    with (tmp_path / "mine" / "rw.py").open("a") as file:
        file.write("def compute_score(**_):\n    return V + W\n")
    (tmp_path / "mine" / "__init__.py").write_text("V = 0.5\n")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "mine" / "part.py").rename(tmp_path / "elsewhere" / "part.py")
    (tmp_path / "mine" / "part.py").symlink_to(tmp_path / "elsewhere" / "part.py")
    function = RewardFunction("pkg://mine.rw")
    (tmp_path / "run").mkdir()
    keep_code(function, tmp_path / "run" / "code")
    for name in ("rw", "part", "__init__"):
        (tmp_path / "mine" / f"{name}.py").write_text("1 / 0\n")
    assert scored(function, tmp_path / "run" / "code") == 2.5


@pytest.mark.parametrize("path", ["mine/rw.py", "pkg://mine.rw"])
def test_the_copies_are_executed_when_the_originals_are_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.chdir(tmp_path)
    inside = "mine." if path.startswith("pkg") else ""
    text = f"from {inside}part import V\nfrom {inside}sub import inner\n"
    write(tmp_path, mine__rw=text + "def compute_score(**_):\n    return V + inner.W\n")
    write(tmp_path, mine__part="V = 0.5\n", mine__sub__inner="W = 2\n")
    (tmp_path / "run").mkdir()
    keep_code(RewardFunction(path), tmp_path / "run" / "code")
    shutil.rmtree(tmp_path / "mine")
    write(tmp_path, part="V = 9\n")
    assert scored(RewardFunction(path), tmp_path / "run" / "code") == 2.5


def scored(function: RewardFunction, copies: Path) -> float:
    """What the function returns when the copies are executed."""

    async def score() -> float:
        processes = RewardProcesses(source_of(function, copies), 30.0, 30.0)
        found: float = await processes.score(**as_arguments("x", "mine", "", {}))
        processes.end()
        return found

    return asyncio.run(score())
