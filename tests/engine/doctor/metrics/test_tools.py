"""Does the model call its tools, can the calls be read, and do the tools reply?"""

from __future__ import annotations

import pytest

from engine.doctor.metrics import RuleContext, metric_findings
from tests.engine.doctor.metrics.curves import columns

READ = [0.02] * 5


def found(**curves: list[float]) -> list[tuple[str, int | None]]:
    named = {f"tools/{name}": values for name, values in curves.items()}
    findings = metric_findings(columns(named), RuleContext({}))
    assert all(finding.severity == "warning" for finding in findings)
    return [(finding.id, finding.onset_step) for finding in findings]


def test_a_policy_that_loses_the_form_of_its_calls_is_named_from_that_step_on() -> None:
    malformed = [0.15, 0.14, 0.75, 1.0, 1.0, 1.0, 1.0]
    assert found(malformed=malformed) == [("tool_calls.malformed", 3)]


def test_tools_that_fail_or_time_out_are_named_together() -> None:
    failed, timed_out = [0.0, 0.3, 0.3, 0.3, 0.3, 0.3], [0.0, 0.3, 0.3, 0.3, 0.3, 0.3]
    assert found(failed=failed, timed_out=timed_out) == [("tool_calls.failing", 2)]


def test_a_model_that_never_calls_is_named() -> None:
    assert found(calls=[0.0] * 5) == [("tool_calls.none", 1)]


@pytest.mark.parametrize(
    "curves",
    [
        {"malformed": [0.9, 0.8, 0.7, 0.65, 0.6, 0.55]},  # it learns the form
        {"malformed": [0.1, 0.6, 0.1, 0.6, 0.1, 0.6]},
        {"malformed": [*READ, 0.6, 0.6]},
        {"failed": [0.1] * 8, "timed_out": [0.1] * 8},
        {"calls": [0.0, 0.0, 0.1, 0.2, 0.4, 0.8]},
        {"calls": [1.2] * 6, "malformed": [0.02] * 6},
    ],
)
def test_what_is_usual_or_passes_is_not_named(curves: dict[str, list[float]]) -> None:
    assert found(**curves) == []
