"""Turns: what the agent says, and how it can end."""

from __future__ import annotations

import anthropic

from ..registry import scenario
from ..world import World, call, message, of, one, refused, text, toolset, types


@scenario("turn.thinking")
async def thinking(w: World) -> None:
    async with w.talk() as talk:
        heard = await talk.turn([{"thinking": "A secret thought.", "text": "Out loud."}])
    assert one(heard, "agent.thinking").id
    assert not any("secret" in event.model_dump_json() for event in of(heard, "agent.thinking"))
    order = types(heard)
    assert order.index("agent.thinking") < order.index("agent.message")


@scenario("turn.refusal")
async def refusal(w: World) -> None:
    async with w.talk() as talk:
        heard = await talk.turn(
            [{"text": "I", "refusal": {"category": "cyber", "explanation": "Not that."}}]
        )
        idle = heard[-1]
        assert idle.stop_reason.type == "refusal"
        assert idle.model_dump(warnings=False)["stop_details"] == {
            "type": "refusal", "category": "cyber", "explanation": "Not that."
        }
        after = await talk.turn([{"text": "Something else."}])
    assert after[-1].stop_reason.type == "end_turn"


@scenario("turn.max_tokens")
async def max_tokens(w: World) -> None:
    """An answer that was cut off is still an answer; a call that was cut off is an error to the model."""
    async with w.talk(toolset()) as talk:
        heard = await talk.turn([{"text": "Half a sent", "stop": "max_tokens"}])
        assert text(one(heard, "agent.message")) == "Half a sent"
        assert heard[-1].stop_reason.type == "end_turn"
        cut = {"calls": [call("write", file_path="a", content="long")], "cut": 12}
        heard = await talk.turn([cut, {"text": "I was told: {{results}}"}])
    assert "I was told: " in text(of(heard, "agent.message")[-1])
    assert heard[-1].stop_reason.type == "end_turn"


@scenario("turn.pause_turn")
async def pause_turn(w: World) -> None:
    async with w.talk() as talk:
        heard = await talk.turn([{"text": "One.", "stop": "pause_turn"}, {"text": "Two."}])
    assert [text(event) for event in of(heard, "agent.message")] == ["One.", "Two."]
    assert len(of(heard, "span.model_request_start")) == 2
    assert heard[-1].stop_reason.type == "end_turn"


@scenario("turn.messages_during")
async def messages_during(w: World) -> None:
    """What is sent during a turn waits, then is taken in, in order; nothing is left behind."""
    async with w.talk(toolset()) as talk:
        await talk.say(
            [{"calls": [call("bash", command="sleep 1; echo slow")]}, {"text": "A: {{user}}"}]
        )
        await talk.until("agent.tool_use")
        accepted = await talk.send(message("first"), message("second"))
        assert [event.processed_at for event in accepted] == [None, None]
        await talk.idle()
        while (await w.api.sessions.retrieve(talk.id)).status == "running":
            await talk.idle()
    listed = of(await w.history(talk.id), "user.message")
    assert [text(event) for event in listed[1:]] == ["first", "second"]
    assert all(event.processed_at for event in listed)
    positions = {event.id: n for n, event in enumerate(await w.history(talk.id))}
    result = of(talk.heard, "agent.tool_result")[0]
    assert positions[listed[1].id] > positions[result.id], "never in the middle of the turn"


@scenario("turn.system_message")
async def system_message(w: World) -> None:
    note = {"type": "system.message", "content": [{"type": "text", "text": "It is late."}]}
    async with w.talk() as talk:
        accepted = await talk.send(message([{"text": "{{messages}} messages"}]), note)
        heard = await talk.idle()
    assert types(accepted) == ["user.message", "system.message"]
    placed = [event for event in heard if event.type == "system.message" and event.processed_at]
    assert [text(event) for event in placed] == ["It is late."]
    assert text(one(heard, "agent.message")) == "2 messages"
    async with w.talk() as talk:
        await refused(talk.send(note, message("after")), anthropic.BadRequestError)


@scenario("turn.interrupt.running")
async def interrupt_running(w: World) -> None:
    async with w.talk() as talk:
        await talk.say([{"content": [{"filler": 5000}], "pace": {"tokens": 1, "ms": 50}}])
        await talk.until("span.model_request_start")
        await talk.send({"type": "user.interrupt"}, message([{"text": "Instead."}]))
        heard = await talk.idle()
        assert heard[-1].stop_reason.type == "end_turn"
        assert not of(heard, "agent.message")
        assert one(heard, "span.model_request_end")
        order = types([event for event in heard if event.processed_at])
        assert order.index("user.interrupt") < order.index("session.status_idle")
        heard = await talk.idle()
    assert text(one(heard, "agent.message")) == "Instead."


