"""The list of everything that depends on verl's inside."""

from __future__ import annotations

import re
import time

import pytest

from engine.train import patches
from tests.paths import ROOT


def test_the_installed_verl_fits_the_patches() -> None:
    import engine.train.plugin  # noqa: F401  (registers what is checked)

    assert patches.verify() == []


def test_another_verl_version_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patches, "VERL_VERSION", "0.8.0")
    assert "verl version: verl 0.9.1 is installed, not 0.8.0" in patches.verify()


def test_a_changed_signature_and_a_missing_text_are_named() -> None:
    place = "engine.train.setup_worker:read_context"
    moved = patches.Deviation("a", "patch", "", "", takes={place: ["config"]})
    assert moved.complaint() == f"{place} takes ['arguments'], expected ['config']"
    moved = patches.Deviation("a", "patch", "", "", contains={place: ["json.loads(", "yaml"]})
    assert moved.complaint() == f"{place} has no 'yaml' any more"


def test_no_other_module_of_the_engine_reads_a_private_name_of_verl_or_torch() -> None:
    private = re.compile(r"\b(verl|base|dist|fsdp|torch|ray)(\.\w+)*\._[a-zA-Z]")
    offenders = [
        f"{path.name}: {line.strip()}"
        for path in (ROOT / "engine").rglob("*.py")
        if path.name != "patches.py"
        for line in path.read_text(encoding="utf-8").splitlines()
        if private.search(line)
    ]
    assert offenders == []


def test_every_deviation_is_documented() -> None:
    document = (ROOT / "docs" / "verl.md").read_text(encoding="utf-8")
    assert [d.name for d in patches.deviations() if d.name not in document] == []


def test_a_node_that_starts_late_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    from ray._private import services
    from ray._private.parameter import RayParams

    failures = [RuntimeError("not yet"), RuntimeError("not yet")]

    def get_node(gcs_address: str, node_id: str) -> dict[str, str]:
        if failures:
            raise failures.pop()
        return {"node_id": node_id}

    monkeypatch.setattr(services, "get_node", get_node)
    monkeypatch.setattr(RayParams, "__init__", RayParams.__init__)
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    patches.apply_to_private_ray()
    assert services.get_node("127.0.0.1:1", "a") == {"node_id": "a"}


def test_a_node_that_never_starts_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    from ray._private import services
    from ray._private.parameter import RayParams

    def get_node(gcs_address: str, node_id: str) -> dict[str, str]:
        raise RuntimeError("not yet")

    monkeypatch.setattr(services, "get_node", get_node)
    monkeypatch.setattr(RayParams, "__init__", RayParams.__init__)
    monkeypatch.setattr(patches, "NODE_START_S", 0.0)
    patches.apply_to_private_ray()
    with pytest.raises(RuntimeError, match="not yet"):
        services.get_node("127.0.0.1:1", "a")
