"""An origin that begins an answer and says nothing more, and who waits for it."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
COMMENT = b"2\r\n:\n\r\n"


@contextlib.contextmanager
def origin() -> Iterator[str]:
    """Answers every connection with the beginning of a stream, and leaves it there; yields where."""
    kept: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=_answer, args=(listening, kept), daemon=True).start()
        host, port = listening.getsockname()
        yield f"{host}:{port}"
        # Wakes who accepts.
        listening.shutdown(socket.SHUT_RDWR)
    for each in kept:
        each.close()


def _answer(listening: socket.socket, kept: list[socket.socket]) -> None:
    with contextlib.suppress(OSError):
        while True:
            connection, _ = listening.accept()
            kept.append(connection)
            connection.recv(65_536)
            connection.sendall(HEAD + COMMENT)


def lived(url: str) -> float:
    """Returns for how many seconds a stream of this address lived."""
    began = time.monotonic()
    with contextlib.suppress(OSError, http.client.HTTPException):
        with urllib.request.urlopen(url, timeout=120) as answer:
            while answer.read(1):
                pass
    return time.monotonic() - began
