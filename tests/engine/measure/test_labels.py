"""Judges against labels: what a file may hold, and what is counted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import UsageError
from engine.measure.labels import judge_labels, labels_folder, read_labels
from engine.reward.judge.settings import JudgeSettings
from tests.e2e.moody_judge import Call, honest, moody_judge, refusal
from tests.engine.reward.judge.server import Reply

OFFLINE = JudgeSettings()
ENV = {"OPENAI_API_KEY": "sk-test-0123456789abcdef"}
TO_10 = "Points: 6, Item: Names glucose\nPoints: 4, Item: Names insulin"
HEALTHBENCH = [
    {"points": 7, "criterion": "Names glucose", "tags": ["level:example"]},
    {"points": -5, "criterion": "Recommends cinnamon"},
]


def row(answer: str = "Glucose and insulin", **changes: Any) -> dict[str, Any]:
    base = {"question": "Diabetes?", "answer": answer, "rubric": TO_10, "label": True}
    return {**base, **changes}


def write(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    path.write_text("\n".join(json.dumps(each) for each in rows))
    return path


def test_accuracy_kappa_and_table_compare_decisions_with_labels(tmp_path: Path) -> None:
    rows = [
        row("Glucose and insulin 1", label=True),
        row("Glucose and insulin 2", label=True),
        row("Glucose and insulin 3", label=False),
        row("Weather 1", label=False),
        row("Weather 2", label=True),
    ]
    labels = read_labels(write(tmp_path / "labels.jsonl", rows))
    agreement = judge_labels(labels, tmp_path / "e" / "judge", OFFLINE, {})
    assert agreement.accuracy is not None
    assert agreement.accuracy.mean == 0.6
    assert dict(agreement.table) == {
        (True, True): 2,
        (False, True): 1,
        (False, False): 1,
        (True, False): 1,
    }
    assert agreement.kappa is not None
    assert agreement.kappa.mean == pytest.approx(1 / 6)


def test_a_rubric_in_the_dialect_of_healthbench_is_scored_with_its_faults(tmp_path: Path) -> None:
    rows = [
        row("Glucose", rubric=HEALTHBENCH, label=True),
        row("Glucose, and cinnamon", rubric=HEALTHBENCH, label=False),
    ]
    labels = read_labels(write(tmp_path / "labels.jsonl", rows))
    assert labels[0].rubric.splitlines()[1] == "Points: -5, Item: Recommends cinnamon"
    agreement = judge_labels(labels, tmp_path / "judge", OFFLINE, {})
    assert agreement.accuracy is not None
    assert agreement.accuracy.mean == 1.0


@pytest.mark.parametrize(
    ("label", "expected"),
    [(1, True), (0, False), ([True, True, False], True), ([1, 0], False), ([False], False)],
)
def test_a_label_is_a_decision_or_the_majority_of_votes(
    tmp_path: Path, label: object, expected: bool
) -> None:
    [labeled] = read_labels(write(tmp_path / "labels.jsonl", [row(label=label)]))
    assert labeled.label is expected


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        ({"label": 2}, "'label' is neither true, false"),
        ({"label": "yes"}, "'label' is neither"),
        ({"label": []}, "'label' is neither"),
        ({"answer": None}, "'answer' is not a text"),
        ({"question": " "}, "'question' is not a text"),
        ({"rubric": "Mentions glucose"}, "'rubric' has no line 'Points: N, Item: TEXT'"),
        ({"rubric": "Points: -2, Item: Recommends cinnamon"}, "'rubric' has no positive points"),
        ({"rubric": [{"points": "7", "criterion": "a"}]}, "'rubric' is neither text nor a list"),
        ({"rubric": {"a": 1}}, "'rubric' is neither text nor a list"),
    ],
)
def test_a_bad_row_is_refused_by_line_and_key(
    tmp_path: Path, bad: dict[str, Any], problem: str
) -> None:
    path = write(tmp_path / "labels.jsonl", [row(), {**row("b"), **bad}])
    with pytest.raises(UsageError, match=rf"labels\.jsonl:2: {problem}"):
        read_labels(path)


def test_a_missing_key_is_named_with_the_one_that_is_spelled_like_it(tmp_path: Path) -> None:
    misspelled = {("labels" if key == "label" else key): value for key, value in row().items()}
    with pytest.raises(UsageError, match="'label' is missing; rename 'labels' to 'label'"):
        read_labels(write(tmp_path / "labels.jsonl", [misspelled]))


def test_a_row_that_repeats_another_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"labels\.jsonl:2: repeats .* of line 1"):
        read_labels(write(tmp_path / "labels.jsonl", [row(), row(label=False)]))


def refusing_b(call: Call) -> Reply:
    text = call.request["messages"][-1]["content"]
    return refusal(400, "content_filter") if "answer-b" in text else honest(call)


def test_started_again_it_repeats_no_call_that_was_answered(tmp_path: Path) -> None:
    rows = [row("Glucose and insulin"), row("answer-b"), row("Weather", label=False)]
    path = write(tmp_path / "labels.jsonl", rows)
    with moody_judge(refusing_b) as server:
        settings = JudgeSettings(provider="openai", base_url=f"{server.url}/v1")
        folder = labels_folder(tmp_path, path, settings)
        first = judge_labels(read_labels(path), folder, settings, ENV)
        assert (first.unscored, first.calls) == (1, 3)
        assert "content_filter" in (first.why_unscored or "")
        second = judge_labels(read_labels(path), folder, settings, ENV)
        assert (second.unscored, second.calls) == (1, 4)
        server.mood = honest
        third = judge_labels(read_labels(path), folder, settings, ENV)
        assert (third.unscored, len(server.requests)) == (0, 5)
        write(path, [*rows[:2], {**rows[2], "label": True}])
        corrected = judge_labels(read_labels(path), folder, settings, ENV)
        assert len(server.requests) == 5
    assert corrected.table[True, False] == third.table[True, False] + 1


def test_another_model_has_its_own_verdicts(tmp_path: Path) -> None:
    one, two = (JudgeSettings(model=name) for name in ("a", "b"))
    path = tmp_path / "labels.jsonl"
    assert labels_folder(tmp_path, path, one) != labels_folder(tmp_path, path, two)
