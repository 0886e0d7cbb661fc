"""Every class of error that this server gives, as the client raises it."""

from __future__ import annotations

from typing import Any

import anthropic

from ..registry import scenario
from ..world import World, custom, message, refused, toolset


def inner(error: Any) -> dict[str, Any]:
    """The error object of the body, after a look at what surrounds it."""
    body = error.body
    assert body["type"] == "error" and body["request_id"] == error.request_id
    assert error.request_id.startswith("req_"), error.request_id
    assert error.response.headers["content-type"].startswith("application/json")
    return body["error"]


@scenario("errors.authentication")
async def authentication(w: World) -> None:
    stranger = w.connect(api_key="not-the-key-of-this-server")
    error = await refused(stranger.agents.list(), anthropic.AuthenticationError)
    assert inner(error)["type"] == "authentication_error"


@scenario("errors.not_found")
async def not_found(w: World) -> None:
    session = await w.session()
    for work in (
        w.api.agents.retrieve("agent_01nothing"),
        w.api.environments.retrieve("env_01nothing"),
        w.api.sessions.retrieve("sesn_01nothing"),
        w.api.sessions.events.list("sesn_01nothing"),
        w.api.sessions.events.stream("sesn_01nothing"),
        w.api.sessions.threads.events.stream("sthr_01nothing", session_id=session.id),
        w.api.agents.update("agent_01nothing", version=1),
        w.api.sessions.archive("sesn_01nothing"),
    ):
        error = await refused(work, anthropic.NotFoundError)
        assert inner(error)["type"] == "not_found_error"


@scenario("errors.bad_request")
async def bad_request(w: World) -> None:
    cases = {
        "name": w.api.agents.create(name="", model="scripted"),
        "name: ": w.api.agents.create(name="x" * 257, model="scripted"),
        "system": w.api.agents.create(name="x", model="scripted", system="x" * 100_001),
        "tools.1": w.api.agents.create(name="x", model="scripted", tools=[toolset(), {"type": "no"}]),
        "effort": w.api.agents.create(name="x", model={"id": "scripted", "effort": "huge"}),
        "limit": w.api.agents.list(limit=101),
        "order": w.api.sessions.list(order="sideways"),
        "statuses": w.api.sessions.list(statuses=["asleep"]),
        "created_at": w.api.sessions.list(created_at_gt="yesterday"),
        "agent_version": w.api.sessions.list(agent_version=1),
    }
    for field, work in cases.items():
        error = await refused(work, anthropic.BadRequestError)
        assert inner(error)["type"] == "invalid_request_error"
        assert field.strip(": ") in inner(error)["message"], inner(error)["message"]


@scenario("errors.unknown_fields")
async def unknown_fields(w: World) -> None:
    """A field or parameter that means nothing here is named, never dropped."""
    session = await w.session()
    text = {"type": "text", "text": "x", "colour": "red"}
    cases = {
        "colour": w.api.agents.create(name="x", model="scripted", extra_body={"colour": 1}),
        "colour ": w.api.agents.list(extra_query={"colour": "red"}),
        "events.0.content.0.colour": w.api.sessions.events.send(
            session.id, events=[{"type": "user.message", "content": [text]}]
        ),
        "tools.0.colour": w.api.agents.create(
            name="x", model="scripted", tools=[{**custom(), "colour": 1}]
        ),
        "colour  ": w.api.sessions.events.list(session.id, extra_query={"colour": "red"}),
        "colour   ": w.api.sessions.events.stream(session.id, extra_query={"colour": "red"}),
    }
    for field, work in cases.items():
        error = await refused(work, anthropic.BadRequestError)
        assert field.strip() in inner(error)["message"], inner(error)["message"]


