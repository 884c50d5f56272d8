"""What masking costs, in CPU time: lines of a run, one by one and many at once.

    python benchmarks/masking.py

``grep`` is the time that one search for the same line's secret by a plain ``in`` takes: the least
that looking at every character costs. The environment has forty variables and two keys.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from unittest.mock import patch

from engine.masking import mask_lines, mask_text

ENV = {f"VARIABLE_{number}": f"value {number}" for number in range(40)} | {
    "JUDGE_API_KEY": "opaque-value-of-a-judge-1",
    "HUB_TOKEN": "opaque-value-of-a-hub-2",
}
METRICS = " - ".join(f"part_{n % 12}/metric_{n}:{n / 7:.12f}" for n in range(100))
LINES = {
    "an ordinary line": "(TaskRunner pid=3734) INFO 05-05 05:05:10 throughput: 812.4 tokens/s",
    "metrics of a step": f"step:41 - {METRICS}",
    "a_b_ repeated": "token " + "a_b_" * 500,
    "a line with a key": f"401: Incorrect API key provided: {ENV['JUDGE_API_KEY']}",
}
_SECONDS = 0.3


def cpu_us(action: Callable[[], object]) -> float:
    """Microseconds of one call."""
    calls, started = 0, time.process_time()
    while (spent := time.process_time() - started) < _SECONDS:
        action()
        calls += 1
    return spent / calls * 1e6


def main() -> int:
    print(f"{'line':<20} {'chars':>6} {'alone us':>9} {'of 500 us':>10} {'grep us':>8}")
    with patch.dict("os.environ", ENV, clear=True):
        for name, line in LINES.items():
            many = [f"{line} {number}" for number in range(500)]
            alone = cpu_us(partial(mask_text, line))
            of_many = cpu_us(partial(mask_lines, many)) / len(many)
            grep = cpu_us(partial(line.__contains__, ENV["HUB_TOKEN"]))
            print(f"{name:<20} {len(line):>6} {alone:>9.1f} {of_many:>10.1f} {grep:>8.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
