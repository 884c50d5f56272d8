"""A program that lacks the variables of a deterministic run starts again with them."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.paths import ROOT

PROGRAM = """
import os
from engine.train.environment import require_variables
print("starts", os.getpid())
require_variables({"PYTHONHASHSEED": "7"})
print(hash("a word"))
"""


def test_it_starts_once_more_with_the_process_id_and_the_hash_seed() -> None:
    outputs = []
    for seed in ("random", "7"):
        env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", PROGRAM]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
        outputs.append(done.stdout.splitlines())
    (first, second, value), (_, same_value) = outputs
    assert first == second
    assert value == same_value
