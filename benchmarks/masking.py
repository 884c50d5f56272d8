"""What masking costs, in CPU time: lines of a run, one by one and many at once.

    python benchmarks/masking.py [--detect-secrets PYTHON]

``in`` is the time that one search for a key by a plain ``in`` takes: the least that looking at each
character costs. ``regex`` replaces what begins as keys of ten services do, by one plain expression
that knows no value, login or setting. ``detect-secrets`` is ``scan_line`` with its default plugins,
where ``PYTHON`` can import it (1.5.0): it finds and does not mask. The environment has forty
variables and two keys.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from unittest.mock import patch

from engine.base.masking import mask_lines, mask_text

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


PLAIN = re.compile(
    r"\b(?:sk-|hf_|ghp_|gho_|github_pat_|glpat-|xox[abp]-|AKIA|AIza|gsk_)[A-Za-z0-9_-]{16,}"
    r"|\bBearer \S{8,}"
)
DETECT_SECRETS = """
import json, sys, time
from detect_secrets.core.scan import scan_line
from detect_secrets.settings import default_settings
with default_settings():
    for line in json.load(sys.stdin):
        list(scan_line(line))
        calls, started = 0, time.process_time()
        while (spent := time.process_time() - started) < 0.3:
            list(scan_line(line))
            calls += 1
        print(spent / calls * 1e6)
"""


def peer_us(python: str | None) -> list[float | None]:
    """Microseconds of detect-secrets for each of ``LINES``; None without it."""
    if python is None:
        return [None] * len(LINES)
    lines = json.dumps(list(LINES.values()))
    done = subprocess.run(
        [python, "-c", DETECT_SECRETS], input=lines, capture_output=True, text=True, check=True
    )
    return [float(word) for word in done.stdout.split()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--detect-secrets", metavar="PYTHON")
    peers = peer_us(parser.parse_args().detect_secrets)
    print("| line | characters | alone | of 500 | `in` | regex | detect-secrets |")
    print("|---|---|---|---|---|---|---|")
    with patch.dict("os.environ", ENV, clear=True):
        for (name, line), peer in zip(LINES.items(), peers, strict=True):
            many = [f"{line} {number}" for number in range(500)]
            alone = cpu_us(partial(mask_text, line))
            of_many = cpu_us(partial(mask_lines, many)) / len(many)
            search = cpu_us(partial(line.__contains__, ENV["HUB_TOKEN"]))
            plain = cpu_us(partial(PLAIN.sub, "…", line))
            beside = "-" if peer is None else f"{peer:,.0f}"
            numbers = f"{alone:.0f} | {of_many:.1f} | {search:.2f} | {plain:.1f} | {beside}"
            print(f"| {name} | {len(line):,} | {numbers} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
