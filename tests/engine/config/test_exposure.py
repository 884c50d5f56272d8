"""A config that opens a run to other hosts has to say so."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.base.errors import UsageError
from engine.config.exposure import exposure_complaint, require_private
from engine.config.load import Config, load_config
from tests.paths import CONFIGS

CONFIG = str(CONFIGS / "grpo_tiny.yaml")


def load(*overrides: str) -> Config:
    return load_config(CONFIG, overrides, {})


@pytest.mark.parametrize(
    "override",
    [
        "ray_kwargs.ray_init.dashboard_host=0.0.0.0",
        "ray_kwargs.ray_init.runtime_env.py_executable=python3.12",
        "ray_kwargs.ray_init._node_ip_address=10.0.0.1",
        "ray_kwargs.ray_init.runtime_env.env_vars.GLOO_SOCKET_IFNAME=eth0",
        "transfer_queue.backend.storage_backend=MooncakeStore",
        "transfer_queue.metrics.enabled=true",
    ],
)
def test_a_value_that_opens_the_run_is_refused_unless_that_is_meant(override: str) -> None:
    with pytest.raises(UsageError, match=r"set grubrics\.exposed=true to allow it") as caught:
        require_private(load(override))
    assert override in str(caught.value)
    assert exposure_complaint(load(override, "grubrics.exposed=true")) is None


@pytest.mark.parametrize("config", sorted(Path(CONFIG).parent.glob("*.yaml")), ids=lambda p: p.stem)
def test_no_shipped_config_opens_a_run(config: Path) -> None:
    if "kind: grpo" in config.read_text():
        assert exposure_complaint(load_config(str(config), (), {})) is None


def test_loopback_addresses_open_nothing() -> None:
    assert exposure_complaint(load("ray_kwargs.ray_init.dashboard_host=127.0.0.1")) is None
