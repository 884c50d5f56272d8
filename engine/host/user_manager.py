"""The user's own systemd, where there is one: a scope of its own keeps a run apart from the login.

Some hosts end everything a session started when it ends (logind's ``KillUserProcesses``); a scope
of the user's manager is not part of the session. It is never required.
"""

from __future__ import annotations

import getpass
import shutil
from collections.abc import Mapping
from pathlib import Path

_LINGER = Path("/var/lib/systemd/linger")


def scope_prefix(run_id: str, env: Mapping[str, str], linger: Path = _LINGER) -> tuple[str, ...]:
    """What to put before a command so that it runs in a scope; nothing without a lasting manager.

    Only for a user who lingers: the manager of anybody else ends at the last logout, and takes its
    scopes along, which a plain detached process survives.
    """
    runtime, user = env.get("XDG_RUNTIME_DIR"), getpass.getuser()
    if not runtime or not (linger / user).exists():
        return ()
    program = shutil.which("systemd-run", path=env.get("PATH"))
    if program is None or not (Path(runtime) / "systemd" / "private").is_socket():
        return ()
    description = f"--description=grubrics-tui run {run_id}"
    return (program, "--user", "--scope", "--quiet", "--collect", description, "--")
