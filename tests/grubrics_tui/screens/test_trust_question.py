"""Keys on a run that somebody else may have written ask first, and show what it holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.run.events import pending_stop
from engine.run.trust import objection
from grubrics_tui.settings.settings import Loaded, Settings
from tests.grubrics_tui.pilots import running
from tests.grubrics_tui.sample_run import SampleRun
from tests.manifests import change_manifest


async def test_a_run_that_others_may_write_is_stopped_only_when_trusted(
    run: SampleRun, runs: Path
) -> None:
    run.run.path.chmod(0o777)
    async with running(runs) as driver:
        await driver.press("r", "s")
        await driver.shows("Trust run '", "writable by everybody", "command")
        await driver.press("n", "s")
        await driver.shows("Trust run '")
        assert pending_stop(run.run) is None
        await driver.press("y")
        await driver.shows("Stop ")
        await driver.press("y")
        await driver.until(lambda: pending_stop(run.run) is not None, "the request")


@pytest.mark.sample(1)
@pytest.mark.parametrize("key", ["u", "d", "n"])
async def test_other_keys_ask_too(runs: Path, key: str) -> None:
    sample = SampleRun.create(runs, "old")
    sample.grow(3)
    sample.say("failed", reason="exit code 1")
    sample.run.path.chmod(0o777)
    async with running(runs) as driver:
        await driver.press("r", key)
        await driver.shows("Trust run '")


async def test_a_run_from_elsewhere_is_resumed_only_when_trusted(runs: Path) -> None:
    sample = SampleRun.create(runs, "old")
    sample.say("failed", reason="exit code 1")
    (sample.run.path / "launch_proof.json").unlink(missing_ok=True)
    attempt = {"number": 1, "argv": ["/bin/sh", "-c", "id"]}
    change_manifest(sample.run, attempts=[attempt], cwd="/")
    async with running(runs) as driver:
        await driver.press("r", "R")
        await driver.shows("Trust run '")
        await driver.press("n", "u")
        await driver.shows("Trust run '", "you did not launch it here", "/bin/sh -c id")
        await driver.press("y")
        await driver.shows("Resume ")


async def test_a_read_only_screen_does_not_ask_and_trusts_nobody(runs: Path) -> None:
    sample = SampleRun.create(runs, "old")
    sample.say("failed", reason="exit code 1")
    sample.run.path.chmod(0o777)
    async with running(runs, loaded=Loaded(Settings(read_only=True), {})) as driver:
        await driver.press("r", "n")
        await driver.shows("the run is not trusted")
        await driver.press("y")
    assert objection(sample.run) is not None
