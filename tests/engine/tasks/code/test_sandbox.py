"""What programs of models can do, and what is left of them."""

from __future__ import annotations

import os
import socket
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
        "import os; os.kill(os.getppid() or 1, 9); os.listdir('/proc/1/fd')",
        "import ctypes; 1 / (ctypes.CDLL(None).unshare(0x10000000) == 0)",
        "import ctypes; 1 / (ctypes.CDLL(None).ptrace(16, 1, 0, 0) == 0)",
        "import os, time\nfor _ in range(80):\n    if os.fork() == 0: time.sleep(9)",
    ],
)
@pytest.mark.parametrize("in_bubblewrap", [True, False])
def test_files_network_processes_and_secrets_are_out_of_reach(
    attempt: str, in_bubblewrap: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_TRAINER", "x")
    use_wall(monkeypatch, in_bubblewrap=in_bubblewrap)
    assert outcome(f"{attempt}\n{GOOD}") == "error"


def use_wall(monkeypatch: pytest.MonkeyPatch, *, in_bubblewrap: bool) -> None:
    if in_bubblewrap and not sandbox._has_bubblewrap():
        pytest.skip("bubblewrap is not there, or does not work")
    monkeypatch.setattr(sandbox, "_has_bubblewrap", lambda: in_bubblewrap)


@pytest.mark.skipif(bool(find_gaps()), reason=f"not on this machine: {', '.join(find_gaps())}")
@pytest.mark.parametrize(
    "attempt",
    [
        "os.chmod(FILE, 0)",
        "os.chmod(os.path.dirname(FILE), 0o777)",
        "os.fchmod(0, 0o777)",
        "os.chown(FILE, 1, 1)",
        "os.utime(FILE, (1, 1))",
        "os.setxattr(FILE, 'user.x', b'1')",
        "os.link(FILE, 'mine')",
        "socket.socket(socket.AF_UNIX).connect(SOCKET)",
        "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b'x', SOCKET)",
    ],
)
@pytest.mark.parametrize("in_bubblewrap", [True, False])
def test_files_of_the_user_keep_their_modes_and_sockets_get_no_word(
    attempt: str, in_bubblewrap: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_wall(monkeypatch, in_bubblewrap=in_bubblewrap)
    file, address = tmp_path / "file", tmp_path / "socket"
    file.write_text("")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(str(address))
        heard.setblocking(False)
        before = file.stat(), tmp_path.stat()
        names = f"import os, socket\nFILE, SOCKET = {str(file)!r}, {str(address)!r}\n"
        assert outcome(f"{names}{attempt}\n{GOOD}") == "error"
        assert (file.stat(), tmp_path.stat()) == before
        with pytest.raises(BlockingIOError):
            heard.recv(1)


TRUTH = "173205080"
FORGERIES = [
    # Looks through its frames, and through everything that the interpreter holds.
    "frame = sys._getframe()\nwhile frame := frame.f_back: found += [*frame.f_locals.values()]",
    "found = gc.get_objects()",
    "found = [open(name).read() for name in ('/proc/self/environ', '/proc/1/cmdline')]",
    "found = [os.pread(n, 9**5, 0) for n in range(3, 64)]",
    # Says that it has passed, and ends.
    "for n in range(3, 64): os.write(n, b'passed')",
    "for n in range(3, 64): os.write(n, struct.pack('!Q', 8) + b'[\"value\"]')",
    "os._exit(0)",
    "sys.exit(0)",
    "print('passed'); print({'ended': ['passed']}); os.kill(os.getpid(), 9)",
    # Changes what a test uses, and returns what is equal to all.
    "builtins.abs = builtins.round = lambda *_: 0; math.isclose = lambda *_: True",
    "class All(float):\n    __eq__ = __lt__ = lambda *_: True\n    __ne__ = lambda *_: False\n"
    "    __sub__ = __abs__ = __rsub__ = lambda self, *_: self\nfound = [All()]",
]


@pytest.mark.parametrize("attempt", FORGERIES)
def test_a_program_neither_finds_nor_forges_what_it_is_compared_with(attempt: str) -> None:
    tried = "\n        ".join(attempt.splitlines())
    # Knows the first digits, and searches what it found for the others.
    program = (
        "import builtins, contextlib, gc, math, os, re, struct, sys\nfound = []\n"
        f"def f():\n    global found\n    with contextlib.suppress(Exception):\n        {tried}\n"
        "    for value in found:\n"
        f"        if match := re.search('{TRUTH[:5]}([0-9]+)', repr(value)):\n"
        f"            return int('{TRUTH[:5]}' + match[1])\n"
        "    return (found or [0])[0]\n"
    )
    tests = [
        {"code": f"expected = {TRUTH}\nassert f() == expected"},
        {"code": f"import math\nassert math.isclose(f(), {TRUTH}) and f() == {TRUTH}"},
        {"code": f"assert abs(f() - {TRUTH}) < 1e-6"},
        {"code": f"def check(candidate):\n    assert candidate() == {TRUTH}\ncheck(f)"},
    ]
    assert "passed" not in run_tests(program, tests, LIMITS).tests
    printing = {"input": "", "output": TRUTH}
    assert "passed" not in run_tests(f"{program}print(f())", [printing], LIMITS).tests


@pytest.mark.parametrize(
    ("program", "test"),
    [
        ("def f(x): x.sort()", "x = [2, 1]\nf(x)\nassert x == [1, 2]"),
        ("def f(g, x): return [g(v) for v in x]", "assert f(lambda v: v * 2, [1]) == [2]"),
        ("def f(n):\n    yield from range(n)", "assert list(f(3)) == [0, 1, 2]"),
        (
            "f = lambda: ({1: (2, {3})}, b'x', 1 << 99, 1j, float('inf'))",
            "assert f()[2] == 1 << 99",
        ),
        ("f = lambda: ({1: (2, {3})}, b'x')", "assert f() == ({1: (2, {3})}, b'x')"),
        ("import numpy as np\nf = lambda: np.arange(3)", "assert (f() == np.arange(3)).all()"),
        (
            "class E(ValueError): pass\ndef f(): raise E('no')",
            "try: f()\nexcept E as e: assert str(e) == 'no'",
        ),
        ("def f(): return 1 / 0", "import pytest\nwith pytest.raises(ZeroDivisionError): f()"),
        (
            "class V:\n    def __init__(self, x): self.x = x\n"
            "    def __add__(self, o): return V(self.x + o.x)\n"
            "    def __eq__(self, o): return self.x == o.x\n",
            "v = V(1) + V(2)\nassert v.x == 3 and v == V(3) and v != 3 and isinstance(v, V)",
        ),
        (
            "def f(node): return 0 if node is None else 1 + f(node.next)",
            "class Node:\n    next = None\na, b = Node(), Node()\na.next = b\nassert f(a) == 2",
        ),
        ("def f(x): return math.floor(x)", "import math\nassert f(1.5) == 1"),
        ("import math\nf = math.sqrt", "assert math.isclose(f(4), 2)"),
        ("def sum(a, b): return a + b", "assert sum(1, 2) == 3"),
    ],
)
def test_right_programs_pass_whatever_a_test_does_with_them(program: str, test: str) -> None:
    assert outcome(program, test, Limits(test_s=10.0)) == "passed"


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
from engine.tasks.code import sandbox
from engine.tasks.code.sandbox import Limits, run_tests
sandbox._has_bubblewrap = lambda: False
tested = run_tests({LEAVE + GOOD!r}, [{{"code": "assert f(1) == 2"}}], Limits(10.0))
print(tested.tests[0], "namespaces" in tested.walls)
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
    assert done.stdout == "passed False\n"


def test_a_sandbox_that_fails_is_no_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "guard.py"
    broken.write_text("raise OSError('no space left')")
    monkeypatch.setattr(sandbox, "_GUARD", broken)
    with pytest.raises(SandboxError, match="exit code 1 OSError: no space left"):
        outcome(GOOD)
