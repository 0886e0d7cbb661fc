"""A TCP relay on loopback that loses connections where a scenario says so."""

from __future__ import annotations

import asyncio
from types import TracebackType
from urllib.parse import urlsplit

PIECE = 65_536


class Proxy:
    """Relays to a server; cuts the connections whose numbers are given, counted from 0.

    `cut_answers`: the request reaches the server, the server answers, the answer is thrown away.
    `cut_requests`: the connection is lost before anything reaches the server.
    """

    def __init__(
        self, url: str, cut_answers: frozenset[int] = frozenset(), cut_requests: frozenset[int] = frozenset()
    ) -> None:
        target = urlsplit(url)
        self._target = (target.hostname, target.port)
        self._cut_answers, self._cut_requests = cut_answers, cut_requests
        self._tasks: set[asyncio.Task[None]] = set()
        self.connections = 0
        self.answers_lost = 0

    async def __aenter__(self) -> Proxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        number, self.connections = self.connections, self.connections + 1
        try:
            if number in self._cut_requests:
                await reader.read(PIECE)
                return
            await self._relay(number, reader, writer)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            writer.transport.abort()
            self._tasks.discard(task)

    async def _relay(
        self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        up_reader, up_writer = await asyncio.open_connection(*self._target)
        upwards = asyncio.create_task(pump(reader, up_writer))
        try:
            if number in self._cut_answers:
                await up_reader.read(PIECE)
                self.answers_lost += 1
            else:
                await pump(up_reader, writer)
        finally:
            upwards.cancel()
            up_writer.transport.abort()


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copies what comes until nothing more does."""
    while piece := await reader.read(PIECE):
        writer.write(piece)
        await writer.drain()
