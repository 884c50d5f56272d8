"""Score a program by the tests that it passes, under the contract of verl's ``compute_score``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from engine.tasks.code.sandbox import Limits, run_tests
from engine.tasks.rubrics import without_thoughts

_FENCED = re.compile(r"```[ \t]*(\w*)[^\n`]*\n(.*?)(?:```|\Z)", re.DOTALL)
_LANGUAGES = ("", "python", "py", "python3")
_LONGEST = 50_000


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: str,
    extra_info: Mapping[str, Any] | None = None,
    *,
    partial_credit: float = 0.0,
    test_s: float = Limits.test_s,
    total_s: float = Limits.total_s,
    memory_mb: int = Limits.memory_bytes >> 20,
) -> dict[str, float]:
    """1 if the program passes all tests of the row; otherwise ``partial_credit`` times ``passed``.

    Beside the score: ``passed``, ``errors`` and ``timeouts``, shares of the tests, and ``fenced``,
    whether the program stands in a fenced block. Limits are seconds per test, seconds for all, and
    MiB. SandboxError, which is no score, if the sandbox fails.
    """
    tests = json.loads((extra_info or {})["tests"])
    program, is_fenced = find_program(without_thoughts(solution_str))
    if not program.strip() or len(program) > _LONGEST:
        return {"score": 0.0, "passed": 0.0, "errors": 0.0, "timeouts": 0.0, "fenced": is_fenced}
    outcomes = run_tests(program, tests, Limits(test_s, total_s, memory_mb << 20)).tests
    passed = outcomes.count("passed") / len(tests)
    return {
        "score": 1.0 if passed == 1 else partial_credit * passed,
        "passed": passed,
        "errors": sum("error" in outcome for outcome in outcomes) / len(tests),
        "timeouts": sum(outcome in ("timeout", "not run") for outcome in outcomes) / len(tests),
        "fenced": is_fenced,
    }


def find_program(response: str) -> tuple[str, float]:
    """The last fenced block of Python, and 1; without one, the whole response, and 0."""
    blocks = [
        text for language, text in _FENCED.findall(response) if language.lower() in _LANGUAGES
    ]
    return (blocks[-1], 1.0) if blocks else (response, 0.0)
