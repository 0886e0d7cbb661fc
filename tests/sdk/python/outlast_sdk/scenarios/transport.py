"""Headers, versions, request ids, repeats."""

from __future__ import annotations

import anthropic

from ..proxy import Proxy
from ..registry import scenario
from ..world import World, message, of, refused, types


@scenario("transport.request_ids")
async def request_ids(w: World) -> None:
    agent = await w.agent()
    assert agent._request_id and agent._request_id.startswith("req_")
    again = await w.api.agents.retrieve(agent.id)
    assert again._request_id != agent._request_id
    raw = await w.api.agents.with_raw_response.retrieve(agent.id)
    assert raw.headers["request-id"].startswith("req_")
    assert raw.headers["content-type"].startswith("application/json")
    error = await refused(w.api.agents.retrieve("agent_01nothing"), anthropic.NotFoundError)
    assert error.request_id.startswith("req_")


@scenario("transport.headers")
async def headers(w: World) -> None:
    """Both ways to send the key, both versions, any beta value."""
    agent = await w.agent()
    bearer = w.connect(api_key=None, auth_token=w.key)
    assert (await bearer.agents.retrieve(agent.id)).id == agent.id
    for version in ("2023-06-01", "2026-10-21"):
        client = w.connect(default_headers={"anthropic-version": version})
        assert (await client.agents.retrieve(agent.id)).id == agent.id
    odd = w.connect(default_headers={"anthropic-version": "1999-01-01"})
    await refused(odd.agents.retrieve(agent.id), anthropic.BadRequestError)
    found = await w.api.agents.retrieve(agent.id, betas=["made-up-2026-01-01"])
    assert found.id == agent.id
    found = await w.api.agents.retrieve(agent.id, extra_query={"beta": "true"})
    assert found.id == agent.id


@scenario("transport.retry.lost_answer")
async def lost_answer(w: World) -> None:
    """The server made the object, the answer was lost, the client tries again: one object."""
    agent, environment = await w.agent(), await w.environment()
    async with Proxy(w.url, cut_answers=frozenset({0})) as proxy:
        shaky = w.connect(base_url=proxy.url)
        made = await shaky.sessions.create(agent=agent.id, environment_id=environment)
        assert (proxy.answers_lost, proxy.connections) == (1, 2)
    page = await w.api.sessions.list(agent_id=agent.id)
    assert [item.id async for item in page] == [made.id]


@scenario("transport.retry.lost_send")
async def lost_send(w: World) -> None:
    async with w.talk() as talk:
        async with Proxy(w.url, cut_answers=frozenset({0})) as proxy:
            shaky = w.connect(base_url=proxy.url)
            answer = await shaky.sessions.events.send(
                talk.id, events=[message([{"text": "Once."}])]
            )
            assert proxy.answers_lost == 1
        await talk.idle()
    listed = await w.history(talk.id)
    assert [event.id for event in of(listed, "user.message")] == [answer.data[0].id]
    assert types(listed).count("agent.message") == 1


@scenario("transport.retry.lost_request")
async def lost_request(w: World) -> None:
    agent, environment = await w.agent(), await w.environment()
    async with Proxy(w.url, cut_requests=frozenset({0, 1})) as proxy:
        shaky = w.connect(base_url=proxy.url)
        made = await shaky.sessions.create(agent=agent.id, environment_id=environment)
        assert proxy.connections == 3
    page = await w.api.sessions.list(agent_id=agent.id)
    assert [item.id async for item in page] == [made.id]


@scenario("transport.twice_is_two")
async def twice_is_two(w: World) -> None:
    """The same request made twice on purpose is two objects."""
    agent, environment = await w.agent(), await w.environment()
    first = await w.api.sessions.create(agent=agent.id, environment_id=environment)
    second = await w.api.sessions.create(agent=agent.id, environment_id=environment)
    assert first.id != second.id
    key = {"Idempotency-Key": f"of-{agent.id}"}
    third = await w.api.sessions.create(
        agent=agent.id, environment_id=environment, extra_headers=key
    )
    fourth = await w.api.sessions.create(
        agent=agent.id, environment_id=environment, extra_headers=key
    )
    assert third.id == fourth.id, "unless an Idempotency-Key says they are one"
