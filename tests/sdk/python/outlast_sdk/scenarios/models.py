"""When the model fails."""

from __future__ import annotations

import anthropic

from ..registry import scenario
from ..world import World, of, one, refused, text, types


@scenario("model.error.retried")
async def retried(w: World) -> None:
    script = [{"text": "At last.", "error": {"status": 529, "times": 2, "retry_after_ms": 20}}]
    async with w.talk() as talk:
        heard = await talk.turn(script)
    errors = of(heard, "session.error")
    assert errors and all(event.error.type == "model_overloaded_error" for event in errors)
    assert {event.error.retry_status.type for event in errors} == {"retrying"}
    order = types(heard)
    assert order.index("session.error") < order.index("session.status_rescheduled")
    assert order.count("session.status_rescheduled") == order.count("session.status_running") - 1
    assert text(one(heard, "agent.message")) == "At last."
    assert heard[-1].stop_reason.type == "end_turn"
    spans = of(heard, "span.model_request_end")
    assert [bool(event.is_error) for event in spans] == [True, True, False]


@scenario("model.error.midway")
async def midway(w: World) -> None:
    script = [{"content": [{"filler": 50}], "error": {"midway": True, "times": 1}}]
    async with w.talk(event_deltas=["agent.message"]) as talk:
        heard = await talk.turn(script)
    (message,) = of(heard, "agent.message")
    starts = [event.event.id for event in of(heard, "event_start")]
    assert message.id in starts and len(set(starts)) == len(starts), "a repeat has its own id"
    assert heard[-1].stop_reason.type == "end_turn"


@scenario("model.error.dropped")
async def dropped(w: World) -> None:
    script = [{"text": "Whole at last.", "error": {"drop": True, "times": 1}}]
    async with w.talk() as talk:
        heard = await talk.turn(script)
    assert text(one(heard, "agent.message")) == "Whole at last."


@scenario("model.error.exhausted")
async def exhausted(w: World) -> None:
    script = [{"text": "Never.", "error": {"status": 429, "retry_after_ms": 5}}]
    async with w.talk() as talk:
        heard = await talk.turn(script)
        errors = of(heard, "session.error")
        assert {event.error.type for event in errors} == {"model_rate_limited_error"}
        assert [event.error.retry_status.type for event in errors][-1] == "exhausted"
        assert heard[-1].stop_reason.type == "retries_exhausted"
        heard = await talk.turn([{"text": "Well again."}])
    assert text(one(heard, "agent.message")) == "Well again."
    assert heard[-1].stop_reason.type == "end_turn"


@scenario("model.error.not_retryable")
async def not_retryable(w: World) -> None:
    """What no retry can mend ends the turn at once, in words, and the session goes on."""
    async with w.talk() as talk:
        heard = await talk.turn([{"error": {"status": 400, "message": "No such thing."}}])
        error = of(heard, "session.error")[-1].error
        assert error.type == "model_request_failed_error"
        assert error.retry_status.type == "exhausted" and error.message
        assert heard[-1].stop_reason.type == "retries_exhausted"
        heard = await talk.turn([{"text": "On we go."}])
    assert text(one(heard, "agent.message")) == "On we go."


@scenario("model.error.billing")
async def billing(w: World) -> None:
    async with w.talk() as talk:
        heard = await talk.turn([{"error": {"status": 402}}])
    (event,) = of(heard, "session.error")
    assert event.error.type == "billing_error"
    assert event.error.retry_status.type in ("exhausted", "terminal")


@scenario("model.unknown")
async def unknown(w: World) -> None:
    """A model that nothing here serves is refused where it is named."""
    error = await refused(w.agent(model="no-such-model"), anthropic.BadRequestError)
    assert "no-such-model" in str(error)
    agent, environment = await w.agent(), await w.environment()
    override = {"type": "agent_with_overrides", "id": agent.id, "model": "no-such-model"}
    work = w.api.sessions.create(agent=override, environment_id=environment)
    assert "no-such-model" in str(await refused(work, anthropic.BadRequestError))
