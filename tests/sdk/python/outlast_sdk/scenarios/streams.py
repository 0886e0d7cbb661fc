"""Streams: order, previews, reconnecting."""

from __future__ import annotations

import asyncio

import anthropic
from anthropic.lib.sessions import accumulate_managed_agents_event

from ..registry import scenario
from ..world import PATIENCE, World, call, message, of, one, refused, text, toolset, types

NORMAL = [
    "user.message",
    "session.status_running",
    "session.thread_status_running",
    "span.model_request_start",
    "agent.message",
    "span.model_request_end",
    "session.thread_status_idle",
    "session.usage",
    "session.status_idle",
]


@scenario("stream.normal_turn")
async def normal_turn(w: World) -> None:
    async with w.talk() as talk:
        heard = await talk.turn([{"text": "Hello.", "usage": {"input_tokens": 3, "output_tokens": 2}}])
    settled = [event for event in heard if event.processed_at]
    assert types(settled) == w.familiar(NORMAL)
    start, end = one(heard, "span.model_request_start"), one(heard, "span.model_request_end")
    assert end.model_request_start_id == start.id and not end.is_error
    assert (end.model_usage.input_tokens, end.model_usage.output_tokens) == (3, 2)
    assert text(one(heard, "agent.message")) == "Hello."
    idle = heard[-1]
    assert idle.stop_reason.type == "end_turn" and idle.stop_details is None
    if "session.usage" in w.familiar(NORMAL):
        assert one(heard, "session.usage").usage.output_tokens == 2
    thread = one(heard, "session.thread_status_running")
    assert thread.session_thread_id.startswith("sthr_") and thread.agent_name == "scenario"
    listed = w.familiar(await w.history(talk.id))
    assert [event.id for event in listed] == [event.id for event in settled]


@scenario("stream.previews")
async def previews(w: World) -> None:
    script = [
        {
            "thinking": "Hm.",
            "content": [{"text": "First words. "}, {"filler": 60}],
            "pace": {"tokens": 4, "ms": 5},
        }
    ]
    async with w.talk(event_deltas=["agent.message", "agent.thinking"]) as talk:
        heard = await talk.turn(script)
    starts = {event.event.id: event.event.type for event in of(heard, "event_start")}
    final, thinking = one(heard, "agent.message"), one(heard, "agent.thinking")
    assert starts == {thinking.id: "agent.thinking", final.id: "agent.message"}
    deltas = of(heard, "event_delta")
    assert len(deltas) > 3 and {delta.event_id for delta in deltas} == {final.id}
    snapshot = None
    for event in heard:
        if event.type == "agent.message":
            so_far = "".join(block.text for block in snapshot.content)
            assert so_far and text(event).startswith(so_far), "deltas are a prefix"
        snapshot = accumulate_managed_agents_event(snapshot, event)
    assert snapshot is not None and snapshot == final
    order = types(heard)
    assert order.index("span.model_request_start") < order.index("event_start")
    assert order.index("agent.message") > max(n for n, kind in enumerate(order) if kind == "event_delta")
    assert not of(await w.history(talk.id), "event_start"), "never kept"


@scenario("stream.previews.refused")
async def previews_refused(w: World) -> None:
    session = await w.session()
    bad = w.api.sessions.events.stream(session.id, event_deltas=["agent.tool_use"])
    assert "event_deltas" in str(await refused(bad, anthropic.BadRequestError))
    many = w.api.sessions.events.stream(session.id, event_deltas=["agent.message"] * 101)
    assert "100" in str(await refused(many, anthropic.BadRequestError))


@scenario("stream.previews.interrupted")
async def previews_interrupted(w: World) -> None:
    async with w.talk(event_deltas=["agent.message"]) as talk:
        await talk.say([{"content": [{"filler": 5000}], "pace": {"tokens": 1, "ms": 50}}])
        await talk.until("event_delta")
        await talk.send({"type": "user.interrupt"})
        heard = await talk.idle()
    assert not of(heard, "agent.message"), "partial output yields no message"
    assert one(heard, "span.model_request_end")
    assert heard[-1].stop_reason.type == "end_turn"


