"""What a scenario works with: a client, a server, and things made on it."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anthropic

from .client import Api, Events, Seen

PATIENCE = 60.0
"""Seconds until a scenario gives up waiting; generous, because nothing here measures speed."""

Wanted = str | Callable[[Any], bool]


class World:
    """One scenario's view of the client and the server."""

    def __init__(self, mode: str, url: str, key: str, known: frozenset[str]) -> None:
        self.mode, self.url, self.key = mode, url, key
        self.seen = Seen(known)
        self.clients: list[Any] = []
        self.api = self.connect()
        self.messages = Api(self.raw.messages, self.seen.passing(), "messages")
        self.models = Api(self.raw.models, self.seen, "models")
        self._environment: str | None = None

    def connect(self, **options: Any) -> Api:
        """Makes a client; `options` are those of its constructor."""
        kind = anthropic.AsyncAnthropic if self.mode == "async" else anthropic.Anthropic
        settings = {"base_url": self.url, "api_key": self.key, "max_retries": 2, **options}
        # A client that is older than a field cannot be strict about it; `strict` knows which those are.
        exact = not any(item.endswith("=null") for item in self.seen.known)
        client = kind(_strict_response_validation=exact, **settings)
        self.clients.append(client)
        return Api(client.beta, self.seen)

    def familiar(self, events: list[Any]) -> list[Any]:
        """Leaves out the events, or types of events, that are newer than this client.

        Older clients drop them from streams and misname them in lists.
        """
        return [item for item in events if getattr(item, "type", item) not in self.seen.known]

    @property
    def raw(self) -> Any:
        """The client itself, for its helpers."""
        return self.clients[0]

    async def agent(self, **fields: Any) -> Any:
        """Makes an agent; without `tools` it has none."""
        return await self.api.agents.create(**{"name": "scenario", "model": "scripted", **fields})

    async def environment(self) -> str:
        """Returns the id of this scenario's environment."""
        if self._environment is None:
            self._environment = (await self.api.environments.create(name="scenario")).id
        return self._environment

    async def session(self, *tools: Any, **fields: Any) -> Any:
        """Makes a session of a new agent with these tools."""
        agent = await self.agent(tools=list(tools))
        environment = await self.environment()
        return await self.api.sessions.create(
            **{"agent": agent.id, "environment_id": environment, **fields}
        )

    @asynccontextmanager
    async def talk(self, *tools: Any, **stream: Any) -> AsyncIterator[Talk]:
        """Makes a session and opens its stream."""
        session = await self.session(*tools)
        async with await self.follow(session.id, **stream) as talk:
            yield talk

    async def follow(self, session_id: str, **stream: Any) -> Talk:
        """Opens a stream of a session."""
        events = await self.api.sessions.events.stream(session_id, **stream)
        return Talk(self, session_id, events)

    async def history(self, session_id: str, **query: Any) -> list[Any]:
        """Lists all events of a session, page by page."""
        page = await self.api.sessions.events.list(session_id, **query)
        return [event async for event in page]

    async def streamed(self, **request: Any) -> tuple[str, Any]:
        """Has a message streamed by the client's helper; returns its text as it came, and all of it."""
        self.seen.calls.add("messages.stream")
        manager = self.raw.messages.stream(**request)
        if self.mode == "async":
            async with manager as stream:
                text = "".join([piece async for piece in stream.text_stream])
                return text, await stream.get_final_message()

        def whole() -> tuple[str, Any]:
            with manager as stream:
                return "".join(stream.text_stream), stream.get_final_message()

        return await asyncio.to_thread(whole)

    async def redact(self, session_id: str, event_ids: list[str], because: str) -> Any:
        """Erases what events say, by the client's own way to paths that it does not know."""
        path = f"/outlast/v1/sessions/{session_id}/redact"
        body = {"event_ids": event_ids, "because": because}
        answer = self.raw.post(path, body=body, cast_to=object)
        return await answer if inspect.isawaitable(answer) else answer


class Talk:
    """A session and an open stream of it."""

    def __init__(self, world: World, session_id: str, events: Events) -> None:
        self.world, self.id, self.events = world, session_id, events
        self._next = events.__aiter__()
        self.heard: list[Any] = []

    async def send(self, *events: dict[str, Any]) -> list[Any]:
        """Sends events and returns them as they were accepted."""
        answer = await self.world.api.sessions.events.send(self.id, events=list(events))
        return answer.data

    async def say(self, text: str | list[dict[str, Any]]) -> Any:
        """Sends a message; a list is a script for the model."""
        return (await self.send(message(text)))[0]

    async def until(self, wanted: Wanted) -> list[Any]:
        """Reads the stream up to an event of a type, or one that fits."""
        fits = wanted if callable(wanted) else lambda event: event.type == wanted
        found: list[Any] = []
        async with asyncio.timeout(PATIENCE):
            async for event in self._next:
                self.heard.append(event)
                found.append(event)
                if fits(event):
                    return found
        raise AssertionError(f"the stream ended before {wanted}: {types(found)}")

    async def idle(self) -> list[Any]:
        """Reads up to the end of the turn."""
        return await self.until("session.status_idle")

    async def turn(self, text: str | list[dict[str, Any]]) -> list[Any]:
        """Sends a message and reads up to the end of the turn."""
        await self.say(text)
        return await self.idle()

    async def __aenter__(self) -> Talk:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.events.close()


def message(text: str | list[dict[str, Any]]) -> dict[str, Any]:
    """Makes a message of the user; a list is a script for the model."""
    words = text if isinstance(text, str) else script(text)
    return {"type": "user.message", "content": [{"type": "text", "text": words}]}


def script(steps: list[dict[str, Any]]) -> str:
    """Writes a script down, so that it is found between other words too."""
    return f"```script\n{json.dumps(steps)}\n```"


def call(name: str, **given: Any) -> dict[str, Any]:
    """Makes a call of a script."""
    return {"name": name, "input": given}


def toolset(**fields: Any) -> dict[str, Any]:
    """The sandbox's tools."""
    return {"type": "agent_toolset_20260401", **fields}


def custom(name: str = "lookup") -> dict[str, Any]:
    """A tool that the client carries out."""
    schema = {"type": "object", "properties": {"word": {"type": "string"}}}
    return {"type": "custom", "name": name, "description": "Looks up.", "input_schema": schema}


def types(events: list[Any]) -> list[str]:
    """The types of events, in order."""
    return [event.type for event in events]


def of(events: list[Any], kind: str) -> list[Any]:
    """Those events that are of a type."""
    return [event for event in events if event.type == kind]


def one(events: list[Any], kind: str) -> Any:
    """The only event of a type."""
    found = of(events, kind)
    assert len(found) == 1, f"{len(found)} events of type {kind} in {types(events)}"
    return found[0]


def text(event: Any) -> str:
    """The text of an event's content."""
    return "".join(block.text for block in event.content or [] if block.type == "text")


async def refused(work: Any, kind: type[BaseException]) -> Any:
    """Awaits work that must be refused with this class of error, and returns the error.

    Classes that newer clients have for single error codes are below those of the statuses.
    """
    try:
        await work
    except anthropic.APIStatusError as error:
        named = f"{type(error).__name__} in place of {kind.__name__}: {error}"
        assert isinstance(error, kind), named
        return error
    raise AssertionError(f"{kind.__name__} was expected, but the call was accepted")
