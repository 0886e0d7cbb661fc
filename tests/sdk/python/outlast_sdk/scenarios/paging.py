"""Long lists, in both directions."""

from __future__ import annotations

import asyncio

import anthropic

from ..registry import scenario
from ..world import World, message, refused

MANY = 250


@scenario("paging.sessions")
async def sessions(w: World) -> None:
    agent, environment = await w.agent(), await w.environment()
    made = []
    slots = asyncio.Semaphore(8)

    async def make(n: int) -> None:
        async with slots:
            made.append(
                await w.api.sessions.create(
                    agent=agent.id, environment_id=environment, title=str(n)
                )
            )

    await asyncio.gather(*(make(n) for n in range(MANY)))
    expected = [item.id for item in sorted(made, key=lambda item: (item.created_at, item.id))]

    page = await w.api.sessions.list(agent_id=agent.id, limit=40)
    assert page.prev_page is None, "none before the first"
    forward, pages = [], [page]
    while True:
        forward += [item.id for item in page.data]
        if page.next_page is None:
            break
        page = await page.next()
        pages.append(page)
    assert forward == expected[::-1] and len(pages) == 7
    back = [pages[-1]]
    while back[-1].prev_page:
        back.append(
            await w.api.sessions.list(agent_id=agent.id, limit=40, page=back[-1].prev_page)
        )
    backward = [item.id for page in reversed(back) for item in page.data]
    assert backward == forward, "the same pages, the other way"
    assert [item.id async for item in await w.api.sessions.list(agent_id=agent.id)] == forward

    other_order = w.api.sessions.list(agent_id=agent.id, order="asc", page=pages[0].next_page)
    await refused(other_order, anthropic.BadRequestError)
    up = await w.api.sessions.list(agent_id=agent.id, order="asc", limit=100)
    assert [item.id async for item in up] == expected


@scenario("paging.events")
async def events(w: World) -> None:
    session = await w.session()
    texts = [str(n) for n in range(120)]
    script = message([{"text": "All of them."}])
    await w.api.sessions.events.send(
        session.id, events=[script, *(message(text) for text in texts)]
    )
    async with await w.follow(session.id, extra_headers={"Last-Event-ID": "0"}) as talk:
        await talk.idle()
    for limit in (1, 7, 1000):
        found = await w.history(session.id, types=["user.message"], limit=limit)
        assert [event.content[0].text for event in found[1:]] == texts
    await refused(w.api.sessions.events.list(session.id, limit=1001), anthropic.BadRequestError)
    await refused(w.api.sessions.events.list(session.id, limit=0), anthropic.BadRequestError)


@scenario("paging.foreign_cursors")
async def foreign_cursors(w: World) -> None:
    for _ in range(2):
        await w.agent()
    page = await w.api.agents.list(limit=1)
    for work in (
        w.api.agents.list(page="page_nonsense"),
        w.api.environments.list(page=page.next_page),
        w.api.sessions.list(page=page.next_page),
    ):
        error = await refused(work, anthropic.BadRequestError)
        assert "page" in str(error)
