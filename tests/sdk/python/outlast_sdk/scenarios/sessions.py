"""Sessions: making, reading, changing, ending."""

from __future__ import annotations

import anthropic

from ..registry import scenario
from ..world import World, message, of, one, refused, text, toolset


@scenario("sessions.create")
async def create(w: World) -> None:
    agent = await w.agent(system="v1")
    await w.api.agents.update(agent.id, version=1, system="v2")
    environment = await w.environment()
    newest = await w.api.sessions.create(
        agent=agent.id, environment_id=environment, title="t", metadata={"a": "1"}
    )
    assert (newest.type, newest.status, newest.title) == ("session", "idle", "t")
    assert (newest.metadata, newest.environment_id) == ({"a": "1"}, environment)
    assert (newest.agent.id, newest.agent.version, newest.agent.system) == (agent.id, 2, "v2")
    assert (newest.resources, newest.vault_ids, newest.outcome_evaluations) == ([], [], [])
    assert newest.usage.input_tokens in (0, None) and newest.stats is not None
    pinned = await w.api.sessions.create(
        agent={"type": "agent", "id": agent.id, "version": 1}, environment_id=environment
    )
    assert (pinned.agent.version, pinned.agent.system) == (1, "v1")
    assert pinned.title is None


@scenario("sessions.create.overrides")
async def overrides(w: World) -> None:
    agent = await w.agent(system="base", tools=[toolset()])
    environment = await w.environment()
    base = {"type": "agent_with_overrides", "id": agent.id}
    session = await w.api.sessions.create(
        agent={**base, "system": "mine", "tools": []}, environment_id=environment
    )
    assert (session.agent.system, session.agent.tools) == ("mine", [])
    assert (session.agent.id, session.agent.version) == (agent.id, 1), "they name the base"
    error = await refused(
        w.api.sessions.create(agent={**base, "model": None}, environment_id=environment),
        anthropic.BadRequestError,
    )
    assert error.body["error"]["details"]["error_code"] == "agent_model_required"


@scenario("sessions.create.initial_events")
async def initial_events(w: World) -> None:
    session = await w.session(initial_events=[message([{"text": "Hello."}]), message("more")])
    assert session.status == "running"
    async with await w.follow(session.id, extra_headers={"Last-Event-ID": "0"}) as talk:
        await talk.until(lambda event: len(of(talk.heard, "session.status_idle")) == 1)
    listed = await w.history(session.id)
    assert text(of(listed, "user.message")[1]) == "more"
    assert "Hello." in [text(event) for event in of(listed, "agent.message")]
    error = await refused(
        w.session(initial_events=[{"type": "user.interrupt"}]), anthropic.BadRequestError
    )
    assert "initial_events.0" in str(error)


@scenario("sessions.retrieve")
async def retrieve(w: World) -> None:
    async with w.talk() as talk:
        before = await w.api.sessions.retrieve(talk.id)
        await talk.turn([{"text": "Yes.", "usage": {"input_tokens": 11, "output_tokens": 7}}])
        after = await w.api.sessions.retrieve(talk.id)
    assert (before.status, after.status) == ("idle", "idle")
    assert (after.usage.input_tokens, after.usage.output_tokens) == (11, 7)
    assert after.stats.active_seconds > 0 and after.stats.duration_seconds > 0
    assert after.updated_at >= before.updated_at and after.archived_at is None


@scenario("sessions.update")
async def update(w: World) -> None:
    async with w.talk() as talk:
        changed = await w.api.sessions.update(
            talk.id, title="new", metadata={"a": "1"}, agent={"tools": [toolset()]}
        )
        said = (await talk.until("session.updated"))[-1]
        await w.api.sessions.update(talk.id, title="new")
        cleared = await w.api.sessions.update(talk.id, metadata={"a": None}, title=None)
        again = (await talk.until("session.updated"))[-1]
    assert (changed.title, changed.metadata) == ("new", {"a": "1"})
    assert changed.agent.tools[0].type == "agent_toolset_20260401"
    assert (said.title, said.metadata) == ("new", {"a": "1"})
    assert said.agent.tools[0].type == "agent_toolset_20260401"
    assert (cleared.title, cleared.metadata) == (None, {})
    assert "agent" not in again.model_fields_set, "only what changed"
    agent = await w.api.agents.retrieve(changed.agent.id)
    assert (agent.version, agent.tools) == (1, []), "the agent itself is as it was"


@scenario("sessions.list")
async def listing(w: World) -> None:
    agent, other = await w.agent(), await w.agent()
    environment = await w.environment()

    async def make(of: object) -> object:
        return await w.api.sessions.create(agent=of, environment_id=environment)

    made = [await make(agent.id) for _ in range(3)]
    await w.api.agents.update(agent.id, version=1, system="2")
    made.append(await make(agent.id))
    await make(other.id)
    await w.api.sessions.archive(made[1].id)

    async def ids(**query: object) -> list[str]:
        page = await w.api.sessions.list(agent_id=agent.id, **query)
        return [session.id async for session in page]

    order = [session.id for session in made]
    live = [order[0], order[2], order[3]]
    assert await ids() == live[::-1], "newest first, archived ones left out"
    assert await ids(order="asc") == live
    assert await ids(order="asc", include_archived=True) == order
    assert await ids(agent_version=2) == [order[3]]
    assert await ids(statuses=["running"]) == []
    assert await ids(statuses=["idle", "terminated"], include_archived=True) == order[::-1]
    assert await ids(created_at_gt=made[2].created_at) == [order[3]]
    assert await ids(created_at_lte=made[0].created_at) == [order[0]]
    assert await ids(limit=1, order="asc") == live, "page by page"
    assert await ids(deployment_id="depl_01nothing") == []


@scenario("sessions.archive")
async def archive(w: World) -> None:
    async with w.talk() as talk:
        gone = await w.api.sessions.archive(talk.id)
        heard = await talk.until("session.status_terminated")
    assert (gone.status, gone.archived_at is not None) == ("terminated", True)
    one(heard, "session.status_terminated")
    send = w.api.sessions.events.send(talk.id, events=[message("late")])
    await refused(send, anthropic.BadRequestError)
    assert of(await w.history(talk.id), "session.status_terminated"), "history stays"


@scenario("sessions.archive.running")
async def archive_running(w: World) -> None:
    async with w.talk() as talk:
        await talk.say([{"pause_ms": 60000, "text": "never"}])
        await talk.until("span.model_request_start")
        await refused(w.api.sessions.archive(talk.id), anthropic.BadRequestError)
        await refused(w.api.sessions.delete(talk.id), anthropic.BadRequestError)
        await talk.send({"type": "user.interrupt"})
        await talk.idle()
        assert (await w.api.sessions.archive(talk.id)).status == "terminated"


@scenario("sessions.delete")
async def delete(w: World) -> None:
    async with w.talk() as talk:
        await talk.turn([{"text": "Short life."}])
        answer = await w.api.sessions.delete(talk.id)
        await talk.until("session.deleted")
        rest = [event async for event in talk.events]
    assert (answer.id, answer.type) == (talk.id, "session_deleted")
    assert rest == [], "the stream ends"
    await refused(w.api.sessions.retrieve(talk.id), anthropic.NotFoundError)
    await refused(w.api.sessions.events.list(talk.id), anthropic.NotFoundError)
    await refused(w.api.sessions.events.stream(talk.id), anthropic.NotFoundError)
    await refused(w.api.sessions.delete(talk.id), anthropic.NotFoundError)
