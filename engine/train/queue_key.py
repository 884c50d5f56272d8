"""Restrict a run's TransferQueue to the processes that can read the run's key file.

TransferQueue unpickles what arrives at its sockets, so whoever reaches one runs code as this user.
With the key every connection is a CurveZMQ connection: encrypted, and closed before a message is
read unless the peer knows the server's public key. That key is never published; only the file that
it is derived from, which this user alone may read, gives it away.
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import zmq

FILE_VARIABLE = "GRUBRICS_QUEUE_KEY_FILE"
"""Names the file of the key in every process of a run; the path itself is no secret."""

_NAME = "queue_key"


def create(folder: Path, env: MutableMapping[str, str]) -> Path:
    """Write a new key into ``folder``, in place of one left there, and name it in ``env``."""
    import zmq

    path = folder / _NAME
    path.unlink(missing_ok=True)
    _, secret = zmq.curve_keypair()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(secret)
    env[FILE_VARIABLE] = str(path)
    return path


def require(socket: zmq.Socket[bytes], *, listens: bool, key_file: str) -> None:
    """Let ``socket`` speak only to peers that hold the key. Call before it binds or connects.

    OSError where the key is gone or belongs to somebody else.
    """
    import zmq

    secret = Path(key_file).read_bytes()
    if listens:
        socket.curve_secretkey = secret
        socket.curve_server = True
        return
    socket.curve_serverkey = zmq.curve_public(secret)
    socket.curve_publickey, socket.curve_secretkey = zmq.curve_keypair()
