"""The former name of ``python -m engine.data.precompute``."""

from __future__ import annotations

import runpy

if __name__ == "__main__":
    runpy.run_module("engine.data.precompute", run_name="__main__", alter_sys=True)
