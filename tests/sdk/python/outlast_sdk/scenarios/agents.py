"""Agents and their versions."""

from __future__ import annotations

import anthropic

from ..registry import scenario
from ..world import World, custom, refused, toolset


@scenario("agents.create")
async def create(w: World) -> None:
    agent = await w.api.agents.create(name="plain", model="scripted")
    assert (agent.type, agent.name, agent.version) == ("agent", "plain", 1)
    assert (agent.model.id, agent.model.effort is not None) == ("scripted", True)
    assert (agent.tools, agent.mcp_servers, agent.skills, agent.metadata) == ([], [], [], {})
    assert (agent.description, agent.system, agent.archived_at) == (None, None, None)
    assert agent.created_at == agent.updated_at


@scenario("agents.create.full")
async def create_full(w: World) -> None:
    tools = [
        toolset(
            default_config={"enabled": False},
            configs=[
                {"name": "bash", "enabled": True, "permission_policy": {"type": "always_ask"}},
                {"name": "read", "enabled": True},
            ],
        ),
        custom("lookup"),
    ]
    agent = await w.api.agents.create(
        name="full",
        model={"id": "scripted", "effort": "low"},
        description="Everything at once.",
        system="Be brief.",
        tools=tools,
        metadata={"team": "a", "empty": ""},
    )
    assert (agent.description, agent.system) == ("Everything at once.", "Be brief.")
    assert agent.model.effort.type == "low"
    assert agent.metadata == {"team": "a", "empty": ""}
    kit, lookup = agent.tools
    assert kit.default_config.enabled is False
    assert kit.default_config.permission_policy.type == "always_allow"
    enabled = {entry.name: entry.enabled for entry in kit.configs}
    asked = {entry.name for entry in kit.configs if entry.permission_policy.type == "always_ask"}
    assert (enabled["bash"], enabled["read"], asked) == (True, True, {"bash"})
    assert (lookup.type, lookup.name, lookup.description) == ("custom", "lookup", "Looks up.")
    assert lookup.input_schema.properties == {"word": {"type": "string"}}


@scenario("agents.retrieve")
async def retrieve(w: World) -> None:
    agent = await w.agent(system="one")
    await w.api.agents.update(agent.id, system="two", version=1)
    newest = await w.api.agents.retrieve(agent.id)
    first = await w.api.agents.retrieve(agent.id, version=1)
    assert (newest.version, newest.system) == (2, "two")
    assert (first.version, first.system, first.id) == (1, "one", agent.id)
    await refused(w.api.agents.retrieve(agent.id, version=3), anthropic.NotFoundError)


@scenario("agents.update")
async def update(w: World) -> None:
    agent = await w.agent(description="d", system="s", metadata={"a": "1", "b": "2"})
    changed = await w.api.agents.update(
        agent.id,
        version=1,
        name="renamed",
        description=None,
        metadata={"a": None, "c": "3"},
        tools=[toolset(configs=[{"name": "bash", "enabled": False}])],
    )
    assert (changed.version, changed.name, changed.description) == (2, "renamed", None)
    assert (changed.metadata, changed.system) == ({"b": "2", "c": "3"}, "s")
    assert changed.tools[0].default_config.enabled is True
    (bash,) = [entry for entry in changed.tools[0].configs if entry.name == "bash"]
    assert (bash.enabled, bash.permission_policy.type) == (False, "always_allow")
    cleared = await w.api.agents.update(agent.id, version=2, tools=None, metadata=None)
    assert (cleared.version, cleared.tools, cleared.metadata) == (3, [], {"b": "2", "c": "3"})


@scenario("agents.update.no_change")
async def no_change(w: World) -> None:
    agent = await w.agent(system="s", metadata={"a": "1"})
    same = await w.api.agents.update(agent.id, version=1, system="s", metadata={"a": "1"})
    assert (same.version, same.updated_at) == (1, agent.updated_at)


@scenario("agents.update.conflict")
async def conflict(w: World) -> None:
    agent = await w.agent()
    await w.api.agents.update(agent.id, version=1, name="second")
    # The same fields as stored, under a stale version: a conflict all the same.
    stale = w.api.agents.update(agent.id, version=1, name="second")
    error = await refused(stale, anthropic.ConflictError)
    assert error.body["error"]["type"] == "conflict_error"
    assert error.response.headers["x-should-retry"] == "false"


@scenario("agents.archive")
async def archive(w: World) -> None:
    agent = await w.agent()
    gone = await w.api.agents.archive(agent.id)
    assert (gone.id, gone.archived_at is not None) == (agent.id, True)
    await refused(
        w.api.agents.update(agent.id, version=1, name="late"), anthropic.BadRequestError
    )
    work = w.api.sessions.create(agent=agent.id, environment_id=await w.environment())
    await refused(work, anthropic.BadRequestError)
    assert (await w.api.agents.retrieve(agent.id)).archived_at == gone.archived_at


@scenario("agents.list")
async def listing(w: World) -> None:
    made = [(await w.agent(name=f"listed {n}")) for n in range(5)]
    await w.api.agents.archive(made[2].id)
    since = made[0].created_at
    page = await w.api.agents.list(created_at_gte=since, limit=2)
    assert len(page.data) == 2 and page.next_page
    found = [agent.id async for agent in page]
    ours = [agent.id for agent in reversed(made) if agent is not made[2]]
    assert [id for id in found if id in ours] == ours, "newest first, archived ones left out"
    page = await w.api.agents.list(created_at_gte=since, include_archived=True)
    assert made[2].id in [agent.id async for agent in page]
    until = await w.api.agents.list(created_at_gte=since, created_at_lte=made[1].created_at)
    ids = [agent.id async for agent in until]
    assert made[0].id in ids and made[4].id not in ids


@scenario("agents.versions.list")
async def versions(w: World) -> None:
    agent = await w.agent(system="0")
    for n in range(1, 5):
        await w.api.agents.update(agent.id, version=n, system=str(n))
    page = await w.api.agents.versions.list(agent.id, limit=2)
    found = [(item.version, item.system) async for item in page]
    assert found == [(5, "4"), (4, "3"), (3, "2"), (2, "1"), (1, "0")]
