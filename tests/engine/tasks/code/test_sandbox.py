"""What programs of models can do, and what is left of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from engine.tasks.code import sandbox
from engine.tasks.code.sandbox import Limits, SandboxError, find_gaps, run_tests
from tests.paths import ROOT
from tests.waiting import wait_for

pytestmark = pytest.mark.waits

LIMITS = Limits(test_s=2.0, total_s=20.0)
GOOD = "def f(x):\n    return x + 1\n"


def outcome(program: str, test: str = "assert f(1) == 2", limits: Limits = LIMITS) -> str:
    [tested] = run_tests(program, [{"code": test}], limits).tests
    return tested


def printed(program: str, given: str, output: str) -> str:
    [tested] = run_tests(program, [{"input": given, "output": output}], LIMITS).tests
    return tested


@pytest.mark.row("A16")
@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (GOOD, "passed"),
        ("def f(x):\n    return x", "failed"),
        ("f = 1", "error"),
        ("f = lambda x: (", "syntax error"),
        ("\ud800", "syntax error"),
        ("x = '\0'", "syntax error"),
        ("x = " + "(" * 100_000, "syntax error"),
        ("def f(x):\n    while True: pass", "timeout"),
        ("def f(x):\n    return bytearray(1 << 31)", "error"),
        ("def f(x):\n    return f(x)", "error"),
        (
            "from __future__ import annotations\nfrom dataclasses import dataclass\n"
            "@dataclass\nclass A:\n    x: int\n" + GOOD,
            "passed",
        ),
    ],
    ids=lambda text: repr(text[:30]),
)
def test_the_outcome_says_what_happened(program: str, expected: str) -> None:
    assert outcome(program, limits=Limits(test_s=1.0)) == expected


@pytest.mark.parametrize(
    "program",
    [
        "import os; os._exit(0)",
        "raise SystemExit",
        "import os\nfor n in range(3, 9):\n    try: os.write(n, b'passed')\n    except OSError: 0",
        "import os; os.closerange(0, 99)",
        "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)",
    ],
)
def test_a_program_that_ends_early_has_not_passed(program: str) -> None:
    assert outcome(program, limits=Limits(test_s=1.0)) in ("error", "timeout")


@pytest.mark.parametrize(
    ("program", "given", "output", "expected"),
    [
        ("print(input()[::-1])", "abc\n", "cba", "passed"),
        ("if __name__ == '__main__':\n    print('a  ')\n    print()", "", "a\n", "passed"),
        ("print(1); raise SystemExit", "", "1", "passed"),
        ("print(1); raise SystemExit(3)", "", "1", "error"),
        ("print(1); 1 / 0", "", "1", "error"),
        ("print(2)", "", "1", "failed"),
        ("while True: print('x' * 10_000)", "", "1", "error"),
        ("import sys; sys.stdout.buffer.write(b'\\xff')", "", "\ufffd", "passed"),
    ],
)
def test_output_is_compared_without_white_space_at_the_ends(
    program: str, given: str, output: str, expected: str
) -> None:
    assert printed(program, given, output) == expected


def test_tests_do_not_see_each_other() -> None:
    program = "open('mark', 'x').close()\nimport math\nmath.pi += 1\nf = lambda x: math.pi"
    tests = [{"code": "assert 4 < f(1) < 5"}] * 2
    assert run_tests(program, tests, LIMITS).tests == ("passed", "passed")


def test_after_the_time_for_all_tests_the_others_are_not_run() -> None:
    tests = [{"code": "f(1)"}] * 4
    outcomes = run_tests("def f(x):\n    while True: pass", tests, Limits(0.6, 1.0)).tests
    assert (outcomes[0], outcomes[-1]) == ("timeout", "not run")


@pytest.mark.row("A16")
@pytest.mark.skipif(bool(find_gaps()), reason=f"not on this machine: {', '.join(find_gaps())}")
@pytest.mark.parametrize(
    "attempt",
    [
        "open('/etc/passwd')",
        f"open({str(ROOT / 'pyproject.toml')!r})",
        "open('/proc/1/environ')",
        "open('/tmp/grubrics-was-here', 'w')",
        "import os; os.listdir('/')",
        "import socket; socket.create_connection(('127.0.0.1', 22), timeout=1)",
        "from socket import *; socket(AF_INET, SOCK_DGRAM).sendto(b'x', ('1.1.1.1', 53))",
        "import os; os.setuid(0); os.kill(1, 0); os.mkdir('/home/grubrics-was-here')",
        "import resource as r; r.setrlimit(r.RLIMIT_AS, (r.RLIM_INFINITY, r.RLIM_INFINITY))",
        "import os; os.environ['SECRET_OF_THE_TRAINER']",
    ],
)
def test_files_network_and_secrets_are_out_of_reach(
    attempt: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_TRAINER", "x")
    assert outcome(f"{attempt}\n{GOOD}") == "error"


def test_a_program_has_a_folder_of_its_own() -> None:
    assert outcome(f"open('x', 'w').write('1'); open('x').read()\n{GOOD}") == "passed"


LEAVE = (
    "import os, subprocess, sys, time\n"
    "for _ in range(3):\n"
    "    subprocess.Popen(['sleep', '987'], start_new_session=True)\n"
    "if os.fork() == 0:\n    os.setsid()\n    time.sleep(987)\n"
)


def left_behind() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


def test_nothing_is_left_running() -> None:
    before = len(left_behind())
    assert outcome(LEAVE + GOOD, limits=Limits(test_s=10.0)) == "passed"
    assert len(left_behind()) == before


SCORER = f"""
from engine.tasks.code.sandbox import Limits, run_tests
run_tests({LEAVE!r} + "time.sleep(987)", [{{"code": ""}}], Limits(600, 600))
"""


def test_nothing_is_left_running_if_the_scorer_is_killed(tmp_path: Path) -> None:
    env = {**os.environ, "TMPDIR": str(tmp_path)}  # Nobody removes its folder.
    scorer = psutil.Popen([sys.executable, "-c", SCORER], cwd=ROOT, env=env)
    wait_for(lambda: len(scorer.children(recursive=True)) >= 6)
    processes = scorer.children(recursive=True)
    scorer.kill()
    scorer.wait()
    gone, alive = psutil.wait_procs(processes, timeout=20)
    assert (len(gone), alive) == (len(processes), [])


WITHOUT_NAMESPACES = f"""
from engine.tasks.code.sandbox import Limits, find_gaps, run_tests
tested = run_tests({LEAVE + GOOD!r}, [{{"code": "assert f(1) == 2"}}], Limits(10.0))
print(tested.tests[0], tested.is_isolated)
print(find_gaps()[0])
"""


def test_where_there_are_no_namespaces_programs_run_and_end_too() -> None:
    forbid = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"'
    command = ["unshare", "-r", "--pid", "--fork", "--mount-proc", "sh", "-c", forbid, "sh"]
    try:
        done = subprocess.run(
            [*command, sys.executable, "-c", WITHOUT_NAMESPACES],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
        )
    except FileNotFoundError:
        pytest.skip("there is no unshare")
    if "unshare" in done.stderr or "max_user_namespaces" in done.stderr:
        pytest.skip(done.stderr)
    [tested, gap] = done.stdout.splitlines()
    assert tested == "passed False"
    assert gap == "programs may have network access (the system allows no user namespaces)"


def test_a_sandbox_that_fails_is_no_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "guard.py"
    broken.write_text("raise OSError('no space left')")
    monkeypatch.setattr(sandbox, "_GUARD", broken)
    with pytest.raises(SandboxError, match="exit code 1 OSError: no space left"):
        outcome(GOOD)
