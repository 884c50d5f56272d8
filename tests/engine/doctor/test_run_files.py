"""Files of a run that cannot be read are a finding, because they change what is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.doctor.run_files import RunFiles
from engine.run.run import Run
from engine.run.state import RunState
from tests.engine.report.runs import make_run


def ids(run: Run) -> list[str]:
    return [finding.id for finding in RunFiles(run).findings(RunState("failed", step=4))]


@pytest.mark.parametrize("text", ["", '{"config": {"a', "[]", '{"config": 3}'])
def test_a_damaged_config_is_named(tmp_path: Path, text: str) -> None:
    run = make_run(tmp_path)
    run.settings_file.write_text(text)
    assert ids(run) == ["config_error.values_lost"]


def test_a_run_of_a_former_layout_or_without_a_config_has_no_such_finding(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    run.settings_file.unlink(missing_ok=True)
    assert ids(run) == []
