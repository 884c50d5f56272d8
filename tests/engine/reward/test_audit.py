"""What the audit of a reward finds: rewards that real verifiers gave, planted one by one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import UsageError
from engine.data.contract import read_rows
from engine.data.prepare_task import PrepareOptions, prepare_task
from engine.reward.answers import CONSTANTS, OF_ROWS, Row, asked_style, read_audit_rows
from engine.reward.audit import NO_TRUTH, Audit, AuditOptions, run_audit
from engine.reward.own.function import RewardFunction
from engine.tasks.registry import find_task

pytestmark = pytest.mark.waits

HEAD = "def compute_score(data_source, solution_str, ground_truth, extra_info):\n"
NUMBERS = [str(n) for n in range(40)]


def rows(truths: Sequence[str]) -> list[Row]:
    """A row for each truth, with the first of the others as that of another row."""
    return [
        Row(
            number,
            {
                "data_source": "sums",
                "prompt": [{"role": "user", "content": f"Question {number}?"}],
                "reward_model": {"ground_truth": truth},
                "extra_info": {"index": number},
            },
            next((other for other in truths if other != truth), ""),
        )
        for number, truth in enumerate(truths)
    ]


def audit(
    folder: Path, code: str, truths: Sequence[str] = NUMBERS, options: AuditOptions | None = None
) -> Audit:
    """The audit of a function with this body."""
    file = folder / "reward.py"
    file.write_text(code if "def compute_score" in code else f"{HEAD}    {code}\n")
    function = RewardFunction(str(file))
    return asyncio.run(run_audit(function, rows(truths), options or AuditOptions()))


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "style", ["{}", "\\boxed{{}}", "#### {}", "<answer>{}</answer>", "The answer is {}"]
)
def test_a_sound_function_passes_however_it_wants_answers(tmp_path: Path, style: str) -> None:
    result = audit(
        tmp_path, f"return float(solution_str == {style!r}.replace('{{}}', ground_truth))"
    )
    assert (result.problems(), result.style) == ([], style)
    assert (result.right.mean, result.full, result.below) == (1, 1, ())


def test_every_hostile_answer_is_tried_and_scored(tmp_path: Path) -> None:
    result = audit(tmp_path, "return float(solution_str == ground_truth)")
    assert [group.answer for group in result.hostile] == [*CONSTANTS, *OF_ROWS]
    assert len(result.hostile) >= 13
    assert all(len(group.scores) == len(NUMBERS) for group in result.hostile)


def test_a_function_that_pays_any_answer_is_caught(tmp_path: Path) -> None:
    """As reasoning-gym's game_of_life_halting does: ``bool("False")`` is true."""
    result = audit(tmp_path, "return float(bool(solution_str))", ["True", "False"] * 20)
    assert result.problems() == [
        "the right answer scores 1, no more than that of another row (1)",
    ]


def test_a_constant_that_pays_more_than_guessing_is_caught(tmp_path: Path) -> None:
    body = "return float(solution_str in (ground_truth, '0'))"
    result = audit(tmp_path, body, ["heads", "tails"] * 20)
    [problem] = result.problems()
    assert problem == (
        "'0' scores 1 (mean of 40 rows), more than 'heads' given to every question: 0.5 (40 rows)"
    )
    assert result.best_constant is not None
    assert (result.best_constant.answer, result.best_constant.mean) == ("'0'", 1)


@pytest.mark.thorough
def test_the_best_constant_answer_of_an_uneven_file_is_shown_but_no_problem(
    tmp_path: Path,
) -> None:
    result = audit(tmp_path, "return float(solution_str == ground_truth)", ["0", "0", "1"] * 20)
    assert result.problems() == []
    assert result.best_constant is not None
    assert result.best_constant.answer == "'0'"
    assert result.best_constant.mean == pytest.approx(2 / 3)


