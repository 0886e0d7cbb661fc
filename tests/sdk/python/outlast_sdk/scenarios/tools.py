"""Calls: in the sandbox, by the client, with and without permission."""

from __future__ import annotations

import json

import anthropic

from ..registry import scenario
from ..world import World, call, custom, of, one, refused, text, toolset, types

ASK = {"permission_policy": {"type": "always_ask"}}


@scenario("tools.bash")
async def bash(w: World) -> None:
    """One whole session: think, run commands in a real sandbox, answer."""
    script = [
        {"text": "I look.", "calls": [call("bash", command="cd /tmp && export A=1 && pwd")]},
        {"calls": [call("bash", command='echo "$A in $PWD"; echo oops >&2; false')]},
        {"text": "There is: {{results}}"},
    ]
    async with w.talk(toolset()) as talk:
        heard = await talk.turn(script)
    uses, results = of(heard, "agent.tool_use"), of(heard, "agent.tool_result")
    assert [use.name for use in uses] == ["bash", "bash"]
    assert uses[0].input == {"command": "cd /tmp && export A=1 && pwd"}
    assert all(use.evaluated_permission == "allow" for use in uses)
    assert [result.tool_use_id for result in results] == [use.id for use in uses]
    assert text(results[0]).strip() == "/tmp" and not results[0].is_error
    assert "1 in /tmp" in text(results[1]) and "oops" in text(results[1]), "the shell goes on"
    assert results[1].is_error, "a command that fails is an error"
    assert "1 in /tmp" in text(of(heard, "agent.message")[-1])
    assert len(of(heard, "span.model_request_start")) == 3


@scenario("tools.files")
async def files(w: World) -> None:
    script = [
        {"calls": [call("write", file_path="a/b.txt", content="one\ntwo\nthree\n")]},
        {"calls": [call("edit", file_path="a/b.txt", old_string="two", new_string="2")]},
        {"calls": [call("read", file_path="a/b.txt")]},
        {"calls": [call("read", file_path="a/b.txt", view_range=[2, 2])]},
        {"calls": [call("glob", pattern="**/*.txt")]},
        {"calls": [call("grep", pattern="^thr")]},
        {"calls": [call("read", file_path="nowhere")]},
        {"calls": [call("write", file_path="/tmp/far", content="off")]},
        {"text": "Done."},
    ]
    async with w.talk(toolset()) as talk:
        heard = await talk.turn(script)
    results = of(heard, "agent.tool_result")
    assert [bool(result.is_error) for result in results] == [False] * 6 + [True, False]
    words = [text(result) for result in results]
    assert "a/b.txt" in words[0] and "a/b.txt" in words[1]
    assert words[2] == "one\n2\nthree\n" and words[3].strip() == "2"
    assert "b.txt" in words[4] and "three" in words[5]
    assert "no such file" in words[6].lower()


@scenario("tools.several_calls")
async def several_calls(w: World) -> None:
    script = [
        {
            "calls": [
                call("bash", command="sleep 0.3; echo slow"),
                call("read", file_path="/nowhere"),
                call("glob", pattern="*"),
                call("bash", command="echo last"),
            ]
        },
        {"text": "0: {{results.0}} 1: {{results.1}} 3: {{results.3}}"},
    ]
    async with w.talk(toolset()) as talk:
        heard = await talk.turn(script)
    uses, results = of(heard, "agent.tool_use"), of(heard, "agent.tool_result")
    assert [event.tool_use_id for event in results] == [event.id for event in uses]
    assert len(uses) == 4 and results[1].is_error
    said = text(one(heard, "agent.message"))
    assert "slow" in said and "last" in said and said.index("slow") < said.index("last")
    order = types(heard)
    assert order.index("span.model_request_end") < order.index("agent.tool_result")


