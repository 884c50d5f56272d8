"""A rule that forgets a value of its finding's texts fails its tests; a user would see a hole."""

from __future__ import annotations

import pytest

from engine.run import finding_kind


@pytest.fixture(autouse=True)
def _no_holes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(finding_kind._Values, "__missing__")
