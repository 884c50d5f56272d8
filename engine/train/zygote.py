"""A process that has imported verl once and forks a ready Ray worker on request (CPU runs only).

``import verl`` costs seconds of CPU in each of a run's actors, one after another. Ray can be told
which executable starts its workers (``runtime_env.py_executable``); ours is ``zygote_client.py``,
which sends its arguments, environment and standard streams over a Unix socket. The zygote forks,
and the child becomes the worker by running Ray's own worker script with those arguments. Modules
are shared memory, so a worker starts in a fraction of a second and costs little RAM.

Nothing outlives the run: the kernel kills the zygote when the driver dies and every worker when
the zygote dies, and a worker is killed when the client that stands for it is. A forked CUDA
context is broken, so with an accelerator Ray starts its workers the usual way.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import random
import runpy
import selectors
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

CLIENT = Path(__file__).with_name("zygote_client.py")
HEADER = struct.Struct("!Q")
STATUS = struct.Struct("!i")
PR_SET_PDEATHSIG = 1
CONNECT_TIMEOUT_S = 10.0
FIRST_JOB_ID = "01000000"


@dataclass(frozen=True)
class Zygote:
    """The driver's handle."""

    process: subprocess.Popen[bytes]
    socket_path: Path

    @property
    def py_executable(self) -> str:
        """For Ray's ``runtime_env``: a bare interpreter that only talks to the socket."""
        return f"{sys.executable} -I -S {CLIENT} {self.socket_path} {os.getpid()}"

    def close(self) -> None:
        """End the zygote and with it every worker. Calling it twice is harmless."""
        # Its clients tell an end on purpose by this from one that somebody else brought about.
        self.socket_path.unlink(missing_ok=True)
        self.process.kill()
        self.process.wait()


def start(socket_path: Path, preload: Sequence[str]) -> Zygote:
    """Start the zygote; it imports the ``preload`` modules while the caller continues.

    Workers may ask for a fork at once: they wait in the socket's queue. The environment must
    already hold what Ray's workers read while ``ray`` is imported (see ``ray_session``).
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(socket_path))
        listener.listen(64)
        arguments = [str(listener.fileno()), ",".join(preload), str(os.getpid())]
        command = [sys.executable, "-m", __name__, *arguments]
        process = subprocess.Popen(command, pass_fds=[listener.fileno()])
    return Zygote(process, socket_path)


def main(arguments: Sequence[str]) -> NoReturn:
    """``zygote LISTENER_FD MODULE,MODULE,... DRIVER_PID``"""
    _die_with_parent(int(arguments[2]))
    # Ctrl-C reaches the whole terminal group; ending the run is the driver's decision.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Ray's C++ side reads these once, when it is imported, so no worker can be given its own:
    # the only job of a private instance has this id, and a worker watches its parent, the zygote,
    # where it would watch the raylet.
    os.environ.update(RAY_JOB_ID=FIRST_JOB_ID, RAY_RAYLET_PID=str(os.getpid()))
    for module in arguments[1].split(","):
        importlib.import_module(module)
    gc.collect()
    gc.freeze()  # keeps the collector from touching, and so copying, shared pages
    Server(socket.socket(fileno=int(arguments[0]))).run()


def _run_guarded(run: Callable[[], int]) -> NoReturn:
    """Run, and exit without unwinding the zygote's stack."""
    code = 1
    try:
        code = run()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code & 0xFF)


@dataclass
class _Worker:
    pid: int
    client: socket.socket


class Server:
    """The zygote's loop: one thread, and no state except the live workers."""

    def __init__(self, listener: socket.socket) -> None:
        self.listener = listener
        self.workers: dict[int, _Worker] = {}
        self.selector = selectors.DefaultSelector()
        self.selector.register(listener, selectors.EVENT_READ, self._accept)
        self.child_ended, self.wakeup = socket.socketpair()
        for end in (self.child_ended, self.wakeup):
            end.setblocking(False)
        self.selector.register(self.child_ended, selectors.EVENT_READ, self._reap)
        signal.set_wakeup_fd(self.wakeup.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def run(self) -> NoReturn:
        while True:
            for key, _ in self.selector.select():
                key.data()

    def _accept(self) -> None:
        client, _ = self.listener.accept()
        client.settimeout(CONNECT_TIMEOUT_S)
        try:
            request, streams = _receive(client)
        except (OSError, ValueError):
            client.close()
            return
        pid = os.fork()
        if pid == 0:
            self._become_worker(client, request, streams)
        for stream in streams:
            os.close(stream)
        worker = _Worker(pid, client)
        self.workers[pid] = worker
        self.selector.register(client, selectors.EVENT_READ, lambda: self._client_gone(worker))

    def _become_worker(
        self, client: socket.socket, request: dict[str, Any], streams: list[int]
    ) -> NoReturn:
        zygote = os.getppid()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for connection in [self.listener, self.child_ended, self.wakeup, client]:
            connection.close()
        for worker in self.workers.values():
            worker.client.close()
        self.selector.close()
        _run_guarded(lambda: _worker_main(zygote, request, streams))

    def _client_gone(self, worker: _Worker) -> None:
        """End the worker. Its client sends nothing more, so readable means that Ray closed it."""
        self.selector.unregister(worker.client)
        os.kill(worker.pid, signal.SIGKILL)

    def _reap(self) -> None:
        self.child_ended.recv(4096)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._report(self.workers.pop(pid), os.waitstatus_to_exitcode(status))

    def _report(self, worker: _Worker, code: int) -> None:
        if worker.client.fileno() in self.selector.get_map():
            self.selector.unregister(worker.client)
        with suppress(OSError):  # the client may be gone
            worker.client.sendall(STATUS.pack(code))
        worker.client.close()


def _receive(client: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """One request: ``{"argv", "env", "cwd"}`` and the three standard streams."""
    header, streams, _, _ = socket.recv_fds(client, HEADER.size, 3)
    (length,) = HEADER.unpack(header)
    payload = bytearray()
    while len(payload) < length:
        block = client.recv(length - len(payload))
        if not block:
            raise OSError("the client left early")
        payload += block
    request: dict[str, Any] = json.loads(payload)
    return request, streams


def _worker_main(zygote: int, request: dict[str, Any], streams: list[int]) -> int:
    """Turn this fork into the process that Ray asked for, then run Ray's worker script."""
    _die_with_parent(zygote)
    os.setpgid(0, 0)
    for target, stream in enumerate(streams):
        os.dup2(stream, target)
        os.close(stream)
    os.environ.clear()
    os.environ.update(request["env"])
    if os.environ.get("RAY_JOB_ID") != FIRST_JOB_ID:
        raise RuntimeError(f"this Ray instance is not private: job {os.environ['RAY_JOB_ID']}")
    os.chdir(request["cwd"])
    sys.argv = list(request["argv"])
    _reseed()
    runpy.run_path(sys.argv[0], run_name="__main__")
    return 0


def _reseed() -> None:
    """Forks share the state of random generators; Ray and the data loaders draw names from them."""
    random.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()


def _die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when ``parent`` dies, also when it already did."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
