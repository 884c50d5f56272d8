"""Started by Ray instead of Python: sends its arguments to the zygote and waits for the worker.

Run as ``python -I -S zygote_client.py SOCKET DRIVER_PID SCRIPT ARGS...``; imports nothing heavy,
because it starts once per worker. Ends with the worker's exit code, or by the worker's signal.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import sys
import time


def write_to_console(message: str) -> None:
    """Append a line to the attempt's console: Ray keeps this process's own output to itself."""
    try:
        path = os.path.join(os.environ["GRUBRICS_ATTEMPT_DIR"], "console.log")  # noqa: PTH118
        console = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW)
        os.write(console, f"{message}\n".encode())
        os.close(console)
    except (KeyError, OSError):
        print(message, file=sys.stderr)


def is_alive(pid: str) -> bool:
    """Whether the process runs: a killed one stays a zombie until its parent has noticed."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as status:  # noqa: PTH123
            return status.read().rpartition(") ")[2][0] not in "ZX"
    except OSError:
        return False


def main() -> int:
    zygote = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    zygote.connect(sys.argv[1])
    request = {"argv": sys.argv[3:], "env": dict(os.environ), "cwd": os.getcwd()}  # noqa: PTH109
    payload = json.dumps(request).encode()
    socket.send_fds(zygote, [struct.pack("!Q", len(payload))], [0, 1, 2])
    zygote.sendall(payload)
    answer = zygote.recv(4)
    if len(answer) < 4:
        if os.path.exists(sys.argv[1]):  # noqa: PTH110 - removed when the run ends it
            # The kernel kills the zygote of a driver that dies before it calls the driver dead.
            time.sleep(0.1)
            write_to_console(
                "the zygote that forks Ray's workers died or was killed"
                if is_alive(sys.argv[2])
                else "the trainer ended, and the workers of its Ray with it"
            )
        return 1
    (code,) = struct.unpack("!i", answer)
    if code < 0:
        signal.signal(-code, signal.SIG_DFL) if -code not in (9, 19) else None
        os.kill(os.getpid(), -code)
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
