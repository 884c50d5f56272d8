"""Start programs: our own modules, detached from the terminal, in a scope of the user's systemd."""

from __future__ import annotations

import getpass
import os
import shlex
import shutil
import signal
import site
import sys
from collections.abc import Mapping, MutableMapping
from importlib.metadata import distributions
from pathlib import Path

_ROOT = Path(__file__).parents[3]

# ``-m`` alone would import a ``random.py`` of the project folder before the one of Python; with
# ``-P`` alone a checkout that was not installed would not be found.
_START = (
    "import runpy, sys; sys.path.append(sys.argv[1]); del sys.argv[:2]; "
    "runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
)


def keep_folder_last(env: MutableMapping[str, str]) -> None:
    """Let no file of the working folder hide a module of Python, a library or this program in the
    processes that get ``env``: the folder is on no path when they start."""
    given = env.get("PYTHONPATH", "").split(os.pathsep)
    paths = [path for path in given if path and Path(path).resolve() != Path.cwd()]
    env["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([*paths, str(_ROOT)]))
    env["PYTHONSAFEPATH"] = "1"


def search_folder_last() -> None:
    """Let this process import the modules of the working folder that nothing else has."""
    here = str(Path.cwd())
    sys.path[:] = [*(path for path in sys.path if path not in ("", here)), here]


def own_module(name: str, *arguments: str) -> tuple[str, ...]:
    """The command that runs the module ``name`` of this project like ``python -m`` would."""
    return (sys.executable, "-P", "-c", _START, str(_ROOT), name, *arguments)


def typed_words(name: str) -> tuple[str, ...]:
    """The words that run a module of this project from a shell, in any folder."""
    # Of a checkout that is not installed, only its own folder has the modules.
    folders = site.getsitepackages()
    is_installed = next(iter(distributions(name="grubrics-tui", path=folders)), None) is not None
    return (sys.executable, *(["-P"] if is_installed else []), "-m", name)


def typed_module(name: str) -> str:
    """The command that a person types for that."""
    python, *words = typed_words(name)
    shown = "python" if shutil.which("python") == python else shlex.quote(python)
    return " ".join([shown, *words])


def detach() -> None:
    """Leave the launcher's session and parentage; only the new process returns."""
    if os.fork():
        os._exit(0)
    os.setsid()
    # Handlers rather than SIG_IGN: an ignored signal would stay ignored in what is started below.
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, lambda *_: None)


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