@scenario("turn.interrupt.tool")
async def interrupt_tool(w: World) -> None:
    async with w.talk(toolset()) as talk:
        await talk.say([{"calls": [call("bash", command="echo begun; sleep 600")]}])
        use = (await talk.until("agent.tool_use"))[-1]
        await talk.send({"type": "user.interrupt"})
        heard = await talk.idle()
        assert heard[-1].stop_reason.type == "end_turn"
        result = one(heard, "agent.tool_result")
        assert (result.tool_use_id, result.is_error) == (use.id, True)
        assert "interrupt" in text(result).lower()
        heard = await talk.turn([{"calls": [call("bash", command="echo again")]}, {"text": "Ok."}])
    result = one(heard, "agent.tool_result")
    assert text(result).strip() == "again" and not result.is_error


@scenario("turn.interrupt.requires_action")
async def interrupt_requires_action(w: World) -> None:
    ask = toolset(default_config={"permission_policy": {"type": "always_ask"}})
    async with w.talk(ask) as talk:
        heard = await talk.turn([{"calls": [call("bash", command="true"), call("glob", pattern="*")]}])
        uses = {event.id for event in of(heard, "agent.tool_use")}
        assert set(heard[-1].stop_reason.event_ids) == uses and len(uses) == 2
        await talk.send({"type": "user.interrupt"})
        heard = await talk.idle()
        assert heard[-1].stop_reason.type == "end_turn"
        results = of(heard, "agent.tool_result")
        assert {event.tool_use_id for event in results} == uses
        assert all(event.is_error for event in results)
        assert not of(heard, "span.model_request_start"), "the model is not called"
        # A message is always accepted afterwards.
        heard = await talk.turn([{"text": "Back."}])
    assert text(one(heard, "agent.message")) == "Back."


@scenario("turn.redacted")
async def redacted(w: World) -> None:
    said = ("user.message", "agent.tool_use", "agent.tool_result", "agent.message")
    async with w.talk(toolset()) as talk:
        script = [{"calls": [call("bash", command="echo canary")]}, {"text": "A canary."}]
        await talk.turn(script)
        before = await w.history(talk.id)
        ids = [event.id for event in before if event.type in said]
        assert len(ids) == 4
        answer = await w.redact(talk.id, ids, "a scenario")
        assert answer["event_ids"] == ids
        after = await w.history(talk.id)
        await talk.turn([{"text": "Goes on."}])
    assert [event.id for event in after] == [event.id for event in before]
    assert types(after) == types(before)
    async with await w.follow(talk.id, extra_headers={"Last-Event-ID": "0"}) as again:
        heard = await again.until(lambda event: event.id == after[-1].id)
    told = [event for event in [*after, *heard] if event.type in said]
    assert len(told) >= 8
    assert "canary" not in str(told)


@scenario("turn.usage")
async def usage(w: World) -> None:
    figures = {
        "input_tokens": 10,
        "output_tokens": 20,
        "cache_read_input_tokens": 30,
        "cache_creation_input_tokens": 40,
        "ephemeral_5m_input_tokens": 40,
    }
    async with w.talk() as talk:
        first = await talk.turn([{"text": "One.", "usage": figures}])
        second = await talk.turn([{"text": "Two.", "usage": figures}])
    span = one(second, "span.model_request_end").model_usage
    assert (span.cache_read_input_tokens, span.cache_creation_input_tokens) == (30, 40)
    snapshots = of(w.familiar([*first, *second]), "session.usage")
    assert len(snapshots) in (0, 2), "both, or none with a client that does not know them"
    for times, snapshot in enumerate(snapshots, 1):
        total = snapshot.usage
        assert total.input_tokens == 10 * times and total.output_tokens == 20 * times
        assert total.cache_read_input_tokens == 30 * times
        assert total.cache_creation.ephemeral_5m_input_tokens == 40 * times
        assert total.cache_creation.ephemeral_1h_input_tokens == 0
    assert (await w.api.sessions.retrieve(talk.id)).usage.output_tokens == 40
