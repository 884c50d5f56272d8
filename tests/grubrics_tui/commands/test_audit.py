"""``audit`` prints what a reward pays for, beside what the model of a run scores."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.base import files
from engine.config.frozen import pinned_config
from engine.launch.launcher import manifest, plan
from engine.run.trust import vouch
from tests.engine.checks.project import Project, row
from tests.grubrics_tui.conftest import Call
from tests.grubrics_tui.sample_run import SampleRun

pytestmark = pytest.mark.waits

PATH = "reward.custom_reward_function.path=rw.py"
SOUND = "def compute_score(solution_str, ground_truth, **_):\n    return float({})\n"


@pytest.fixture(autouse=True)
def _rows(project: Project) -> None:
    values = [{**row(n), "reward_model": {"ground_truth": str(n % 4), "style": "rule"}}
              for n in range(20)]  # fmt: skip
    project.write("data/train.parquet", values)
    write("solution_str == ground_truth")


def write(test: str) -> None:
    Path("rw.py").write_text(SOUND.format(test))


def test_a_sound_reward_passes(call: Call) -> None:
    code, text = call("audit", "grpo", PATH)
    assert (code, text.splitlines()[-1]) == (0, "no problem found"), text
    assert "1.000  the right answer (20 of 20 get the full score, 1, written alone)" in text
    assert "0.250  the best constant answer: '0' to every question" in text


def test_a_reward_with_a_gap_is_a_negative_result(call: Call) -> None:
    write("ground_truth in solution_str")
    code, text = call("audit", "grpo", PATH, "--json")
    value = json.loads(text)
    assert code == 1
    assert (
        "two answers in one scores 1 (mean of 20 rows), more than '0' given to every question: "
        "0.25 (20 rows)"
    ) in value["problems"]


def test_a_share_of_the_reward_for_wrong_answers_is_a_note(call: Call) -> None:
    write("solution_str == ground_truth or 0.2 * solution_str.isdigit()")
    code, text = call("audit", "grpo", PATH)
    assert (code, "no problem found" in text) == (0, True), text
    assert text.splitlines()[-1].startswith("note: a wrong answer of the right form")
    assert (
        "wrong answer of the right form"
        in json.loads(call("audit", "grpo", PATH, "--json")[1])["notes"][0]
    )


def test_the_way_in_which_right_answers_are_written_is_shown(call: Call) -> None:
    write("solution_str == f'#### {ground_truth}'")
    assert "written as #### ANSWER)" in call("audit", "grpo", PATH)[1]
    write("0")
    said = call("audit", "grpo", PATH)[1]
    assert "written alone, as \\boxed{ANSWER}, as #### ANSWER, " in said


def test_the_score_of_a_runs_model_is_printed_beside_it(
    call: Call, project: Project, runs: Path
) -> None:
    contents = manifest(plan(project.config("grpo", PATH), "night", runs))
    sample = SampleRun.create(runs, "night")
    sample.run.write_manifest(contents)
    files.write_atomic(sample.run.config_file, pinned_config(contents.config))
    vouch(sample.run)
    sample.grow(5)
    code, text = call("audit", "night")
    assert code == 0, text
    assert "  the model of the run\n" in text


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("grpo",), "has no task or reward function to audit: rewards come from a judge"),
        (("sft",), "SFT has none"),
        (("grpo", PATH, "--rows", "1"), "--rows 1: must be at least 2"),
        (("grpo", PATH, "--limit", "0"), "--limit 0: must be above 0"),
        (("grpo", PATH, "--right", "####"), "write {} where the answer goes"),
        (("grpo", PATH, "data.train_files=none.parquet"), "none.parquet cannot be read"),
        (("grpo", PATH.replace("rw", "none")), "none.py does not exist"),
    ],
)
def test_what_cannot_be_audited_is_one_line(call: Call, words: tuple[str, ...], says: str) -> None:
    code, text = call("audit", *words)
    assert (code, says in text, text.count("\n")) == (2, True, 1), text