@scenario("tools.custom")
async def custom_tool(w: World) -> None:
    script = [{"calls": [call("lookup", word="a"), call("lookup", word="b")]}, {"text": "{{results}}"}]
    async with w.talk(custom()) as talk:
        heard = await talk.turn(script)
        uses = of(heard, "agent.custom_tool_use")
        assert [(use.name, use.input) for use in uses] == [
            ("lookup", {"word": "a"}), ("lookup", {"word": "b"})
        ]
        assert heard[-1].stop_reason.type == "requires_action"
        assert heard[-1].stop_reason.event_ids == [use.id for use in uses]
        (first,) = await talk.send(result(uses[1].id, "second"))
        assert first.processed_at is not None, "processed on receipt"
        partly = await talk.idle()
        assert partly[-1].stop_reason.event_ids == [uses[0].id], "what is left"
        await talk.send(result(uses[0].id, "first", is_error=True))
        heard = await talk.idle()
        said = text(one(heard, "agent.message"))
        assert said.index("first") < said.index("second")
        again = talk.send(result(uses[0].id, "once more"))
        await refused(again, anthropic.BadRequestError)
    assert heard[-1].stop_reason.type == "end_turn"


def result(id: str, words: str, **more: object) -> dict[str, object]:
    content = [{"type": "text", "text": words}]
    return {"type": "user.custom_tool_result", "custom_tool_use_id": id, "content": content, **more}


@scenario("tools.ask.allow")
async def ask_allow(w: World) -> None:
    async with w.talk(toolset(default_config=ASK)) as talk:
        heard = await talk.turn([{"calls": [call("bash", command="echo ran")]}, {"text": "{{results}}"}])
        use = one(heard, "agent.tool_use")
        assert use.evaluated_permission == "ask"
        assert heard[-1].stop_reason.event_ids == [use.id]
        assert not of(heard, "agent.tool_result")
        await talk.send(confirm(use.id, "allow"))
        heard = await talk.idle()
    assert one(heard, "user.tool_confirmation").result == "allow"
    assert text(one(heard, "agent.tool_result")).strip() == "ran"
    assert "ran" in text(one(heard, "agent.message"))


@scenario("tools.ask.deny")
async def ask_deny(w: World) -> None:
    async with w.talk(toolset(default_config=ASK)) as talk:
        heard = await talk.turn([{"calls": [call("bash", command="echo ran")]}, {"text": "{{results}}"}])
        use = one(heard, "agent.tool_use")
        await talk.send(confirm(use.id, "deny", deny_message="Use a copy."))
        heard = await talk.idle()
        denied = one(heard, "agent.tool_result")
        assert (denied.tool_use_id, denied.is_error) == (use.id, True)
        assert "Use a copy." in text(denied)
        assert "Use a copy." in text(one(heard, "agent.message"))
        await refused(talk.send(confirm(use.id, "allow")), anthropic.BadRequestError)
        bad = talk.send(confirm(use.id, "allow", deny_message="no"))
        await refused(bad, anthropic.BadRequestError)


@scenario("tools.ask.partial")
async def ask_partial(w: World) -> None:
    script = [
        {"calls": [call("bash", command=f"echo {n}") for n in range(3)]},
        {"text": "{{results}}"},
    ]
    async with w.talk(toolset(default_config=ASK)) as talk:
        heard = await talk.turn(script)
        ids = [use.id for use in of(heard, "agent.tool_use")]
        assert heard[-1].stop_reason.event_ids == ids
        await talk.send(confirm(ids[1], "allow"))
        partly = await talk.idle()
        assert partly[-1].stop_reason.type == "requires_action"
        assert partly[-1].stop_reason.event_ids == [ids[0], ids[2]]
        await talk.send(confirm(ids[2], "deny"), confirm(ids[0], "allow"))
        heard = await talk.until(
            lambda event: event.type == "session.status_idle"
            and event.stop_reason.type == "end_turn"
        )
    results = of(talk.heard, "agent.tool_result")
    assert sorted(event.tool_use_id for event in results) == sorted(ids)
    told = {event.tool_use_id: bool(event.is_error) for event in results}
    assert told == {ids[0]: False, ids[1]: False, ids[2]: True}
    assert one(heard, "agent.message")