def test_right_answers_without_the_full_score_are_named(tmp_path: Path) -> None:
    result = audit(tmp_path, "return float(solution_str == ground_truth and ground_truth != '7')")
    assert result.problems() == ["1 of 40 right answers score less than 1; row 7, '7': 0"]


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("body", "answer", "says"),
    [
        ("return float(solution_str) == float(ground_truth)", "an empty answer", "ValueError"),
        ("return float(len(solution_str.split()[0]))", "an empty answer", "IndexError"),
        ("import json; return float(bool(json.loads(solution_str)))", "'zzz'", "JSONDecodeError"),
        ("return float(bool(solution_str.encode()))", "control characters", "UnicodeEncodeError"),
        ("return float('nan') if solution_str == 'NaN' else 0.0", "NaN", "returned nan"),
    ],
)
def test_an_answer_that_raises_is_named_and_has_no_score(
    tmp_path: Path, body: str, answer: str, says: str
) -> None:
    result = audit(tmp_path, body)
    [group] = [group for group in result.hostile if group.answer == answer]
    assert not group.scores
    [problem] = [p for p in result.problems() if p.startswith(f"{answer}: no score for 40 of 40;")]
    assert says in problem


HANGS = {
    "in Python": "while solution_str == 'zzz': pass",
    "in C": "import re; solution_str == 'zzz' and re.match('(a+)+b', 'a' * 99)",
    "in a thread": (
        "import threading\n"
        "    if solution_str == 'zzz':\n"
        "        thread = threading.Thread(target=threading.Event().wait)\n"
        "        thread.start(); thread.join()"
    ),
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("hang", HANGS)
def test_an_answer_that_hangs_is_cut_and_has_no_score(tmp_path: Path, hang: str) -> None:
    code = f"{HEAD}    {HANGS[hang]}\n    return float(solution_str == ground_truth)\n"
    result = audit(tmp_path, code, NUMBERS[:6], AuditOptions(limit_s=0.3))
    [group] = [group for group in result.hostile if group.answer == "'zzz'"]
    assert not group.scores
    assert group.failures and all(failure.is_timeout for failure in group.failures)
    assert "gave no score within 0.3 s" in group.failures[0].message
    assert (result.right.mean, len(result.right.scores)) == (1, 6)


@pytest.mark.thorough
def test_a_right_answer_that_hangs_in_another_style_is_named(tmp_path: Path) -> None:
    code = (
        f"{HEAD}    while solution_str.startswith('The answer is'): pass\n"
        "    return float(solution_str == ground_truth)\n"
    )
    result = audit(tmp_path, code, NUMBERS[:6], AuditOptions(limit_s=0.3))
    [problem] = result.problems()
    assert problem.startswith("the right answer as The answer is ANSWER: no score for ")
    assert result.seconds_each[1] == 0.3


@pytest.mark.thorough
def test_a_function_that_always_hangs_is_not_asked_for_ever(tmp_path: Path) -> None:
    result = audit(tmp_path, "import time; time.sleep(99)", NUMBERS, AuditOptions(limit_s=0.1))
    assert not result.is_complete
    assert not any(group.scores for group in result.hostile)


def test_a_slow_function_is_left_to_another_time(tmp_path: Path) -> None:
    result = audit(tmp_path, "import time; time.sleep(0.02)", NUMBERS, AuditOptions(pace_s=0.001))
    assert not result.is_complete


@pytest.mark.thorough
def test_the_budget_is_the_time_of_the_answers_and_not_that_of_the_machine(tmp_path: Path) -> None:
    """The import of the function takes longer than the budget, as everything does under load."""
    code = f"import time\ntime.sleep(0.6)\n{HEAD}    return float(solution_str == ground_truth)\n"
    result = audit(tmp_path, code, NUMBERS, AuditOptions(budget_s=0.5))
    assert result.is_complete
    slow = "import time; time.sleep(0.02)"
    assert not audit(tmp_path, slow, NUMBERS, AuditOptions(budget_s=0.1)).is_complete


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("return 1.0 if solution_str == ground_truth else 0.2 * solution_str.isdigit()",
         "scores 0.2: 20% of the range from 0 to 1"),
        ("return 1.0 if solution_str == ground_truth else -0.5 - 0.5 * (not solution_str)",
         "scores -0.5: 25% of the range from -1 to 1"),
    ],
)  # fmt: skip
def test_a_share_of_the_reward_for_a_wrong_answer_is_noted(
    tmp_path: Path, body: str, says: str
) -> None:
    [note] = audit(tmp_path, body).notes()
    assert note.startswith("a wrong answer of the right form, that of another row,")
    assert note.endswith(says)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "body",
    [
        "return float(solution_str == ground_truth)",
        "return 1.0 if solution_str == ground_truth else -1.0",
        "return 0.0",
    ],
)
def test_a_wrong_answer_that_gets_the_lowest_score_needs_no_note(tmp_path: Path, body: str) -> None:
    assert audit(tmp_path, body).notes() == []


