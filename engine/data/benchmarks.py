"""Benchmarks: published data sets, and the task that scores the answers to each.

A benchmark is read from its data set on the hub, or from a file with the same columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from engine.base.errors import UsageError, unknown_name, with_advice
from engine.data.hub_source import HubSource
from engine.tasks.code import CODE
from engine.tasks.questions import QUESTIONS
from engine.tasks.reading import READING
from engine.tasks.task import Column, Example, RecordError, Task, Values


@dataclass(frozen=True)
class Benchmark:
    """``hub``: the data set, with the split that is usual for evaluation. ``task`` scores the
    answers, and has the columns of the data set that are read."""

    name: str
    hub: HubSource
    task: Task

    @property
    def source(self) -> str:
        return self.hub.repo

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.task.columns)

    def match_columns(self, given: Iterable[str]) -> dict[str, str]:
        """The columns under their own names. UsageError for a file of another schema, with the
        first column that it lacks and the benchmark that it looks like."""
        names = list(given)
        missing = next((column for column in self.columns if column not in names), None)
        alike = find_alike(names)
        if missing is not None:
            problem = f"no column '{missing}', which {self.source} has"
            problem += f" (it has {', '.join(names) or 'none'})"
            advice = "For records of your own: prepare --task TASK"
        elif alike is not None and len(alike.columns) > len(self.columns):
            problem = f"more columns than {self.source} has"
        else:
            return {column: column for column in self.columns}
        if alike is not None:
            advice = f"It looks like {alike.name}: --benchmark {alike.name}"
        raise UsageError(with_advice(problem, advice))


def find_alike(names: Iterable[str]) -> Benchmark | None:
    """The benchmark whose columns are all among ``names``; of several the one with the most."""
    given = set(names)
    fitting = [each for each in BENCHMARKS.values() if given.issuperset(each.columns)]
    return max(fitting, key=lambda each: len(each.columns), default=None)


def find_benchmark(name: str) -> Benchmark:
    """The benchmark of a name. UsageError for an unknown one, with the nearest."""
    if name not in BENCHMARKS:
        raise unknown_name("benchmark", name, BENCHMARKS)
    return BENCHMARKS[name]


def _read_gsm8k(values: Values) -> Example:
    """The answer is a worked solution that ends with a line such as ``#### 7``."""
    example = QUESTIONS.read(values)
    if "####" not in values["answer"] or example.extra["kind"] != "number":
        raise RecordError("the answer has no number after ####")
    return example


def _read_math(values: Values) -> Example:
    """The last box of the solution has the result; ``\\fbox`` is an older spelling of the box."""
    solution = str(values["solution"]).replace("\\fbox", "\\boxed")
    if "\\boxed" not in solution:
        raise RecordError("the solution has no \\boxed{}")
    return QUESTIONS.read({"question": values["problem"], "answer": solution, "kind": "latex"})


def _read_squad(values: Values) -> Example:
    return replace(READING.read(values), id=_id(values["id"]))


def _read_hotpotqa(values: Values) -> Example:
    context = _paragraphs(values["context"])
    question = {"question": values["question"], "answers": values["answer"], "context": context}
    return replace(READING.read(question), id=_id(values["id"]))


def _paragraphs(context: Any) -> list[str]:
    match context:
        case {"title": list(titles), "sentences": list(texts)} if len(titles) == len(texts):
            pairs = zip(titles, texts, strict=True)
            return [f"{title}: {''.join(map(str, text)).strip()}" for title, text in pairs]
    raise RecordError("the context has no list of titles with as many lists of sentences")


def _read_humaneval(values: Values) -> Example:
    record = {
        "question": values["prompt"],
        "solution": values["canonical_solution"],
        "tests": values["test"],
        "entry_point": values["entry_point"],
    }
    return replace(CODE.read(record), id=_id(values["task_id"]))


def _read_mbpp(values: Values) -> Example:
    record = {
        "question": values["text"],
        "solution": values["code"],
        "tests": values["test_list"],
        "setup": values["test_setup_code"],
    }
    return replace(CODE.read(record), id=_id(values["task_id"]))


def _id(value: Any) -> str:
    if not isinstance(value, str | int) or value == "":
        raise RecordError("the ID is neither text nor a whole number")
    return str(value)


def _declare(
    name: str, hub: HubSource, task: Task, read: Callable[[Values], Example], columns: str
) -> Benchmark:
    published = {column: Column((column,)) for column in columns.split()}
    return Benchmark(name, hub, replace(task, columns=published, read=read))


_GSM8K = HubSource("openai/gsm8k", "test", "main")
_MATH = HubSource("qwedsacf/competition_math", "train")
_SQUAD = HubSource("rajpurkar/squad_v2", "validation")
_HOTPOTQA = HubSource("hotpotqa/hotpot_qa", "validation", "distractor")
_HUMANEVAL = HubSource("openai/openai_humaneval", "test")
_MBPP = HubSource("google-research-datasets/mbpp", "test", "full")
_TESTED = "task_id prompt canonical_solution test entry_point"
_DECLARED = (
    _declare("gsm8k", _GSM8K, QUESTIONS, _read_gsm8k, "question answer"),
    _declare("math", _MATH, QUESTIONS, _read_math, "problem solution"),
    _declare("squad_v2", _SQUAD, READING, _read_squad, "id context question answers"),
    _declare("hotpotqa", _HOTPOTQA, READING, _read_hotpotqa, "id question answer context"),
    _declare("humaneval", _HUMANEVAL, CODE, _read_humaneval, _TESTED),
    _declare("mbpp", _MBPP, CODE, _read_mbpp, "task_id text code test_list test_setup_code"),
)
BENCHMARKS: Mapping[str, Benchmark] = {benchmark.name: benchmark for benchmark in _DECLARED}
