"""How a record becomes a question, and that its right answer gets the full score."""

from __future__ import annotations

from typing import Any

import pytest

from engine.tasks.questions import QUESTIONS, compute_score

CAPITALS = ["Paris", "Rome"]


def example(**record: Any) -> Any:
    return QUESTIONS.read({"question": "Which?", **record})


@pytest.mark.parametrize(
    ("record", "truth", "kind"),
    [
        ({"answer": "40 + 32 = 72\n#### 72"}, "72", "number"),
        ({"answer": 5.0}, "5", "number"),
        ({"answer": 0.25}, "0.25", "number"),
        ({"answer": r"So $\boxed{\sqrt{2}}$."}, r"\sqrt{2}", "latex"),
        ({"answer": "Rome"}, "Rome", "text"),
        ({"answer": "1.0", "kind": "text"}, "1.0", "text"),
        ({"answer": "Rome", "choices": CAPITALS}, "B", "choice"),
        ({"answer": 0, "choices": CAPITALS}, "A", "choice"),
        ({"answer": "B", "choices": {"A": "Paris", "B": "Rome"}}, "B", "choice"),
        ({"answer": "(b)".upper(), "choices": {"text": CAPITALS}}, "B", "choice"),
    ],
)
def test_the_truth_and_its_kind(record: dict[str, Any], truth: str, kind: str) -> None:
    read = example(**record)
    assert (read.truth, read.extra) == (truth, {"kind": kind})
    response = QUESTIONS.right_answer(read.truth, read.extra)
    assert compute_score("questions", response, read.truth, read.extra)["score"] == 1


def test_the_prompt_lists_the_choices_and_asks_for_a_letter() -> None:
    [message] = example(answer="Rome", choices=CAPITALS).prompt
    assert message["content"] == (
        "Which?\nA) Paris\nB) Rome\n\nAnswer with the letter of the right choice in \\boxed{}."
    )
