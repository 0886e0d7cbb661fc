"""Files: uploaded, mounted in sessions, made by agents, named in messages."""

from __future__ import annotations

import inspect
from typing import Any

import anthropic

from ..registry import scenario
from ..world import World, call, of, one, refused, script, text, toolset

UNKNOWN = "file_010000000000000000000001"
UPLOADS = "/mnt/session/uploads"


async def upload(w: World, name: str = "a.txt", content: bytes = b"hello\n", kind: str = "text/plain") -> Any:
    return await w.api.files.upload(file=(name, content, kind))


async def content(w: World, id: str) -> bytes:
    answer = await w.api.files.download(id)
    found = answer.read()
    return await found if inspect.isawaitable(found) else found


def code(error: Any) -> str:
    return error.body["error"]["details"]["error_code"]


def mount(id: str, path: str | None = None) -> dict[str, Any]:
    given = {} if path is None else {"mount_path": path}
    return {"type": "file", "file_id": id, **given}


@scenario("files.upload")
async def uploads(w: World) -> None:
    made = await upload(w, "some/where/a b.csv", b"1,2\n", "text/csv")
    assert (made.type, made.filename, made.mime_type, made.size_bytes) == (
        "file", "a b.csv", "text/csv", 4
    )
    assert (made.downloadable, made.scope) == (False, None)
    empty = await upload(w, "empty.bin", b"", "application/octet-stream")
    assert empty.size_bytes == 0 and empty.id != made.id
    strange = await upload(w, "\U0001f980 '$(x)\".txt")
    assert strange.filename == "\U0001f980 '$(x)\".txt"
    large = bytes(range(256)) * 20_000
    assert (await upload(w, "large.bin", large)).size_bytes == len(large)


@scenario("files.upload.expiry")
async def expiry(w: World) -> None:
    made = await w.api.files.upload(file=("a", b"x"), expires_in_seconds=3600)
    assert (made.expires_at - made.created_at).total_seconds() == 3600
    for bad in (3599, 7_776_001):
        work = w.api.files.upload(file=("a", b"x"), expires_in_seconds=bad)
        assert "expires_in_seconds" in str(await refused(work, anthropic.BadRequestError))


@scenario("files.retrieve_metadata")
async def retrieve(w: World) -> None:
    made = await upload(w)
    assert await w.api.files.retrieve_metadata(made.id) == made
    await refused(w.api.files.retrieve_metadata(UNKNOWN), anthropic.NotFoundError)


@scenario("files.list")
async def listing(w: World) -> None:
    made = [(await upload(w)).id for _ in range(5)]
    page = await w.api.files.list(limit=2)
    assert len(page.data) == 2
    found = [file.id async for file in page]
    assert [id for id in found if id in made] == made[::-1]
    session = await w.session()
    assert (await w.api.files.list(scope_id=session.id)).data == []


@scenario("files.list.ids")
async def by_ids(w: World) -> None:
    made = [(await upload(w)).id for _ in range(3)]
    page = await w.api.files.list(ids=[made[0], UNKNOWN, made[2], made[0]])
    assert [file.id for file in page.data] == [made[2], made[0]] and page.next_page is None
    work = w.api.files.list(ids=made, limit=2)
    await refused(work, anthropic.BadRequestError)


@scenario("files.delete")
async def delete(w: World) -> None:
    made = await upload(w)
    gone = await w.api.files.delete(made.id)
    assert (gone.id, gone.type) == (made.id, "file_deleted")
    for work in (w.api.files.retrieve_metadata(made.id), w.api.files.delete(made.id)):
        await refused(work, anthropic.NotFoundError)


@scenario("files.download.refused")
async def kept(w: World) -> None:
    made = await upload(w)
    error = await refused(w.api.files.download(made.id), anthropic.BadRequestError)
    assert code(error) == "file_not_downloadable"
    await refused(w.api.files.download(UNKNOWN), anthropic.NotFoundError)


@scenario("files.session")
async def whole(w: World) -> None:
    data = bytes(range(256)) * 300
    given = await upload(w, "in.bin", data, "application/octet-stream")
    session = await w.session(toolset(), resources=[mount(given.id, "/data/in.bin")])
    steps = [
        {"calls": [call("bash", command=f"echo x > {UPLOADS}/data/new")]},
        {"calls": [call("bash", command=f"cd /mnt/session/outputs && cat {UPLOADS}/data/in.bin "
                        f"{UPLOADS}/data/in.bin > out.bin && mkdir sub && echo hi > 'sub/a b.txt'")]},
        {"text": "Done."},
    ]
    async with await w.follow(session.id) as talk:
        heard = await talk.turn(steps)
        results = of(heard, "agent.tool_result")
        assert "Read-only file system" in text(results[0]) and not results[1].is_error
        files = {file.filename: file async for file in await w.api.files.list(scope_id=session.id)}
        made = {name: file for name, file in files.items() if file.downloadable}
        assert set(made) == {"out.bin", "sub/a b.txt"}
        assert all(file.scope.id == session.id for file in files.values())
        assert await content(w, made["out.bin"].id) == data * 2
        assert await content(w, made["sub/a b.txt"].id) == b"hi\n"
        again = [{"calls": [call("bash", command="echo new > /mnt/session/outputs/out.bin")]}, {"text": "Done."}]
        await talk.turn(again)
    # Listing by session waits for what is being published.
    await w.api.files.list(scope_id=session.id)
    assert await content(w, made["out.bin"].id) == b"new\n"
    await w.api.sessions.delete(session.id)
    await refused(w.api.files.retrieve_metadata(made["out.bin"].id), anthropic.NotFoundError)


