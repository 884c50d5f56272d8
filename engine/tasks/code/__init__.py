"""Answers that are Python programs, scored by the tests that they pass."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from typing import Any

from engine.tasks.code.sandbox import find_gaps, format_walls
from engine.tasks.task import Column, Example, RecordError, Task, Values, text_of

_MOST_TESTS = 50
_INSTRUCTION = "Answer with a Python program in a ```python block."


def _read(values: Values) -> Example:
    question, solution = (
        text_of(values.get(name), name).rstrip() for name in ("question", "solution")
    )
    entry, setup = values.get("entry_point"), values.get("setup")
    lines = setup if isinstance(setup, list) else [setup or ""]
    before = "".join(f"{line}\n" for line in lines if line)
    tests = _tests(values.get("tests"), entry, before)
    if not 1 <= len(tests) <= _MOST_TESTS:
        raise RecordError(f"{len(tests)} tests; a program has 1 to {_MOST_TESTS}")
    if entry and f"def {entry}" not in solution:
        solution = question + "\n" + solution  # The body of a function whose head is the question.
    hints = []
    if not entry and "code" in tests[0]:
        hints = [f"It must pass: {tests[0]['code'].rstrip().splitlines()[-1]}"]
    content = "\n".join([question, "", *hints, _INSTRUCTION])
    return Example(({"role": "user", "content": content},), solution, {"tests": json.dumps(tests)})


def _tests(value: Any, entry: Any, before: str) -> list[dict[str, str]]:
    """Tests as lists of assertions, as code with assertions or a function ``check``, or as inputs
    with their outputs; also as the text of such JSON."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return _tests_of_code(value, entry, before)
    if isinstance(value, Mapping):
        pairs = zip(value.get("inputs") or (), value.get("outputs") or (), strict=False)
        value = [{"input": given, "output": output} for given, output in pairs]
    if not isinstance(value, list):
        raise RecordError("the tests are neither code nor a list")
    return [_test(item, before) for item in value]


def _test(item: Any, before: str) -> dict[str, str]:
    if isinstance(item, str):
        return {"code": before + item}
    if not isinstance(item, Mapping) or "output" not in item:
        raise RecordError("a test is neither code nor an input with its output")
    given, output = item.get("input") or "", item["output"]
    if not isinstance(given, str) or not isinstance(output, str):
        raise RecordError("the input and output of a test must be text")
    return {"input": given, "output": output}


def _tests_of_code(code: str, entry: Any, before: str) -> list[dict[str, str]]:
    """A test for each assertion at top level, after the statements before the first one; one test
    for ``check(candidate)``."""
    try:
        body = ast.parse(code).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise RecordError(f"the tests are not Python: {error}") from error
    if any(isinstance(node, ast.FunctionDef) and node.name == "check" for node in body):
        if not isinstance(entry, str) or not entry.isidentifier():
            raise RecordError("the tests have a function check, but there is no entry_point")
        return [{"code": f"{before}{code}\ncheck({entry})"}]
    first = next((i for i, node in enumerate(body) if isinstance(node, ast.Assert)), len(body))
    before += "".join(f"{ast.unparse(node)}\n" for node in body[:first])
    return [{"code": before + ast.unparse(node)} for node in body[first:]]


CODE = Task(
    name="code",
    summary="Python programs, run against tests in a sandbox",
    scorer="engine.tasks.code.score:compute_score",
    columns={
        "question": Column(("question", "prompt", "text", "problem", "description")),
        "solution": Column(("solution", "canonical_solution", "code", "answer", "ground_truth")),
        "tests": Column(("tests", "test_list", "test", "input_output")),
        "entry_point": Column(("entry_point",), is_required=False),
        "setup": Column(("test_setup_code", "test_imports", "setup"), is_required=False),
    },
    read=_read,
    extra=("tests",),
    right_answer=lambda truth, _: f"```python\n{truth}\n```",
    find_limit=lambda _: "; ".join(find_gaps()) or None,
    format_machine=format_walls,
    is_rate=lambda arguments: not arguments.get("partial_credit"),
)
