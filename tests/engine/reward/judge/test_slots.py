"""The limit on calls in flight holds for all processes together and survives a crash."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from engine.reward.judge.slots import SharedSlots
from tests.engine.reward.judge.server import Reply, judge_server

WORKER = textwrap.dedent(
    """
    import asyncio, sys
    from pathlib import Path
    from engine.reward.judge.settings import make_judge
    from engine.reward.judge.settings import JudgeSettings

    async def main(url, slots):
        settings = JudgeSettings(provider="openai", base_url=url, max_concurrent=10)
        judge = make_judge(settings, Path(slots), {})
        one = judge.evaluate_answers_batched
        results = await asyncio.gather(*(one("?", ["a", "b"], "r") for _ in range(6)))
        assert all(result.scores == (0.9, 0.1) for result in results)

    asyncio.run(main(*sys.argv[1:]))
    """
)
HOLDER = textwrap.dedent(
    """
    import asyncio, sys
    from pathlib import Path
    from engine.reward.judge.slots import SharedSlots

    async def main():
        async with SharedSlots(Path(sys.argv[1]), 1).held():
            print("held", flush=True)
            await asyncio.sleep(600)

    asyncio.run(main())
    """
)


def start(code: str, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.long
@pytest.mark.parametrize("processes", [3, pytest.param(8, marks=pytest.mark.thorough)])
def test_processes_together_never_pass_the_limit(processes: int, tmp_path: Path) -> None:
    with judge_server(every=Reply(delay_s=0.03, crowd=10)) as server:
        workers = [
            start(WORKER, f"{server.url}/v1", str(tmp_path / "slots")) for _ in range(processes)
        ]
        codes = [worker.wait() for worker in workers]
        for worker in workers:
            worker.communicate()
    assert codes == [0] * processes
    assert len(server.requests) == 6 * processes
    assert server.busiest == 10


def test_a_killed_process_gives_its_slot_back(tmp_path: Path) -> None:
    holder = start(HOLDER, str(tmp_path))
    assert holder.stdout is not None and holder.stdout.readline() == "held\n"
    os.kill(holder.pid, signal.SIGKILL)
    holder.communicate()

    async def take() -> bool:
        async with SharedSlots(tmp_path, 1).held():
            return True

    assert asyncio.run(asyncio.wait_for(take(), timeout=180))


def test_two_judges_in_one_process_share_the_limit(tmp_path: Path) -> None:
    running = peak = 0

    async def work(slots: SharedSlots) -> None:
        nonlocal running, peak
        async with slots.held():
            running += 1
            peak = max(peak, running)
            await asyncio.sleep(0.01)
            running -= 1

    async def main() -> None:
        both = SharedSlots(tmp_path, 2), SharedSlots(tmp_path, 2)
        await asyncio.gather(*(work(slots) for slots in both for _ in range(6)))

    asyncio.run(main())
    assert peak == 2


def test_a_slot_is_its_users_alone_and_no_link_is_followed(tmp_path: Path) -> None:
    async def hold() -> None:
        async with SharedSlots(tmp_path / "slots", 1).held():
            pass

    asyncio.run(hold())
    (slot,) = (tmp_path / "slots").iterdir()
    assert slot.stat().st_mode & 0o777 == 0o600
    slot.unlink()
    slot.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        asyncio.run(hold())
    assert not (tmp_path / "elsewhere").exists()
