"""Messages between the process of a reward function and its owner.

Pickled messages over a socket, each after its length, and a page of shared memory in which the
process notes what it is busy with: a process that hangs in C code sends no messages.
"""

from __future__ import annotations

import mmap
import pickle
import socket
import struct
import time
from dataclasses import dataclass
from typing import Any, Literal

_LENGTH = struct.Struct("<Q")
_BUSY = struct.Struct("<qd")
PAGE = mmap.PAGESIZE
HEADER = _LENGTH.size

IDLE = 0
"""Not the number of any call."""

Outcome = Literal["ok", "error", "timeout"]


@dataclass(frozen=True)
class Reply:
    """The end of call ``number``. ``place`` is the line of the function's code it came from.

    ``own_s`` are the seconds of the call, without those in which other programs had the processor.
    """

    number: int
    outcome: Outcome
    value: Any = None
    place: str | None = None
    own_s: float = 0.0


@dataclass(frozen=True)
class Ready:
    """The function is loaded. ``together``: it is asynchronous, so calls run side by side.

    ``files`` are the imported files of its folder, relative to it.
    """

    together: bool
    defined_at: str | None
    files: tuple[str, ...] = ()


@dataclass(frozen=True)
class Refused:
    """The function cannot be loaded; one line says why."""

    message: str


def pack(message: Any) -> bytes:
    body = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(body)) + body


def length_of(header: bytes) -> int:
    return int(_LENGTH.unpack(header)[0])


def unpack(body: bytes) -> Any:
    return pickle.loads(body)


def receive(sock: socket.socket) -> Any:
    """The next message; EOFError when the other side is gone."""
    return unpack(_exactly(sock, length_of(_exactly(sock, HEADER))))


def _exactly(sock: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = sock.recv(min(size - len(parts), 1 << 20))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)


class Busy:
    """The shared page: the call that runs now, and when the process last came back to its loop."""

    def __init__(self, descriptor: int) -> None:
        self._page = mmap.mmap(descriptor, PAGE)

    def note(self, number: int) -> None:
        _BUSY.pack_into(self._page, 0, number, time.monotonic())

    def read(self) -> tuple[int, float]:
        """The call's number and how many seconds ago the process noted anything."""
        number, since = _BUSY.unpack_from(self._page, 0)
        return number, time.monotonic() - since

    def close(self) -> None:
        self._page.close()
