"""The line of the preflight checks about a reward function of the config's own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from engine.checks import reward
from engine.checks.check import Check, Subject
from tests.engine.checks.project import Project, row

pytestmark = pytest.mark.waits

KEY = "reward.custom_reward_function"
GOOD = """
def compute_score(data_source, solution_str, ground_truth, extra_info, bonus=0.0):
    return {"score": float(solution_str == ground_truth) + bonus, "acc": 1.0}
"""


def answer(project: Project, text: str | None, *overrides: str) -> Check:
    """The line for a config whose function is in ``rw.py``."""
    rows = [{**row(n), "reward_model": {"ground_truth": str(n), "style": "rule"}} for n in range(9)]
    project.write("data/train.parquet", rows)
    if text is not None:
        (project.root / "rw.py").write_text(text)
    config = project.config("grpo", f"{KEY}.path=rw.py", *overrides)
    return reward.check(Subject(config, {}, project.root / "runs"))


@pytest.mark.row("V20")
def test_a_sound_function_scores_rows_of_the_training_file(project: Project) -> None:
    check = answer(project, GOOD)
    assert check.status == "ok"
    assert check.message.startswith("rw.py:compute_score scored 4 of 4 sample rows, 0 to 1, ")
    assert check.message.endswith(" ms each")
    assert "rw" not in sys.modules


def test_a_rubric_config_and_supervised_training_have_no_such_function(project: Project) -> None:
    for name in ("grpo", "sft"):
        config = project.config(name)
        assert reward.check(Subject(config, {}, project.root / "runs")).status == "skip"


@pytest.mark.sample(4)
@pytest.mark.row("V20")
@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "rw.py does not exist"),
        ("x = (\n", "rw.py:1: SyntaxError"),
        ("import sympyyy\n", "rw.py:1: ModuleNotFoundError: No module named 'sympyyy'"),
        ("def other(): ...\n", "rw.py has no function 'compute_score'; it has other"),
        ("def compute_score(text): ...\n", "rw.py:1: compute_score(text) cannot be called"),
        ("def compute_score(**_):\n    raise KeyError('u')\n", "KeyError: 'u' (rw.py:2)"),
        ("def compute_score(**_):\n    return 'good'\n", "returned str 'good', not a number"),
        ("def compute_score(**_):\n    return float('nan')\n", "returned nan"),
        ("import sys\ndef compute_score(**_):\n    sys.exit()\n", "SystemExit (rw.py:3)"),
    ],
)
def test_a_broken_function_is_refused_in_one_line(
    project: Project, text: str | None, says: str
) -> None:
    check = answer(project, text)
    assert check.status == "fail"
    assert says in check.message


def test_a_module_outside_the_folder_of_the_function_is_named(project: Project) -> None:
    (project.root / "common.py").write_text("ONE = 1.0\n")
    (project.root / "rw").mkdir()
    text = "import common\ndef compute_score(**_):\n    return common.ONE\n"
    (project.root / "rw" / "own.py").write_text(text)
    check = answer(project, None, f"{KEY}.path=rw/own.py")
    assert check.status == "warn"
    assert "common.py imported from outside the function's folder: the run keeps" in check.message
    assert check.fix == "move it below rw/"


@pytest.mark.parametrize("target", ["/dev/zero", "gone.py"])
def test_a_link_to_no_regular_file_is_not_taken_for_one_that_is_missing(
    project: Project, target: str
) -> None:
    (project.root / "rw.py").symlink_to(target)
    assert answer(project, None).message.endswith("rw.py is a broken link or not a regular file")


@pytest.mark.parametrize("name", ["json.py", "numpy.py", "yaml/__init__.py"])
def test_a_file_beside_the_function_that_hides_a_library_is_named(
    project: Project, name: str
) -> None:
    path = project.root / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("")
    check = answer(project, GOOD)
    module = name.removesuffix("/__init__.py")
    assert check.status == "warn"
    assert f"{module} in its folder is imported in place of the library of that" in check.message
    assert check.fix == f"rename {module}"


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("while True: pass\n", "rw.py:1: not imported within 2 s"),
        ("def compute_score(**_):\n    while True: pass\n", "within 2 s (rw.py:2)"),
    ],
)
def test_a_function_that_hangs_is_refused_after_the_limit(
    project: Project, text: str, says: str
) -> None:
    check = answer(project, text, "grubrics.reward_check_s=2")
    assert check.status == "fail"
    assert says in check.message
    assert check.fix == "grubrics.reward_check_s=6"


def test_a_function_that_fails_on_some_answers_is_warned_of(project: Project) -> None:
    text = "def compute_score(solution_str, **_):\n    return int(solution_str)\n"
    check = answer(project, text)
    assert check.status == "warn"
    assert "1 of 5 sample answers got no reward: row 0, answer '': ValueError" in check.message


def test_sources_of_the_file_are_all_tried(project: Project) -> None:
    text = "def compute_score(data_source, **_):\n    return {'a': 1, 'b': 2}[data_source]\n"
    answer(project, text)
    rows = [{**row(number), "data_source": "b" if number == 8 else "a"} for number in range(9)]
    project.write("data/train.parquet", rows)
    config = project.config("grpo", f"{KEY}.path=rw.py")
    check = reward.check(Subject(config, {}, project.root / "runs"))
    assert "4 of 4 sample rows, 1 to 2" in check.message


def test_a_folder_is_no_reward_function(project: Project) -> None:
    (project.root / "rw.py").mkdir()
    check = answer(project, None)
    assert (check.status, "rw.py is a folder" in check.message) == ("fail", True)


def test_a_missing_file_has_a_hint_and_no_function_is_tried_when_asked_not_to(
    project: Project,
) -> None:
    Path("rew.py").write_text("")
    assert "did you mean rew.py?" in answer(project, None).message
    assert answer(project, GOOD, "grubrics.reward_check_s=0").status == "skip"


def test_a_file_that_is_imported_by_a_computed_name_is_warned_of(project: Project) -> None:
    Path("part.py").write_text("V = 1.0\n")
    text = "import importlib\npart = importlib.import_module('pa' + 'rt')\n"
    check = answer(project, text + "def compute_score(**_):\n    return part.V\n")
    assert check.status == "warn"
    assert "part.py imported by a computed name" in check.message


def test_a_library_in_a_virtual_environment_beside_the_function_is_not_its_own(
    project: Project,
) -> None:
    library = project.root / ".venv" / "site-packages" / "lib_of_somebody.py"
    library.parent.mkdir(parents=True)
    library.write_text("def fail():\n    raise ValueError('x')\n")
    text = f"import sys\nsys.path.append({str(library.parent)!r})\nimport lib_of_somebody\n"
    check = answer(project, text + "def compute_score(**_):\n    lib_of_somebody.fail()\n")
    assert "ValueError: x (rw.py:5)" in check.message


def test_code_that_somebody_else_could_have_written_is_not_executed(
    project: Project,
) -> None:
    ran = project.root / "ran"
    (project.root / "part.py").write_text("x = 1\n")
    (project.root / "part.py").chmod(0o666)
    check = answer(project, f"import part\nopen({str(ran)!r}, 'w')\n{GOOD}")
    assert check.status == "skip" and "another user could have written its code" in check.message
    assert not ran.exists()


def test_what_a_function_raises_is_shown_without_secrets(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEARCH_API_KEY", "zebra-quilt-lantern-42")
    text = (
        "import os\ndef compute_score(**_):\n    raise ValueError(os.environ['SEARCH_API_KEY'])\n"
    )
    answer(project, text)
    result = project.checks("grpo", f"{KEY}.path=rw.py")["reward"]
    assert "ValueError: " in result.message
    assert "zebra-quilt-lantern-42" not in result.message
