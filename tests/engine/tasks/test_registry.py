"""Tasks by name: the built-in ones, and those of installed packages."""

from __future__ import annotations

import asyncio
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import UsageError
from engine.data.contract import read_rows
from engine.data.prepare_task import PrepareOptions, prepare_task
from engine.reward.own.function import RewardFunction
from engine.reward.own.processes import RewardProcesses, source_of
from engine.tasks.registry import find_task, fitting_tasks, tasks
from tests.plugins import InstallPlugin
from tests.reward_arguments import as_arguments

CODE = """
from engine.tasks.task import Column, Example, Task

def read(values):
    text = values["word"]
    return Example(({"role": "user", "content": f"Reverse {text}"},), text[::-1])

def score(solution_str, ground_truth, **_):
    return float(solution_str == ground_truth)

REVERSED = Task(
    name="reversed",
    summary="words to reverse",
    scorer="reversed_words:score",
    columns={"word": Column(("word",))},
    read=read,
    right_answer=lambda truth, _: truth,
)
"""
ENTRY = "[grubrics.tasks]\nours = reversed_words:REVERSED\n"


def test_every_task_has_a_scorer_that_can_be_called() -> None:
    for name, task in tasks().items():
        function = RewardFunction.of_section({"path": f"task://{name}"})
        assert function is not None
        assert callable(getattr(import_module(task.module), task.function))
        assert (task.name, function.label) == (name, f"task {name}")


def test_an_unknown_task_is_named_with_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"'question'.*'questions'"):
        find_task("question")


def test_a_task_of_a_package_prepares_and_scores(
    install_plugin: InstallPlugin, tmp_path: Path
) -> None:
    install_plugin("reversed_words", CODE, ENTRY)
    (tmp_path / "words.csv").write_text("word\nabc\nxyz\n")
    data = [tmp_path / "words.csv"]
    prepare_task(find_task("reversed"), data, [], PrepareOptions(tmp_path / "out"))
    [row] = read_rows(tmp_path / "out" / "train.parquet")
    truth = row["reward_model"]["ground_truth"]
    assert truth in ("cba", "zyx")
    function = RewardFunction.of_section({"path": "task://reversed"})
    assert function is not None

    async def score() -> Any:
        processes = RewardProcesses(source_of(function), 20.0, quiet=True)
        try:
            return await processes.score(**as_arguments(truth, "reversed", truth, {}))
        finally:
            processes.end()

    assert asyncio.run(score()) == 1.0


def test_a_package_cannot_replace_a_built_in_task(install_plugin: InstallPlugin) -> None:
    install_plugin("reversed_words", CODE.replace('name="reversed"', 'name="questions"'), ENTRY)
    assert find_task("questions").module == "engine.tasks.questions"


@pytest.mark.parametrize(
    ("record", "fits"),
    [
        ({"question": "2 + 3?", "answer": 5}, ["questions", "json", "workflows"]),
        ({"query": "Rain?", "tools": [{"name": "f"}], "answers": [{"name": "f"}]}, ["tool_calls"]),
        ({"text": "2 + 3?"}, []),
    ],
)
def test_the_tasks_that_can_read_a_record_fit_it(record: dict[str, Any], fits: list[str]) -> None:
    assert fitting_tasks(record) == fits
