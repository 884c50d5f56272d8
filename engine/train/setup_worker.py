"""Ray's ``setup_worker.py`` without its imports, which cost each worker 0.4 s of CPU.

The raylet runs ``setup_worker.py SCRIPT ARGS... --serialized-runtime-env-context=JSON
--language=PYTHON`` once per worker. Ray's own script imports Ray to read the context, sets its
variables and executes ``py_executable SCRIPT ARGS...``. This one does the same with the standard
library, and leaves a context with anything else in it, such as a container, to Ray's script.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import shlex
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

CONTEXT = "--serialized-runtime-env-context="
LANGUAGE = "--language="
KNOWN = {"env_vars", "py_executable"}


def main(arguments: Sequence[str]) -> None:
    context = read_context(arguments)
    if f"{LANGUAGE}PYTHON" in arguments and {name for name in context if context[name]} <= KNOWN:
        own = (CONTEXT, LANGUAGE)
        start_python(context, [word for word in arguments if not word.startswith(own)])
    runpy.run_path(str(ray_script()), run_name="__main__")


def read_context(arguments: Sequence[str]) -> dict[str, Any]:
    [text] = [word.removeprefix(CONTEXT) for word in arguments if word.startswith(CONTEXT)] or [""]
    context: dict[str, Any] = json.loads(text or "{}")
    return context


def start_python(context: dict[str, Any], arguments: Sequence[str]) -> NoReturn:
    """Become the worker. Ray too has a shell read ``py_executable``, which may have options."""
    for name, value in (context.get("env_vars") or {}).items():
        # ${X} is the variable X, and nothing if there is none.
        os.environ[name] = re.sub(r"\$\{[A-Z0-9_]+\}", "", os.path.expandvars(value))
    python = context.get("py_executable") or sys.executable
    os.execvp("bash", ["bash", "-c", f"exec {python} {shlex.join(arguments)}"])


def ray_script() -> Path:
    """Ray's own script, found without importing Ray."""
    spec = find_spec("ray")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent / "_private" / "workers" / "setup_worker.py"


if __name__ == "__main__":
    main(sys.argv[1:])
