"""Reward functions run in processes of their own: what hangs, exits or crashes costs one call."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from engine.base.errors import UsageError
from engine.reward.own.function import RewardFunction
from engine.reward.own.processes import (
    MOST,
    RewardCallError,
    RewardProcess,
    RewardProcesses,
    RewardTimeoutError,
    source_of,
)
from tests.reward_arguments import as_arguments
from tests.waiting import PATIENCE_S, is_over, wait_for

pytestmark = pytest.mark.waits

FUNCTION = """
import asyncio, os, re, signal, sys, time

{kind}def compute_score(data_source, solution_str, ground_truth, extra_info):
    if solution_str == "bad":
        {bad}
    return 1.0
"""
HANGS = {
    "sleeps": "time.sleep(600)",
    "loops": "while True: pass",
    "holds the interpreter": "re.match('(a+)+$', 'a' * 60 + 'b')",
}
ENDS = {
    "SystemExit": "sys.exit(3)",
    "KeyboardInterrupt": "raise KeyboardInterrupt",
    "exit code 3": "os._exit(3)",
    "signal SIGSEGV": "os.kill(os.getpid(), signal.SIGSEGV)",
}

Written = Callable[..., RewardFunction]


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """Writes ``rw.py`` and names its function."""

    def write(text: str, **kwargs: Any) -> RewardFunction:
        (tmp_path / "rw.py").write_text(text)
        return RewardFunction(str(tmp_path / "rw.py"), kwargs=kwargs)

    return write


def results(function: RewardFunction, *answers: str, limit_s: float = 30.0) -> list[Any]:
    """The result or exception of each answer, all asked for at once."""
    left: list[psutil.Process] = []

    async def ask() -> list[Any]:
        processes = RewardProcesses(source_of(function), limit_s, 30.0)
        calls = (processes.score(**as_arguments(each, "mine", "4", {})) for each in answers)
        try:
            return await asyncio.gather(*calls, return_exceptions=True)
        finally:
            left.extend(psutil.Process().children(recursive=True))
            processes.end()

    result = asyncio.run(ask())
    wait_for(lambda: all(map(is_over, left)))
    return result


@pytest.mark.parametrize("kind", ["", "async "])
class TestWhateverHappensInOneCall:
    @pytest.mark.sample(2)
    @pytest.mark.row("A12")
    @pytest.mark.long
    @pytest.mark.parametrize("bad", HANGS.values(), ids=HANGS)
    def test_a_call_that_hangs_is_cut_at_its_line_and_the_others_are_scored(
        self, written: Written, kind: str, bad: str
    ) -> None:
        function = written(FUNCTION.format(kind=kind, bad=bad))
        good, cut, later = results(function, "good", "bad", "good", limit_s=1.0)
        assert (good, later) == (1.0, 1.0)
        assert isinstance(cut, RewardTimeoutError)
        assert str(cut) == "compute_score gave no score within 1 s (rw.py:6)"

    @pytest.mark.sample(3)
    @pytest.mark.parametrize(("says", "bad"), ENDS.items(), ids=ENDS)
    def test_a_call_that_ends_its_process_is_an_error_of_that_call(
        self, written: Written, kind: str, says: str, bad: str
    ) -> None:
        good, ended, later = results(
            written(FUNCTION.format(kind=kind, bad=bad)), "good", "bad", "good"
        )
        assert (good, later) == (1.0, 1.0)
        assert isinstance(ended, RewardCallError) and says in str(ended)
        assert "(rw.py:" in str(ended)


class TestCalls:
    def test_an_asynchronous_call_that_waits_for_ever_is_cut_alone(self, written: Written) -> None:
        function = written(FUNCTION.format(kind="async ", bad="await asyncio.sleep(600)"))
        result = results(function, "good", "bad", "good", limit_s=0.5)
        assert [type(each) for each in result] == [float, RewardTimeoutError, float]
        assert "rw.py:6" in str(result[1])

    def test_what_a_function_prints_and_starts_ends_with_it(self, written: Written) -> None:
        text = "import subprocess\ndef compute_score(**_):\n"
        text += "    subprocess.run(['sleep', '600'])\n"
        (cut,) = results(written(text), "x", limit_s=0.5)
        assert "rw.py:3" in str(cut)

    @pytest.mark.parametrize("after", ["", "os._exit(3)"], ids=["lives on", "is gone"])
    def test_a_daemon_of_a_function_ends_with_it(
        self, written: Written, tmp_path: Path, after: str
    ) -> None:
        start = "p = subprocess.Popen(['sleep', '600'], start_new_session=True)"
        text = f"import os, subprocess\n\ndef compute_score(**_):\n    {start}"
        note = f"open({str(tmp_path / 'pid')!r}, 'w').write(str(p.pid))"
        results(written(f"{text}\n    {note}\n    {after}\n    return 1"), "x")
        daemon = int((tmp_path / "pid").read_text())
        wait_for(lambda: is_over(daemon))

    def test_an_exception_that_cannot_be_printed_is_an_error_of_its_call(
        self, written: Written
    ) -> None:
        text = "class Odd(Exception):\n    def __str__(self): raise ValueError\n"
        (error,) = results(written(f"{text}def compute_score(**_): raise Odd"), "x")
        assert str(error) == "Odd (rw.py:3)"

    def test_an_exception_is_one_short_line_that_moves_no_cursor(self, written: Written) -> None:
        text = "def compute_score(**_):\n    raise ValueError('\\x1b[2J\\x07' + 'x' * 5_000_000)"
        (error,) = results(written(text), "x")
        assert str(error).startswith("ValueError: ?[2J?xxx") and len(str(error)) < 600
        assert str(error).endswith("... (rw.py:2)")

    def test_a_number_beside_the_score_that_no_float_holds_is_left_out(
        self, written: Written
    ) -> None:
        text = "def compute_score(**_):\n    return {'score': 1, 'tokens': 10**400, 'acc': 0.5}"
        assert results(written(text), "x") == [{"score": 1.0, "acc": 0.5}]

    def test_asynchronous_calls_wait_side_by_side(self, written: Written) -> None:
        """Each of them waits until all are there."""
        text = "import asyncio\ngate = asyncio.Barrier(20)\n"
        text += "async def compute_score(**_):\n    await gate.wait()\n    return 1\n"
        assert results(written(text), *["x"] * 20) == [1.0] * 20

    @pytest.mark.thorough
    def test_slow_calls_get_more_processes_up_to_a_limit(self, written: Written) -> None:
        text = "import os, time\ndef compute_score(**_):\n    time.sleep(0.3)\n"
        text += "    return {'score': 1, 'pid': os.getpid()}\n"
        result = results(written(text), *["x"] * 12)
        assert 1 < len({each["pid"] for each in result}) <= MOST

    def test_reward_kwargs_are_passed_and_win(self, written: Written) -> None:
        text = "def compute_score(data_source, weight, **_):\n    return weight\n"
        assert results(written(text, weight=0.25, data_source="other"), "x") == [0.25]

    def test_results_are_plain_numbers_whatever_made_them(self, written: Written) -> None:
        text = "import numpy as np\ndef compute_score(**_):\n    return {'score': np.float32(0.5), "
        text += "'acc': np.bool_(True), 'pred': 'x', 'all': [1, 2]}\n"
        (result,) = results(written(text), "x")
        assert result == {"score": 0.5, "acc": 1.0, "pred": "x"}
        assert {type(each) for each in result.values()} == {float, str}

    def test_an_awaitable_of_a_plain_function_is_awaited(self, written: Written) -> None:
        text = "async def inner():\n    return 0.5\ndef compute_score(**_):\n    return inner()\n"
        assert results(written(text), "x") == [0.5]

    @pytest.mark.parametrize("result", ["'0.5'", "None", "[1.0]", "{'acc': 1.0}"])
    def test_what_is_no_number_is_an_error(self, written: Written, result: str) -> None:
        (found,) = results(written(f"def compute_score(**_):\n    return {result}\n"), "x")
        assert isinstance(found, RewardCallError) and "TypeError: returned" in str(found)


class TestLoading:
    @pytest.mark.sample(4)
    @pytest.mark.parametrize(
        ("text", "says"),
        [
            ("x = (\n", r"rw\.py:1: SyntaxError: '\(' was never closed"),
            ("import sympyyy\n", r"rw\.py:1: ModuleNotFoundError: No module named 'sympyyy'"),
            ("from .other import x\n", r"rw\.py:1: ImportError: .*relative import.*pkg://"),
            ("\n1 / 0\n", r"rw\.py:2: ZeroDivisionError"),
            ("import sys\nsys.exit(2)\n", r"rw\.py:2: SystemExit: 2 while it was imported"),
            ("import os\nos._exit(2)\n", r"rw\.py ended its process with exit code 2"),
            ("def compute_scor(): ...\n", r"no function 'compute_score'.*'compute_scor'\?"),
            ("compute_score = 3\n", r"'compute_score' is not a function"),
            ("\ndef compute_score(answer): ...\n", r"rw\.py:2: compute_score\(answer\).*'answer'"),
        ],
    )
    def test_one_line_says_why_a_function_cannot_be_used(
        self, written: Written, text: str, says: str
    ) -> None:
        with pytest.raises(UsageError, match=says) as refused:
            RewardProcesses(source_of(written(text)), 30.0, 30.0)
        assert "\n" not in str(refused.value)

    @pytest.mark.thorough
    def test_an_endless_import_is_given_up_at_its_line(self, written: Written) -> None:
        with pytest.raises(UsageError, match=r"rw\.py:1: not imported within 2 s"):
            RewardProcesses(source_of(written("while True: pass\n")), 1.0, 2.0)

    def test_dataclasses_with_postponed_annotations_load(self, written: Written) -> None:
        text = "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        text += "@dataclass\nclass Parsed:\n    value: float\n"
        text += "def compute_score(**_):\n    return Parsed(0.5).value\n"
        assert results(written(text), "x") == [0.5]

    def test_files_beside_it_are_imported_by_their_names(
        self, written: Written, tmp_path: Path
    ) -> None:
        (tmp_path / "parts").mkdir()
        (tmp_path / "parts" / "__init__.py").write_text("from .weights import WEIGHT\n")
        (tmp_path / "parts" / "weights.py").write_text("WEIGHT = 0.75\n")
        text = "from parts import WEIGHT\ndef compute_score(**_):\n    return WEIGHT\n"
        assert results(written(text), "x") == [0.75]
        assert not list(tmp_path.rglob("__pycache__"))

    def test_a_module_of_a_package_may_import_relatively(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "__init__.py").write_text("")
        (tmp_path / "mine" / "weights.py").write_text("WEIGHT = 0.75\n")
        text = "from .weights import WEIGHT\ndef score(**_):\n    return WEIGHT\n"
        (tmp_path / "mine" / "rw.py").write_text(text)
        assert results(RewardFunction("pkg://mine.rw", "score"), "x") == [0.75]

    def test_a_file_that_is_not_there_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match=r"nope\.py does not exist"):
            source_of(RewardFunction(str(tmp_path / "nope.py")))


def test_a_call_is_settled_though_its_process_takes_long_to_end(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine a call that comes meanwhile finds the process dead and forgets it."""
    end = RewardProcess._kill

    def end_slowly(process: RewardProcess) -> int:
        if threading.current_thread() is not threading.main_thread():
            time.sleep(1.5)
        return end(process)

    monkeypatch.setattr(RewardProcess, "_kill", end_slowly)
    function = written(FUNCTION.format(kind="", bad=HANGS["sleeps"]))

    async def ask() -> list[Any]:
        processes = RewardProcesses(source_of(function), 0.5, 30.0)
        score = partial(as_arguments, data_source="mine", ground_truth="4", extra_info={})
        calls = [processes.score(**score("bad"))]
        calls += [processes.score(**score("good")) for _ in range(8)]
        try:
            return await asyncio.wait_for(
                asyncio.gather(*calls, return_exceptions=True), PATIENCE_S
            )
        finally:
            processes.end()

    cut, *others = asyncio.run(ask())
    assert isinstance(cut, RewardTimeoutError)
    assert others == [1.0] * 8
