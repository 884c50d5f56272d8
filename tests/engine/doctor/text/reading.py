"""Builds short logs and returns their findings."""

from __future__ import annotations

from engine.doctor.text.findings import findings
from engine.doctor.text.reader import LogReader
from engine.run.finding import Finding

HEADER = "Traceback (most recent call last):\n"
STEPS = "".join(f"[step {n}0] loss 1.{n} | lr 2.0e-05\n" for n in range(1, 6))


def reader_of(*texts: str) -> LogReader:
    reader = LogReader()
    for text in texts:
        reader.feed(text.encode())
    reader.finish()
    return reader


def read(*texts: str) -> list[Finding]:
    return findings(reader_of(*texts))


def ids(*texts: str) -> list[str]:
    return [finding.id for finding in read(*texts)]


def alerts(*texts: str) -> list[str]:
    return [finding.id for finding in read(*texts) if finding.severity.is_alert]


def frames(*places: str) -> str:
    """Return the lines of a traceback for places such as ``/w/train.py:main``."""
    split = (place.rsplit(":", 1) for place in places)
    return "".join(f'  File "{file}", line 7, in {name}\n    x = y(z)\n' for file, name in split)