def confirm(id: str, verdict: str, **more: object) -> dict[str, object]:
    return {"type": "user.tool_confirmation", "tool_use_id": id, "result": verdict, **more}


@scenario("tools.ask.auto")
async def ask_auto(w: World) -> None:
    """There is no judge yet, so `auto` asks, and says why."""
    kit = toolset(default_config={"permission_policy": {"type": "auto"}})
    async with w.talk(kit) as talk:
        heard = await talk.turn([{"calls": [call("bash", command="echo ran")]}, {"text": "Done."}])
        use = one(heard, "agent.tool_use")
        await talk.send(confirm(use.id, "allow"))
        await talk.idle()
    assert use.evaluated_permission == "ask"
    evaluation = use.model_dump()["evaluation"]
    assert evaluation["type"] == "auto"
    assert evaluation["evaluated_permission"] == {"type": "ask", "reason_code": "indeterminate"}


@scenario("tools.web")
async def web(w: World) -> None:
    """Web tools are stored with their settings, and not offered."""
    configs = [
        {"name": "web_fetch", "allowed_domains": ["example.com"], "max_content_tokens": 1000},
        {"name": "web_search", "blocked_domains": ["example.org"]},
    ]
    async with w.talk(toolset(configs=configs)) as talk:
        session = await w.api.sessions.retrieve(talk.id)
        heard = await talk.turn([{"text": "{{tools}}"}])
    stored = {entry.name: entry for entry in session.agent.tools[0].configs}
    assert stored["web_fetch"].model_dump()["allowed_domains"] == ["example.com"]
    offered = text(one(heard, "agent.message"))
    assert "bash" in offered and "web" not in offered, offered


@scenario("tools.not_enabled")
async def not_enabled(w: World) -> None:
    only = toolset(default_config={"enabled": False}, configs=[{"name": "read", "enabled": True}])
    async with w.talk(only) as talk:
        heard = await talk.turn(
            [{"calls": [call("bash", command="echo ran")]}, {"text": "{{tools}} | {{results}}"}]
        )
    use, told = one(heard, "agent.tool_use"), one(heard, "agent.tool_result")
    assert use.evaluated_permission == "deny" and told.is_error
    assert text(one(heard, "agent.message")).startswith("read | ")


@scenario("tools.big_output")
async def big_output(w: World) -> None:
    script = [
        {"calls": [call("bash", command="yes 0123456789abcdef | head -c 30000000")]},
        {"calls": [call("bash", command="echo alive")]},
        {"text": "Done."},
    ]
    async with w.talk(toolset()) as talk:
        heard = await talk.turn(script)
    first, second = of(heard, "agent.tool_result")
    assert 1000 < len(text(first)) <= 110_000
    assert text(second).strip() == "alive"
    json.dumps(first.model_dump(mode="json"))


@scenario("tools.runner")
async def runner(w: World) -> None:
    """The client's own helper answers calls of a custom tool, over the stream it opens itself."""
    from anthropic import beta_async_tool

    @beta_async_tool
    async def lookup(word: str) -> str:
        """Looks up.

        Args:
            word: What to look up.
        """
        return f"{word} means {word[::-1]}"

    session = await w.session(custom())
    script = [
        {"calls": [call("lookup", word="abc")]},
        {"calls": [call("lookup", word="xyz"), call("lookup", word="opq")]},
        {"text": "{{results}}"},
    ]
    tools = w.raw.beta.sessions.events.tool_runner(session.id, tools=[lookup], max_idle=0.5)
    async with await w.follow(session.id) as talk:
        await talk.say(script)
        calls = [call async for call in tools]
        heard = await talk.until(
            lambda event: event.type == "session.status_idle"
            and event.stop_reason.type == "end_turn"
        )
    w.seen.calls.add("sessions.events.tool_runner")
    assert [(item.name, item.posted, item.is_error) for item in calls] == [
        ("lookup", True, False)
    ] * 3
    assert "zyx" in text(of(heard, "agent.message")[-1])
