"""One face for both clients of the package, so that a scenario is written once.

The synchronous client runs in threads, one call at a time; the asynchronous one is awaited. Either
way it is the client's own method that is called, with the arguments that the scenario gave, and each
object it returns is held to its type.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator
from typing import Any

import anthropic
from pydantic import BaseModel

from . import strict

END = object()


class Api:
    """A resource of the client, or the client itself."""

    def __init__(self, target: Any, seen: Seen, path: str = "") -> None:
        self._target, self._seen, self._path = target, seen, path

    def __getattr__(self, name: str) -> Any:
        inner = getattr(self._target, name)
        path = f"{self._path}.{name}".lstrip(".")
        if inspect.ismethod(inner) or inspect.isfunction(inner):
            return Method(inner, self._seen, path)
        if isinstance(inner, (str, int)) or inner is None:
            return inner
        return Api(inner, self._seen, path)

    def has(self, path: str) -> bool:
        """Tells whether this version of the client has a method or a resource."""
        target = self._target
        for name in path.split("."):
            if not hasattr(target, name):
                return False
            target = getattr(target, name)
        return True

    def takes(self, path: str, parameter: str) -> bool:
        """Tells whether a method of this version takes a parameter."""
        target = self._target
        for name in path.split("."):
            target = getattr(target, name)
        return parameter in inspect.signature(target).parameters


class Seen:
    """What a scenario has called, and which extra fields are registered."""

    def __init__(self, known: frozenset[str]) -> None:
        self.calls: set[str] = set()
        self.known = known

    def passing(self) -> Seen:
        """What is noted of calls whose answers are the model's own and pass the server as they are."""
        return Passing(self)

    def keep(self, path: str, value: Any) -> Any:
        try:
            strict.check(value, self.known)
        except strict.Mismatch as error:
            raise strict.Mismatch(f"{path}: {error}") from error
        return value


class Passing(Seen):
    """Holds nothing to its type: the server does not make what it only passes on."""

    def __init__(self, seen: Seen) -> None:
        self.calls, self.known = seen.calls, seen.known

    def keep(self, path: str, value: Any) -> Any:
        return value


class Method:
    """A method of the client."""

    def __init__(self, inner: Any, seen: Seen, path: str) -> None:
        self._inner, self._seen, self._path = inner, seen, path

    async def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._seen.calls.add(self._path)
        result = await call(self._inner, *args, **kwargs)
        if isinstance(result, (anthropic.Stream, anthropic.AsyncStream)):
            return Events(result, self._seen, self._path)
        if hasattr(result, "has_next_page"):
            return Page(result, self._seen, self._path)
        return self._seen.keep(self._path, result)


async def call(method: Any, *args: Any, **kwargs: Any) -> Any:
    """Calls a method of either client."""
    if inspect.iscoroutinefunction(method):
        return await method(*args, **kwargs)
    result = await asyncio.to_thread(method, *args, **kwargs)
    return await result if inspect.isawaitable(result) else result


class Page:
    """A page of a list; iterating goes through all pages, as the client does it."""

    def __init__(self, inner: Any, seen: Seen, path: str) -> None:
        self._inner, self._seen, self._path = inner, seen, path
        self.data = seen.keep(path, list(inner.data))
        self.next_page: str | None = getattr(inner, "next_page", None)
        self.prev_page: str | None = getattr(inner, "prev_page", None)
        self.extra = set(inner.model_extra or {}) - {"_request_id"}
        assert not self.extra, f"unknown fields of a page: {self.extra}"

    async def next(self) -> Page:
        return Page(await call(self._inner.get_next_page), self._seen, self._path)

    async def __aiter__(self) -> AsyncIterator[Any]:
        async for item in iterate(self._inner):
            yield self._seen.keep(self._path, item)


class Events:
    """An open stream of events."""

    def __init__(self, inner: Any, seen: Seen, path: str) -> None:
        self._inner, self._seen, self._path = inner, seen, path
        self._items = iterate(inner)
        self.response = inner.response

    async def __aiter__(self) -> AsyncIterator[Any]:
        async for event in self._items:
            assert isinstance(event, BaseModel), f"no model for {event!r}"
            yield self._seen.keep(self._path, event)

    async def frames(self) -> AsyncIterator[Any]:
        """Yields the frames themselves, as the client's own decoder reads them."""
        async for frame in iterate(self._inner._iter_events()):
            yield frame

    async def close(self) -> None:
        await call(self._inner.close)

    async def __aenter__(self) -> Events:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


async def iterate(inner: Any) -> AsyncIterator[Any]:
    """Goes through an iterable of either client."""
    if hasattr(inner, "__aiter__"):
        async for item in inner:
            yield item
        return
    items = iter(inner)
    while (item := await asyncio.to_thread(next, items, END)) is not END:
        yield item