def test_without_a_truth_nothing_is_said_to_pay_too_much(tmp_path: Path) -> None:
    result = audit(tmp_path, "return float('a' in solution_str)", ["", ""])
    assert result.problems() == [] and result.notes() == [NO_TRUTH]


def test_the_answer_for_programs_is_json(tmp_path: Path) -> None:
    value = audit(tmp_path, "return float(solution_str == ground_truth)").to_json()
    assert json.loads(json.dumps(value))["right"]["mean"] == 1


TASK_RECORDS: dict[str, list[dict[str, Any]]] = {
    "questions": [
        *({"question": f"{a} + 1?", "answer": a + 1} for a in range(30)),
        *({"question": f"City {a}?", "answer": f"Town {a}"} for a in range(10)),
        *({"question": f"Root {a}?", "answer": f"\\sqrt{{{a}}}"} for a in range(2, 12)),
        *(
            {"question": f"{a}?", "answer": "ab"[a % 2], "choices": ["a", "b"]}
            for a in range(40, 60)
        ),
    ],
}


@pytest.mark.parametrize("name", TASK_RECORDS)
def test_a_task_passes_its_own_audit(tmp_path: Path, name: str) -> None:
    records = tmp_path / "records.jsonl"
    records.write_text("".join(json.dumps(record) + "\n" for record in TASK_RECORDS[name]))
    options = PrepareOptions(tmp_path / "out", val_share=1e-9)
    prepare_task(find_task(name), [records], [], options)
    function = RewardFunction.of_section({"path": f"task://{name}"})
    assert function is not None
    sample = read_audit_rows(tmp_path / "out" / "train.parquet", 10_000)
    # The first answer imports a library, which takes long on busy cores.
    result = asyncio.run(run_audit(function, sample, AuditOptions(limit_s=300)))
    assert result.problems() == []
    assert len(result.right.scores) == len(sample) == len(TASK_RECORDS[name]) - 1


def test_rows_come_from_all_parts_of_the_file(tmp_path: Path) -> None:
    records = tmp_path / "records.jsonl"
    records.write_text("".join(f'{{"question": "{n}?", "answer": {n}}}\n' for n in range(100)))
    prepare_task(find_task("questions"), [records], [], PrepareOptions(tmp_path / "out"))
    file = tmp_path / "out" / "train.parquet"
    sample = read_audit_rows(file, 10)
    assert 5 <= len(sample) <= 10
    assert [row.number for row in sample][:2] == [0, sample[1].number]
    assert all(read_rows(file)[row.number] == row.values for row in sample)
    assert all(row.other != row.truth for row in sample)


def test_what_is_no_training_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    with pytest.raises(UsageError, match=r"x\.parquet cannot be read"):
        read_audit_rows(tmp_path / "x.parquet", 10)


@pytest.mark.parametrize(
    ("prompt", "style"),
    [
        ("Reply with one line: LABEL: <name>", "LABEL: {}"),
        ("Write date: [YYYY-MM-DD] and nothing else.", "date: {}"),
        ("Name: <name>, city: <city>", None),
        ("Give the answer in \\boxed{} after note: <note>", "\\boxed{{}}"),
    ],
)
def test_a_place_to_fill_in_is_the_form_of_an_answer(prompt: str, style: str | None) -> None:
    assert asked_style(prompt) == style
