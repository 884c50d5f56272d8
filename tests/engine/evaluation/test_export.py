"""An export that cannot be is refused before anything is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.base.errors import UsageError
from engine.evaluation.export import export
from engine.evaluation.targets import Target


def test_a_folder_that_exists_is_refused(tmp_path: Path) -> None:
    target = Target("run:1", "checkpoint", str(tmp_path), "0")
    with pytest.raises(UsageError, match="exists; name a folder that does not"):
        export(target, tmp_path, None, {})


def test_an_unknown_data_type_is_refused(tmp_path: Path) -> None:
    target = Target("run:1", "checkpoint", str(tmp_path), "0")
    with pytest.raises(UsageError, match="must be one of float32, bfloat16, float16"):
        export(target, tmp_path / "model", "float8", {})
    assert not (tmp_path / "model").exists()
