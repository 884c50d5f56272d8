"""The line of the preflight checks about what a reward pays for."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.checks.check import Check
from tests.engine.checks.project import Project, row

pytestmark = pytest.mark.waits

KEY = "reward.custom_reward_function.path=rw.py"


def check(
    project: Project, body: str, *overrides: str, truth: str = "x{}", prompt: str = ""
) -> Check:
    rows = [
        {**row(n), "reward_model": {"ground_truth": truth.format(n), "style": "rule"}}
        for n in range(9)
    ]
    for each in rows if prompt else ():
        each["prompt"] = [{"role": "user", "content": prompt}]
    project.write("data/train.parquet", rows)
    head = "def compute_score(data_source, solution_str, ground_truth, extra_info):"
    Path("rw.py").write_text(f"{head}\n    {body}\n")
    return project.checks("grpo", KEY, *overrides)["audit"]


def test_a_sound_reward_is_summed_up(project: Project) -> None:
    found = check(project, "return float(solution_str == ground_truth)")
    assert (found.status, found.message) == (
        "ok",
        "9 right answers score 1, hostile ones at most 0; always answering 'x0' scores 0.111",
    )


def test_a_gap_is_a_warning_that_names_the_command(project: Project) -> None:
    found = check(project, "return float(bool(solution_str))")
    assert found.status == "warn"
    assert found.message.startswith("the right answer scores 1, no more than that of another row")
    command = "grubrics-tui audit grpo reward.custom_reward_function.path=rw.py"
    assert found.message.endswith(f"({command})")


def test_rows_without_a_truth_are_a_warning(project: Project) -> None:
    found = check(project, "return float('a' in solution_str)", truth="")
    assert found.status == "warn" and found.message.startswith("no row has a ground truth")
    assert "--column truth=COLUMN" in (found.fix or "")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("return float('secret' in solution_str)", "no known way of writing a right answer scores"),
        ("import time; time.sleep(0.1); return 1.0", "takes too long for an answer to audit"),
    ],
)
def test_what_it_cannot_tell_is_left_to_the_command(project: Project, body: str, says: str) -> None:
    found = check(project, body, truth="def solve():\n    return {}")
    assert (found.status, says in found.message) == ("skip", True), found.message
    assert "grubrics-tui audit grpo" in found.message


@pytest.mark.parametrize(
    ("body", "prompt", "says"),
    [
        ("return 0.0", "1 + 1?", "score 0, right and wrong ones alike"),
        (
            "return float(solution_str == ground_truth)",
            "1 + 1? Write Result: $NUMBER in the last line.",
            "the form that the prompt asks for, 'Result: x0', scores 0",
        ),
    ],
)
def test_a_reward_that_pays_for_no_right_answer_as_the_prompt_asks_for_it_fails(
    project: Project, body: str, prompt: str, says: str
) -> None:
    found = check(project, body, prompt=prompt)
    assert (found.status, says in found.message) == ("fail", True), found.message


def test_without_an_own_reward_there_is_nothing_to_audit(project: Project) -> None:
    assert project.checks("grpo")["audit"].status == "skip"
    assert project.checks("sft")["audit"].message == "SFT has no rewards"
    off = check(project, "return 1.0", "grubrics.reward_check_s=0")
    assert (off.status, off.message) == ("skip", "grubrics.reward_check_s=0")
