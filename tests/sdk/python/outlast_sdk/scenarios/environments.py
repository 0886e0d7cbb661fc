"""Environments."""

from __future__ import annotations

import anthropic

from ..registry import scenario
from ..world import World, refused


@scenario("environments.create")
async def create(w: World) -> None:
    made = await w.api.environments.create(name="plain", description="d", metadata={"a": "1"})
    assert (made.type, made.name, made.description) == ("environment", "plain", "d")
    assert (made.metadata, made.archived_at) == ({"a": "1"}, None)
    assert (made.config.type, made.config.networking.type) == ("cloud", "unrestricted")
    packages = made.config.packages
    assert packages.apt == packages.cargo == packages.gem == packages.go == []
    assert packages.npm == packages.pip == []


@scenario("environments.networking")
async def networking(w: World) -> None:
    limited = {"type": "limited", "allowed_hosts": ["example.com", "*.example.org"]}
    made = await w.api.environments.create(
        name="limited", config={"type": "cloud", "networking": limited}
    )
    net = made.config.networking
    assert (net.type, net.allowed_hosts) == ("limited", ["example.com", "*.example.org"])
    assert (net.allow_mcp_servers, net.allow_package_managers) == (False, False)
    kept = await w.api.environments.update(
        made.id,
        config={"type": "cloud", "networking": {"type": "limited", "allow_mcp_servers": True}},
    )
    net = kept.config.networking
    assert net.allowed_hosts == ["example.com", "*.example.org"], "left out means unchanged"
    assert net.allow_mcp_servers is True
    bad = {"type": "limited", "allowed_hosts": ["https://example.com/x"]}
    error = await refused(
        w.api.environments.create(name="bad", config={"type": "cloud", "networking": bad}),
        anthropic.BadRequestError,
    )
    assert "allowed_hosts.0" in str(error)


@scenario("environments.retrieve")
async def retrieve(w: World) -> None:
    made = await w.api.environments.create(name="one")
    assert await w.api.environments.retrieve(made.id) == made


@scenario("environments.update")
async def update(w: World) -> None:
    made = await w.api.environments.create(name="a", metadata={"k": "1", "l": "2", "m": "3"})
    changed = await w.api.environments.update(
        made.id, name="b", description="now", metadata={"k": None, "l": "", "n": "4"}
    )
    assert (changed.name, changed.description) == ("b", "now")
    assert changed.metadata == {"m": "3", "n": "4"}, "null and empty delete a key"
    assert changed.updated_at > made.updated_at
    error = await refused(
        w.api.environments.update(made.id, config={"type": "self_hosted"}),
        anthropic.BadRequestError,
    )
    code = error.body["error"]["details"]["error_code"]
    assert code in ("invalid_config_type_change", "not_supported"), code


@scenario("environments.list")
async def listing(w: World) -> None:
    made = [(await w.api.environments.create(name=f"listed {n}")).id for n in range(4)]
    await w.api.environments.archive(made[1])
    page = await w.api.environments.list(limit=2)
    assert len(page.data) == 2 and page.next_page
    found = [item.id async for item in page]
    assert [id for id in found if id in made] == [made[3], made[2], made[0]]
    page = await w.api.environments.list(include_archived=True, limit=100)
    assert made[1] in [item.id async for item in page]


@scenario("environments.archive")
async def archive(w: World) -> None:
    made = await w.api.environments.create(name="old")
    gone = await w.api.environments.archive(made.id)
    again = await w.api.environments.archive(made.id)
    assert gone.archived_at is not None and again == gone, "repeating it changes nothing"
    error = await refused(
        w.api.environments.update(made.id, name="late"), anthropic.BadRequestError
    )
    assert error.body["error"]["details"]["error_code"] == "environment_archived"
    agent = await w.agent()
    work = w.api.sessions.create(agent=agent.id, environment_id=made.id)
    await refused(work, anthropic.BadRequestError)


@scenario("environments.delete")
async def delete(w: World) -> None:
    session = await w.session()
    used = session.environment_id
    await refused(w.api.environments.delete(used), anthropic.BadRequestError)
    await w.api.sessions.delete(session.id)
    answer = await w.api.environments.delete(used)
    assert (answer.id, answer.type) == (used, "environment_deleted")
    await refused(w.api.environments.retrieve(used), anthropic.NotFoundError)
