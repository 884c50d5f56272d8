"""A real SSH server on the loopback interface, and logins on it that can be cut off."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.e2e.terminal import Terminal

# sshd refuses to run under a relative name; it is often not on a user's PATH.
SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
MISSING = next((name for name in ("ssh", "ssh-keygen") if shutil.which(name) is None), None)
# sshd that is run by root wants it; on most systems the service makes it at boot.
PRIVILEGE_SEPARATION = Path("/run/sshd")

_CONFIG = """\
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host_key
PidFile none
AuthorizedKeysFile {folder}/user_key.pub
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
"""


def why_not() -> str | None:
    """Why no server can be started here, or None."""
    if SSHD is None:
        return "there is no sshd on this machine"
    if MISSING is not None:
        return f"there is no {MISSING} on this machine"
    return None


@dataclass(frozen=True)
class Server:
    """A listening sshd with a key of its own; only that key's owner gets in."""

    process: subprocess.Popen[bytes]
    folder: Path
    port: int

    def login(self, command: str, cwd: Path) -> Terminal:
        """Run ``command`` in a login with a terminal, as ``ssh -t host command`` does."""
        options = [
            f"-p{self.port}",
            f"-i{self.folder}/user_key",
            "-oIdentitiesOnly=yes",
            "-oStrictHostKeyChecking=no",
            f"-oUserKnownHostsFile={self.folder}/known_hosts",
            "-oLogLevel=ERROR",
        ]
        ssh = ["ssh", "-F", "none", "-tt", *options, f"{getpass.getuser()}@127.0.0.1", command]
        return Terminal(ssh, cwd, {})

    def sessions(self) -> list[psutil.Process]:
        """The server's processes that stand for logins."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def cut(self, login: Terminal) -> None:
        """What a dead line comes to: client and session process vanish without a farewell.

        The terminal's far end is then closed, which is how its programs get SIGHUP.
        """
        for process in self.sessions():
            with suppress(psutil.NoSuchProcess):
                if process.name().startswith("sshd"):
                    process.kill()
        login.kill()


@contextmanager
def serving(folder: Path, environment: Mapping[str, str]) -> Iterator[Server]:
    """An sshd in the foreground, with ``environment`` in its logins; gone at the end."""
    assert SSHD is not None
    if os.getuid() == 0:
        PRIVILEGE_SEPARATION.mkdir(mode=0o755, exist_ok=True)
    for key in ("host_key", "user_key"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key)]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    variables = " ".join(f'"{name}={value}"' for name, value in environment.items())
    server = _started(folder, f"SetEnv {variables}\n")
    try:
        yield server
    finally:
        server.process.terminate()
        server.process.wait()


def _started(folder: Path, settings: str) -> Server:
    """On a port that was free a moment ago: whoever took it meanwhile keeps it."""
    assert SSHD is not None
    config = folder / "sshd_config"
    for _ in range(5):
        port = _free_port()
        config.write_text(_CONFIG.format(port=port, folder=folder) + settings)
        with (folder / "sshd.log").open("wb") as log:
            process = subprocess.Popen([SSHD, "-D", "-e", "-f", str(config)], stderr=log)
        if _listens(port, process):
            return Server(process, folder, port)
    raise AssertionError((folder / "sshd.log").read_text())


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _listens(port: int, process: subprocess.Popen[bytes]) -> bool:
    """Whether it answers there. False: it ended at once, as when the port is taken."""
    deadline = time.monotonic() + 60
    while process.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=30) as client:
            if client.recv(4) == b"SSH-":
                return True
        assert time.monotonic() < deadline, "sshd does not listen"
        time.sleep(0.05)
    return False
