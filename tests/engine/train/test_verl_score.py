"""verl's score without verl's imports."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from verl.utils.reward_score import default_compute_score

from engine.train.verl_score import compute_score
from tests.paths import ROOT

CASES = [
    ("openai/gsm8k", "so #### 72", "72"),
    ("openai/gsm8k", "so 72", "72"),
    ("DigitalLearningGmbH/MATH-lighteval", "it is \\boxed{\\frac{1}{2}}", "\\frac12"),
    ("math_dapo", "Answer: 3", "3"),
    ("aime2025", "Answer: 4", "3"),
    ("searchR1_nq", "<answer>Rome</answer>", {"target": ["Rome"]}),
]
PROGRAM = """
import json, sys
from engine.train.verl_score import compute_score
scores = [compute_score(*case) for case in json.loads(sys.argv[1])]
print(json.dumps({"scores": scores, "torch": "torch" in sys.modules, "ray": "ray" in sys.modules}))
"""


def test_scores_of_a_process_are_those_of_verl_and_import_neither_torch_nor_ray() -> None:
    command = [sys.executable, "-c", PROGRAM, json.dumps(CASES)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    expected = [default_compute_score(*case) for case in CASES]
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer == {"scores": expected, "torch": False, "ray": False}


def test_a_process_that_has_imported_verl_scores_the_same() -> None:
    case = ("numina_olympiads", "it is \\boxed{2}", "2")  # Its score imports torch by itself.
    assert compute_score(*case) == default_compute_score(*case)


def test_an_unknown_data_source_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="data_source='sums'"):
        compute_score("sums", "1", "1")
