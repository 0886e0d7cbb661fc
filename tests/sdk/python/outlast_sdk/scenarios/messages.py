"""The Messages API, by the same client and the same key."""

from __future__ import annotations

import anthropic

from ..registry import scenario
from ..world import World, call, refused, script


def asked(steps: list[dict[str, object]], **more: object) -> dict[str, object]:
    """A request whose conversation has its own script."""
    content = script(steps)
    return {
        "model": "scripted",
        "max_tokens": 200,
        "messages": [{"role": "user", "content": content}],
        **more,
    }


@scenario("messages.create")
async def create(w: World) -> None:
    message = await w.messages.create(**asked([{"text": "Hello."}]))
    assert (message.role, message.stop_reason) == ("assistant", "end_turn")
    assert [block.text for block in message.content] == ["Hello."]
    assert message.usage.input_tokens > 0 and message.usage.output_tokens > 0
    assert message._request_id.startswith("req_")


@scenario("messages.create.tools")
async def tools(w: World) -> None:
    tool = {"name": "lookup", "input_schema": {"type": "object"}}
    request = asked([{"calls": [call("lookup", word="sea")]}, {"text": "Found."}], tools=[tool])
    first = await w.messages.create(**request)
    assert first.stop_reason == "tool_use"
    (use,) = [block for block in first.content if block.type == "tool_use"]
    assert (use.name, use.input) == ("lookup", {"word": "sea"})
    said = [block.model_dump(exclude_none=True) for block in first.content]
    result = {"type": "tool_result", "tool_use_id": use.id, "content": "wide"}
    request["messages"] += [
        {"role": "assistant", "content": said},
        {"role": "user", "content": [result]},
    ]
    second = await w.messages.create(**request)
    assert [block.text for block in second.content] == ["Found."]


@scenario("messages.create.stream")
async def events(w: World) -> None:
    heard = []
    async with await w.messages.create(**asked([{"text": "Hello."}]), stream=True) as stream:
        async for event in stream:
            heard.append(event)
    kinds = [event.type for event in heard if event.type != "ping"]
    assert kinds[0] == "message_start" and kinds[-2:] == ["message_delta", "message_stop"]
    deltas = [event.delta.text for event in heard if event.type == "content_block_delta"]
    assert "".join(deltas) == "Hello."


@scenario("messages.stream")
async def stream(w: World) -> None:
    text, message = await w.streamed(**asked([{"text": "Hello, slowly."}]))
    assert text == "Hello, slowly."
    assert message.stop_reason == "end_turn" and message.usage.output_tokens > 0


@scenario("messages.count_tokens")
async def count_tokens(w: World) -> None:
    request = asked([{"text": "Hello."}])
    del request["max_tokens"]
    counted = await w.messages.count_tokens(**request)
    assert counted.input_tokens > 0


@scenario("messages.error")
async def error(w: World) -> None:
    """Refusals of the model and of the server are the client's own classes."""
    work = w.messages.create(**asked([{"error": {"status": 400, "message": "No such thing."}}]))
    assert "No such thing." in str(await refused(work, anthropic.BadRequestError))
    work = w.messages.create(**{**asked([]), "model": "no-such-model"})
    assert "no-such-model" in str(await refused(work, anthropic.NotFoundError))


@scenario("messages.error.retried")
async def retried(w: World) -> None:
    """What passes by itself is sent again by the client, as the model's own headers say."""
    steps = [{"text": "At last.", "error": {"status": 529, "times": 1, "retry_after_ms": 20}}]
    message = await w.messages.create(**asked(steps))
    assert [block.text for block in message.content] == ["At last."]


@scenario("models.list")
async def models(w: World) -> None:
    page = await w.models.list()
    listed = [model.id async for model in page]
    assert "scripted" in listed
    model = await w.models.retrieve("scripted")
    assert model.type == "model" and model.display_name
    await refused(w.models.retrieve("no-such-model"), anthropic.NotFoundError)
