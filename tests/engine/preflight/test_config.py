"""The checklist's line about what a recipe says, and who could have made it say that."""

from __future__ import annotations

from engine.preflight import disk
from engine.preflight.check import Check, Subject
from engine.preflight.config import check
from tests.engine.preflight.project import Project


def answer(project: Project, name: str) -> Check:
    return check(Subject(project.recipe(name), {}, project.root / "runs"))


def test_a_recipe_that_somebody_else_could_have_written_is_a_warning(project: Project) -> None:
    path = project.recipe("sft").path
    assert "is writable by" not in answer(project, "sft").message
    path.chmod(0o666)
    found = answer(project, "sft")
    assert found.status == "warn" and f"{path} is writable by everybody" in found.message


def test_a_runs_folder_in_which_others_can_replace_runs_is_a_warning(project: Project) -> None:
    runs = project.root / "runs"
    runs.mkdir(exist_ok=True)
    runs.chmod(0o777)
    found = disk.check(Subject(project.recipe("sft"), {}, runs))
    assert found.status == "warn" and found.fix == f"chmod +t {runs}"
    runs.chmod(0o1777)
    assert disk.check(Subject(project.recipe("sft"), {}, runs)).status == "ok"
