"""Which tests run the commands of the guide to evaluations and ablations."""

from __future__ import annotations

from tests.e2e.guide import guide_commands
from tests.e2e.test_ablate import COMPARING
from tests.e2e.test_training import MEASURING

SUMMARIZING = ("summarize",)
"""Run in tests/grubrics_tui/commands/test_summarize.py: it needs no training."""


def test_every_command_of_the_guide_is_run_by_a_test() -> None:
    names = [command[0] for command in guide_commands()]
    assert {*names} == {*MEASURING, *COMPARING, *SUMMARIZING}
    assert len(names) >= 8