@scenario("stream.reconnect")
async def reconnect(w: World) -> None:
    """Open the stream, list the history, drop what was listed: nothing missed, nothing twice."""
    steps = [{"calls": [call("bash", command=f"echo {n}")]} for n in range(6)] + [{"text": "End."}]
    async with w.talk(toolset()) as talk:
        await talk.say(steps)
        known: dict[str, object] = {}
        done = False
        async with asyncio.timeout(PATIENCE):
            while not done:
                async with await w.follow(talk.id) as again:
                    for event in await w.history(talk.id):
                        known[event.id] = event
                        done |= event.type == "session.status_idle"
                    if done:
                        break
                    # Three new events, then the connection is lost again.
                    for _ in range(3):
                        (event,) = await again.until(lambda _: True)
                        if event.processed_at:
                            known[event.id] = event
                        if event.type == "session.status_idle":
                            done = True
                            break
        await talk.idle()
    listed = w.familiar(await w.history(talk.id))
    settled = w.familiar([event for event in known.values() if event.processed_at])
    assert {event.id for event in settled} == {event.id for event in listed}
    assert text(of(listed, "agent.message")[-1]) == "End."


@scenario("stream.last_event_id")
async def last_event_id(w: World) -> None:
    """Every frame of a logged event has an id; going on from any of them gives exactly the rest."""
    async with w.talk(toolset()) as talk:
        await talk.turn([{"calls": [call("bash", command="echo hi")]}, {"text": "Done."}])
    frames = await read_frames(w, talk.id, "0")
    assert [frame[1] for frame in frames] == [event.id for event in await w.history(talk.id)]
    positions = [int(frame[0]) for frame in frames]
    assert positions == sorted(set(positions))
    for n in range(0, len(frames) - 1, 2):
        assert await read_frames(w, talk.id, frames[n][0]) == frames[n + 1 :]
    for bad in ("x", "-1", str(positions[-1] + 1000)):
        work = w.api.sessions.events.stream(talk.id, extra_headers={"Last-Event-ID": bad})
        await refused(work, anthropic.BadRequestError)


async def read_frames(w: World, session: str, position: str) -> list[tuple[str, str]]:
    """Reads the position and the event id of each frame up to the end of the turn."""
    headers = {"Last-Event-ID": position}
    stream = await w.api.sessions.events.stream(session, extra_headers=headers)
    frames: list[tuple[str, str]] = []
    async with stream, asyncio.timeout(PATIENCE):
        async for frame in stream.frames():
            if frame.event == "ping":
                assert not frame.id
                continue
            assert frame.event == frame.json()["type"]
            frames.append((frame.id, frame.json()["id"]))
            if frame.event == "session.status_idle":
                break
    return frames


@scenario("stream.many_readers")
async def many_readers(w: World) -> None:
    async with w.talk() as talk:
        others = [await w.follow(talk.id) for _ in range(8)]
        await talk.turn([{"text": "To all."}])
        for other in others:
            heard = await other.idle()
            assert [event.id for event in heard] == [event.id for event in talk.heard]
            await other.events.close()


@scenario("stream.over_turns")
async def over_turns(w: World) -> None:
    async with w.talk() as talk:
        for n in range(3):
            heard = await talk.turn([{"text": f"Turn {n}."}])
            assert text(one(heard, "agent.message")) == f"Turn {n}."
            assert types(heard).count("session.status_running") == 1


@scenario("stream.no_backlog")
async def no_backlog(w: World) -> None:
    async with w.talk() as talk:
        await talk.turn([{"text": "Before."}])
        async with await w.follow(talk.id) as late:
            await talk.send(message([{"text": "After."}]))
            heard = await late.idle()
    assert [text(event) for event in of(heard, "agent.message")] == ["After."]
