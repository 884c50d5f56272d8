"""What the rubric writer reads."""

from __future__ import annotations

import pytest

from engine.tasks.rubrics import (
    HIGH_LABEL,
    LOW_LABEL,
    Excerpts,
    contrastive_enabled,
    contrastive_excerpts,
    rubric_messages,
)


def test_blocks_come_in_order() -> None:
    user = rubric_messages("Why?", "A chat.", Excerpts("good", "bad"))[1]["content"]
    marks = ["CONTEXT:", HIGH_LABEL, LOW_LABEL, "QUESTION:\nWhy?", "YOUR RUBRIC:"]
    positions = [user.index(mark) for mark in marks]
    assert positions == sorted(positions)


def test_only_question_and_closing_line_are_required() -> None:
    assert rubric_messages("Why?")[1]["content"] == "QUESTION:\nWhy?\n\nYOUR RUBRIC:"


def test_the_system_message_gives_the_line_format() -> None:
    message = rubric_messages("Why?")[0]
    assert message["role"] == "system"
    assert "Points: <number>, Item: <text>" in message["content"]


def test_excerpts_are_the_first_best_and_the_first_worst_answer() -> None:
    answers = ["worst", "best", "also best", "also worst"]
    assert contrastive_excerpts(answers, [0.0, 1.0, 1.0, 0.0]) == Excerpts("best", "worst")


def test_excerpts_are_cut_at_500_characters() -> None:
    excerpts = contrastive_excerpts(["a" * 900, "b"], [1.0, 0.0])
    assert excerpts is not None and len(excerpts.high) == 500


@pytest.mark.parametrize("gold", [[0.5, 0.5], [0.5], []])
def test_no_excerpts_without_a_difference(gold: list[float]) -> None:
    assert contrastive_excerpts(["a", "b"], gold) is None


@pytest.mark.parametrize(("value", "on"), [(None, True), ("1", True), ("0", False), ("yes", False)])
def test_use_contrastive_is_on_only_for_1(value: str | None, on: bool) -> None:
    env = {} if value is None else {"USE_CONTRASTIVE": value}
    assert contrastive_enabled(env) is on