@scenario("errors.not_supported")
async def not_supported(w: World) -> None:
    """What a later version brings is refused by name; null and empty pass."""
    agent, environment = await w.agent(), await w.environment()
    base = {"agent": agent.id, "environment_id": environment}
    session = await w.api.sessions.create(
        **base, vault_ids=[], resources=[], extra_body={"budget": None}
    )
    budget = {"type": "limit", "max_list_cost": {"amount": "100", "currency": "USD"}}
    server = {"type": "url", "name": "m", "url": "https://example.com/mcp"}
    outcome = {
        "type": "user.define_outcome",
        "description": "d",
        "rubric": {"type": "text", "content": "r"},
    }
    packages = {"type": "cloud", "packages": {"apt": ["jq"]}}
    cases = {
        "budget": w.api.sessions.create(**base, extra_body={"budget": budget}),
        "resources": w.api.sessions.create(
            **base, resources=[{"type": "memory_store", "memory_store_id": "memstore_01x"}]
        ),
        "mcp_servers": w.api.agents.create(name="x", model="scripted", mcp_servers=[server]),
        "tools.0.type": w.api.agents.create(
            name="x",
            model="scripted",
            tools=[{"type": "mcp_toolset", "mcp_server_name": "m"}],
        ),
        "skills": w.api.agents.create(
            name="x", model="scripted", skills=[{"type": "anthropic", "skill_id": "xlsx"}]
        ),
        "multiagent": w.api.agents.create(
            name="x",
            model="scripted",
            multiagent={"type": "coordinator", "agents": [{"type": "self"}]},
        ),
        "self-hosted": w.api.environments.create(name="x", config={"type": "self_hosted"}),
        "packages": w.api.environments.create(name="x", config=packages),
        "events.0.type": w.api.sessions.events.send(session.id, events=[outcome]),
        "events.0.type ": w.api.sessions.events.send(
            session.id, events=[{"type": "user.tool_result", "tool_use_id": "sevt_01x"}]
        ),
    }
    for field, work in cases.items():
        error = await refused(work, anthropic.BadRequestError)
        found = inner(error)
        assert found["details"]["error_code"] == "not_supported", found
        assert field.strip() in found["message"], found["message"]


@scenario("errors.invalid_metadata")
async def invalid_metadata(w: World) -> None:
    for metadata in (
        {str(n): "" for n in range(17)},
        {"k" * 65: "v"},
        {"k": "v" * 513},
    ):
        work = w.api.agents.create(name="x", model="scripted", metadata=metadata)
        error = await refused(work, anthropic.BadRequestError)
        assert inner(error)["details"]["error_code"] == "invalid_metadata"


@scenario("errors.typed_codes")
async def typed_codes(w: World) -> None:
    """Newer clients have a class for each error code; they find them."""
    gone = await w.api.environments.create(name="gone")
    await w.api.environments.archive(gone.id)
    environment = await w.environment()
    cases = {
        "BetaEnvironmentNotFoundError": w.api.environments.retrieve("env_01nothing"),
        "BetaEnvironmentArchivedError": w.api.environments.update(gone.id, name="late"),
        "BetaInvalidConfigTypeChangeError": w.api.environments.update(
            environment, config={"type": "self_hosted"}
        ),
        "BetaInvalidMetadataError": w.api.environments.update(environment, metadata={"k" * 65: "v"}),
    }
    for name, work in cases.items():
        error = await refused(work, anthropic.APIStatusError)
        assert type(error).__name__ == name, type(error).__name__
        assert error.error_code and error.details


@scenario("errors.conflict")
async def conflict(w: World) -> None:
    agent = await w.agent()
    work = w.api.agents.update(agent.id, version=7, name="x")
    error = await refused(work, anthropic.ConflictError)
    assert inner(error)["type"] == "conflict_error"


@scenario("errors.too_large")
async def too_large(w: World) -> None:
    session = await w.session()
    work = w.api.sessions.events.send(session.id, events=[message("x" * (33 * 1024 * 1024))])
    kind = getattr(anthropic, "ContentTooLargeError", None) or anthropic.APIStatusError
    try:
        await work
    except anthropic.APIStatusError as error:
        assert error.status_code == 413, error
        assert isinstance(error, kind) or type(error).__name__ == "RequestTooLargeError"
        assert inner(error)["type"] == "request_too_large"
        return
    raise AssertionError("33 MB were accepted")


@scenario("errors.later_parts")
async def later_parts(w: World) -> None:
    """Parts of the API that are not there yet say so under their own code."""
    environment = await w.environment()
    for work in (
        w.api.memory_stores.list(),
        w.api.deployments.list(),
        w.api.deployment_runs.list(),
        w.api.dreams.list(),
        w.api.environments.work.list(environment),
        w.api.environments.work.stats(environment),
        w.api.skills.list(),
    ):
        error = await refused(work, anthropic.NotFoundError)
        assert inner(error)["details"]["error_code"] == "not_supported", inner(error)
