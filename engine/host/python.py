"""Starting our own modules in a project folder: a file there never stands in for a library's."""

from __future__ import annotations

import sys
from pathlib import Path

_ROOT = Path(__file__).parents[2]

# ``-m`` alone would import a ``random.py`` of the project folder before the one of Python; with
# ``-P`` alone a checkout that was not installed would not be found.
_START = (
    "import runpy, sys; sys.path.append(sys.argv[1]); del sys.argv[:2]; "
    "runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
)


def own_module(name: str, *arguments: str) -> tuple[str, ...]:
    """The command that runs the module ``name`` of this project like ``python -m`` would."""
    return (sys.executable, "-P", "-c", _START, str(_ROOT), name, *arguments)
