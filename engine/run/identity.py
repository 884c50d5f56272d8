"""Which process it is: a pid alone may be that of a later one."""

from __future__ import annotations

from msgspec import Struct

from engine.base.typed import Integer


class Identity(Struct, frozen=True):
    """A process, distinguishable from a later one with the same pid.

    ``start`` is in clock ticks since boot, so a jump of the wall clock does not change it;
    ``boot`` identifies the machine and its boot.
    """

    pid: Integer
    start: Integer
    boot: str
