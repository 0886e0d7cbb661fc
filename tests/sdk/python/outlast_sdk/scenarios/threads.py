"""The primary thread, through the thread endpoints."""

from __future__ import annotations

import anthropic

from ..registry import scenario
from ..world import World, message, one, refused, text


@scenario("threads.list")
async def listing(w: World) -> None:
    session = await w.session()
    page = await w.api.sessions.threads.list(session.id)
    (thread,) = [item async for item in page]
    assert (thread.type, thread.session_id, thread.status) == ("session_thread", session.id, "idle")
    assert thread.parent_thread_id is None and thread.archived_at is None
    assert (thread.agent.type, thread.agent.id) == ("agent", session.agent.id)
    page = await w.api.sessions.threads.list(session.id, limit=1)
    assert page.next_page is None


@scenario("threads.list.statuses")
async def statuses(w: World) -> None:
    session = await w.session()
    running = await w.api.sessions.threads.list(session.id, statuses=["running"])
    idle = await w.api.sessions.threads.list(session.id, statuses=["idle", "running"])
    assert (len(running.data), len(idle.data)) == (0, 1)


@scenario("threads.retrieve")
async def retrieve(w: World) -> None:
    async with w.talk() as talk:
        heard = await talk.turn([{"text": "Hi.", "usage": {"output_tokens": 5}}])
    id = one(heard, "session.thread_status_running").session_thread_id
    thread = await w.api.sessions.threads.retrieve(id, session_id=talk.id)
    assert (thread.id, thread.status) == (id, "idle")
    assert thread.usage.output_tokens == 5 and thread.stats.active_seconds > 0
    await refused(
        w.api.sessions.threads.retrieve("sthr_01nothing", session_id=talk.id),
        anthropic.NotFoundError,
    )


@scenario("threads.archive")
async def archive(w: World) -> None:
    """The primary thread ends with its session; see the registry of divergences."""
    session = await w.session()
    (thread,) = (await w.api.sessions.threads.list(session.id)).data
    work = w.api.sessions.threads.archive(thread.id, session_id=session.id)
    error = await refused(work, anthropic.BadRequestError)
    assert session.id in str(error)


@scenario("threads.events.list")
async def events(w: World) -> None:
    async with w.talk() as talk:
        await talk.turn([{"text": "Hi."}])
    (thread,) = (await w.api.sessions.threads.list(talk.id)).data
    page = await w.api.sessions.threads.events.list(thread.id, session_id=talk.id, limit=4)
    assert [event async for event in page] == await w.history(talk.id)


@scenario("threads.events.stream")
async def stream(w: World) -> None:
    session = await w.session()
    (thread,) = (await w.api.sessions.threads.list(session.id)).data
    follow = await w.api.sessions.threads.events.stream(
        thread.id, session_id=session.id, event_deltas=["agent.message"]
    )
    heard = []
    async with follow:
        await w.api.sessions.events.send(session.id, events=[message([{"text": "On a thread."}])])
        async for event in follow:
            heard.append(event)
            if event.type == "session.status_idle":
                break
    assert text(one(heard, "agent.message")) == "On a thread."
    assert one(heard, "event_start").event.id == one(heard, "agent.message").id
