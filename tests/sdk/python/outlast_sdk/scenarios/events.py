"""Sending and listing events."""

from __future__ import annotations

import anthropic

from ..registry import scenario
from ..world import World, call, message, of, one, refused, script, text, toolset, types


@scenario("events.send")
async def send(w: World) -> None:
    async with w.talk() as talk:
        accepted = await talk.send(message("one"), message("two"))
        assert types(accepted) == ["user.message", "user.message"]
        assert len({event.id for event in accepted}) == 2
        assert [text(event) for event in accepted] == ["one", "two"]
        await talk.idle()
    listed = of(await w.history(talk.id), "user.message")
    assert [event.id for event in listed] == [event.id for event in accepted]
    assert all(event.processed_at for event in listed)


@scenario("events.send.all_or_nothing")
async def all_or_nothing(w: World) -> None:
    async with w.talk() as talk:
        confirmation = {
            "type": "user.tool_confirmation", "tool_use_id": "sevt_01nothing", "result": "allow"
        }
        error = await refused(
            talk.send(message("kept?"), confirmation), anthropic.BadRequestError
        )
        assert "events.1" in str(error)
    assert await w.history(talk.id) == []
    assert (await w.api.sessions.retrieve(talk.id)).status == "idle"


@scenario("events.send.content")
async def content(w: World) -> None:
    pixel = (
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
        "gg=="
    )
    blocks = [
        {"type": "text", "text": "Look: \u00e9\u4e2d\U0001f600"},
        {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": pixel},
        },
        {
            "type": "document",
            "title": "notes",
            "context": "old",
            "source": {"type": "text", "media_type": "text/plain", "data": "a\nb"},
        },
        {"type": "text", "text": script([{"text": "Seen: {{user}}"}])},
    ]
    async with w.talk() as talk:
        (accepted,) = await talk.send({"type": "user.message", "content": blocks})
        heard = await talk.idle()
    assert [block.type for block in accepted.content] == ["text", "image", "document", "text"]
    assert accepted.content[0].text == "Look: \u00e9\u4e2d\U0001f600"
    assert accepted.content[1].source.data == pixel
    assert (accepted.content[2].title, accepted.content[2].source.data) == ("notes", "a\nb")
    assert text(one(heard, "agent.message")).startswith("Seen: ")


@scenario("events.list")
async def listing(w: World) -> None:
    async with w.talk(toolset()) as talk:
        await talk.turn([{"calls": [call("bash", command="echo hi")]}, {"text": "Done."}])
        await talk.turn([{"text": "Again."}])
    listed = await w.history(talk.id)
    # The stream shows an input twice: when it arrived and when it was taken in.
    assert {event.id for event in talk.heard} == {event.id for event in w.familiar(listed)}
    assert len({event.id for event in listed}) == len(listed)
    times = [event.processed_at for event in listed]
    assert all(times) and times == sorted(times)
    backwards = await w.history(talk.id, order="desc")
    assert backwards == listed[::-1]
    assert await w.history(talk.id, limit=3) == listed, "page by page"
    assert await w.history(talk.id, limit=3, order="desc") == listed[::-1]
    kinds = ["agent.message", "user.message"]
    assert types(await w.history(talk.id, types=kinds)) == [
        "user.message", "agent.message", "user.message", "agent.message"
    ]
    middle = listed[len(listed) // 2].processed_at
    after = await w.history(talk.id, created_at_gt=middle)
    before = await w.history(talk.id, created_at_lte=middle)
    assert before + after == listed and after and before


@scenario("events.list.queued")
async def queued(w: World) -> None:
    async with w.talk() as talk:
        first = await talk.say([{"pause_ms": 60000, "text": "never"}])
        await talk.until("span.model_request_start")
        second = await talk.say([{"text": "Second."}])
        listed = await w.history(talk.id)
        waiting = [event for event in listed if event.processed_at is None]
        assert second.processed_at is None
        assert [event.id for event in waiting] == [second.id] == [listed[-1].id]
        timed = await w.history(talk.id, created_at_gt="2000-01-01T00:00:00Z")
        assert timed == listed[:-1], "what has no time fits no filter by time"
        assert first.id in [event.id for event in listed if event.processed_at]
        await talk.send({"type": "user.interrupt"})
        await talk.until(lambda event: event.type == "agent.message")
        assert text(talk.heard[-1]) == "Second."
        await talk.idle()


@scenario("events.send.invalid_states")
async def invalid_states(w: World) -> None:
    async with w.talk(toolset(default_config={"permission_policy": {"type": "always_ask"}})) as talk:
        assert await talk.send({"type": "user.interrupt"}), "a no-op when nothing runs"
        system = {"type": "system.message", "content": [{"type": "text", "text": "alone"}]}
        await refused(talk.send(system), anthropic.BadRequestError)
        result = {"type": "user.custom_tool_result", "custom_tool_use_id": "sevt_01nothing"}
        await refused(talk.send(result), anthropic.BadRequestError)
        redacted = {"type": "user.message", "content": [{"type": "redacted"}]}
        await refused(talk.send(redacted), anthropic.BadRequestError)
        idle = await talk.turn([{"calls": [call("bash", command="true")]}])
        assert idle[-1].stop_reason.type == "requires_action"
        error = await refused(talk.send(message("now?")), anthropic.BadRequestError)
        assert error.request_id
