"""What is said of runs that are of different kinds."""

from __future__ import annotations

import pytest

from engine.report.differences import different_kinds, format_kinds, shared_metrics
from engine.run.manifest import FullManifest


@pytest.mark.parametrize(
    ("kinds", "found"),
    [
        (["grpo", "grpo"], ()),
        (["sft", "grpo", "sft"], ("sft", "grpo")),
        (["grpo", None], ()),
    ],
)
def test_kinds_are_listed_only_if_they_differ(
    kinds: list[str | None], found: tuple[str, ...]
) -> None:
    assert different_kinds([FullManifest(kind=kind) for kind in kinds]) == found


def test_shared_metrics_are_those_that_every_run_has() -> None:
    assert shared_metrics([["b", "a", "c"], ["c", "d", "b"]]) == ("b", "c")


@pytest.mark.parametrize(
    ("shared", "said"),
    [
        ([], "no metric"),
        (["perf/mfu"], "perf/mfu"),
        (["a", "b", "c", "d", "e"], "a, b, c and 2 more"),
    ],
)
def test_one_line_lists_what_runs_of_different_kinds_share(shared: list[str], said: str) -> None:
    line = format_kinds(("grpo", "sft"), shared)
    assert line == f"different kinds (grpo, sft): apart from steps and times, they share {said}"


def test_runs_of_one_kind_need_no_line() -> None:
    assert format_kinds((), ["a"]) == ""