@scenario("files.message")
async def message(w: World) -> None:
    image = await upload(w, "a.gif", b"GIF89a\x01\x00\x01\x00\x00\x00\x00;", "image/gif")
    paper = await upload(w, "a.pdf", b"%PDF-1.7\n", "application/pdf")
    sources = [("image", image.id), ("document", paper.id)]
    blocks = [{"type": kind, "source": {"type": "file", "file_id": id}} for kind, id in sources]
    words = {"type": "text", "text": script([{"text": "Seen."}])}
    async with w.talk() as talk:
        (sent,) = await talk.send({"type": "user.message", "content": [*blocks, words]})
        assert [block.source.file_id for block in sent.content[:2]] == [image.id, paper.id]
        heard = await talk.idle()
        assert text(one(heard, "agent.message")) == "Seen."
        for kind, id in (("image", paper.id), ("document", UNKNOWN)):
            block = {"type": kind, "source": {"type": "file", "file_id": id}}
            work = talk.send({"type": "user.message", "content": [block]})
            error = await refused(work, anthropic.APIStatusError)
            assert error.status_code in (400, 404) and "content.0.source.file_id" in str(error)


@scenario("sessions.resources.create")
async def create(w: World) -> None:
    given = await upload(w)
    session = await w.session(toolset(), resources=[mount(given.id), mount(given.id, "/a/b.txt")])
    assert [item.type for item in session.resources] == ["file", "file"]
    paths = [item.mount_path for item in session.resources]
    assert paths == [f"{UPLOADS}/{given.id}", f"{UPLOADS}/a/b.txt"]
    copies = {item.file_id for item in session.resources}
    assert len(copies) == 2 and given.id not in copies
    scoped = {file.id async for file in await w.api.files.list(scope_id=session.id)}
    assert scoped == copies


@scenario("sessions.resources.add")
async def add(w: World) -> None:
    given, session = await upload(w), await w.session()
    one_ = await w.api.sessions.resources.add(session.id, **mount(given.id))
    two = await w.api.sessions.resources.add(session.id, **mount(given.id, "/x//y.txt"))
    assert one_.mount_path == f"{UPLOADS}/{given.id}" and two.mount_path == f"{UPLOADS}/x/y.txt"
    found = await w.api.sessions.resources.retrieve(one_.id, session_id=session.id)
    assert found == one_
    shown = await w.api.sessions.retrieve(session.id)
    assert [item.id for item in shown.resources] == [one_.id, two.id]


@scenario("sessions.resources.list")
async def resources(w: World) -> None:
    given, session = await upload(w), await w.session()
    made = [
        (await w.api.sessions.resources.add(session.id, **mount(given.id, f"/{n}"))).id
        for n in range(5)
    ]
    page = await w.api.sessions.resources.list(session.id)
    assert [item.id for item in page.data] == made and page.next_page is None
    page = await w.api.sessions.resources.list(session.id, limit=2)
    assert len(page.data) == 2 and [item.id async for item in page] == made


@scenario("sessions.resources.delete")
async def unmount(w: World) -> None:
    given, session = await upload(w), await w.session()
    made = await w.api.sessions.resources.add(session.id, **mount(given.id))
    await refused(w.api.files.delete(made.file_id), anthropic.BadRequestError)
    gone = await w.api.sessions.resources.delete(made.id, session_id=session.id)
    assert (gone.id, gone.type) == (made.id, "session_resource_deleted")
    work = w.api.sessions.resources.retrieve(made.id, session_id=session.id)
    await refused(work, anthropic.NotFoundError)
    await refused(w.api.files.retrieve_metadata(made.file_id), anthropic.NotFoundError)
    assert (await w.api.files.retrieve_metadata(given.id)).id == given.id


@scenario("sessions.resources.refused")
async def bad(w: World) -> None:
    given, session = await upload(w), await w.session()
    made = await w.api.sessions.resources.add(session.id, **mount(given.id, "/a"))
    add = w.api.sessions.resources.add
    for path in ("/a", "/a/b", "/../b", "b"):
        await refused(add(session.id, **mount(given.id, path)), anthropic.BadRequestError)
    await refused(add(session.id, **mount(UNKNOWN)), anthropic.NotFoundError)
    update = w.api.sessions.resources.update
    work = update(made.id, session_id=session.id, authorization_token="x")
    await refused(work, anthropic.BadRequestError)
    store = {"type": "memory_store", "memory_store_id": "memstore_1"}
    error = await refused(w.session(resources=[store]), anthropic.BadRequestError)
    assert code(error) == "not_supported"
