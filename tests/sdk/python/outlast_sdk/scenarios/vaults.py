"""Vaults and the credentials in them."""

from __future__ import annotations

from typing import Any

import anthropic

from ..registry import scenario
from ..world import World, refused

SECRET = "canary-7c1f0d5e"
"""Stands for every secret of these scenarios; nothing that comes back may hold it."""

URL = "https://MCP.example.com/mcp/"


def bearer(url: str = URL) -> dict[str, Any]:
    return {"type": "static_bearer", "mcp_server_url": url, "token": SECRET}


def variable(**fields: Any) -> dict[str, Any]:
    return {
        "type": "environment_variable",
        "secret_name": "API_TOKEN",
        "secret_value": SECRET,
        "networking": {"type": "limited", "allowed_hosts": ["api.example.com", "*.example.org"]},
        **fields,
    }


def oauth(**fields: Any) -> dict[str, Any]:
    return {
        "type": "mcp_oauth",
        "mcp_server_url": "https://oauth.example.com/mcp",
        "access_token": SECRET,
        "expires_at": "2099-01-01T00:00:00Z",
        "refresh": {
            "client_id": "client",
            "refresh_token": SECRET,
            "token_endpoint": "https://login.example.com/token",
            "token_endpoint_auth": {"type": "client_secret_basic", "client_secret": SECRET},
            "scope": "read write",
        },
        **fields,
    }


async def vault(w: World, **fields: Any) -> str:
    return (await w.api.vaults.create(**{"display_name": "scenario", **fields})).id


async def credential(w: World, vault_id: str, auth: dict[str, Any], **fields: Any) -> Any:
    made = await w.api.vaults.credentials.create(vault_id, auth=auth, **fields)
    assert SECRET not in made.to_json(), "a secret came back"
    return made


@scenario("vaults.create")
async def create(w: World) -> None:
    made = await w.api.vaults.create(display_name="Ada", metadata={"user": "7"})
    assert (made.type, made.display_name, made.metadata) == ("vault", "Ada", {"user": "7"})
    assert made.id.startswith("vlt_") and made.archived_at is None
    assert made.created_at == made.updated_at
    for name in ("", "x" * 256):
        error = await refused(w.api.vaults.create(display_name=name), anthropic.BadRequestError)
        assert "display_name" in str(error)


@scenario("vaults.retrieve")
async def retrieve(w: World) -> None:
    made = await w.api.vaults.create(display_name="one")
    assert await w.api.vaults.retrieve(made.id) == made


@scenario("vaults.update")
async def update(w: World) -> None:
    made = await w.api.vaults.create(display_name="a", metadata={"k": "1", "l": "2"})
    changed = await w.api.vaults.update(made.id, display_name="b", metadata={"k": None, "n": "3"})
    assert (changed.display_name, changed.metadata) == ("b", {"l": "2", "n": "3"})
    assert changed.updated_at > made.updated_at
    assert await w.api.vaults.update(made.id, display_name="b") == changed, "nothing changed"


@scenario("vaults.list")
async def listing(w: World) -> None:
    made = [await vault(w, display_name=f"listed {n}") for n in range(4)]
    await w.api.vaults.archive(made[1])
    page = await w.api.vaults.list(limit=2)
    assert len(page.data) == 2 and page.next_page
    found = [item.id async for item in page]
    assert [id for id in found if id in made] == [made[3], made[2], made[0]]
    page = await w.api.vaults.list(include_archived=True, limit=100)
    assert made[1] in [item.id async for item in page]


@scenario("vaults.archive")
async def archive(w: World) -> None:
    id = await vault(w)
    held = await credential(w, id, bearer())
    gone = await w.api.vaults.archive(id)
    assert gone.archived_at is not None
    assert await w.api.vaults.archive(id) == gone, "repeating it changes nothing"
    with_it = await w.api.vaults.credentials.retrieve(held.id, vault_id=id)
    assert with_it.archived_at is not None, "its credentials go with it"
    await refused(w.api.vaults.update(id, display_name="late"), anthropic.BadRequestError)
    late = w.api.vaults.credentials.create(id, auth=variable())
    await refused(late, anthropic.BadRequestError)


@scenario("vaults.delete")
async def delete(w: World) -> None:
    id = await vault(w)
    held = await credential(w, id, bearer())
    answer = await w.api.vaults.delete(id)
    assert (answer.id, answer.type) == (id, "vault_deleted")
    await refused(w.api.vaults.retrieve(id), anthropic.NotFoundError)
    inner = w.api.vaults.credentials.retrieve(held.id, vault_id=id)
    await refused(inner, anthropic.NotFoundError)


@scenario("vaults.sessions")
async def sessions(w: World) -> None:
    one, two, closed = await vault(w), await vault(w), await vault(w)
    await w.api.vaults.archive(closed)
    session = await w.session(vault_ids=[two, one])
    assert session.vault_ids == [two, one], "in the order in which they are looked through"
    await w.api.vaults.archive(two)
    await w.api.vaults.delete(one)
    kept = await w.api.sessions.retrieve(session.id)
    assert kept.vault_ids == [two, one], "what becomes of a vault changes no session"
    await refused(w.session(vault_ids=[closed]), anthropic.BadRequestError)
    await refused(w.session(vault_ids=["vlt_01nothing"]), anthropic.NotFoundError)
    later = w.api.sessions.update(session.id, vault_ids=[closed])
    await refused(later, anthropic.BadRequestError)


@scenario("vaults.credentials.create")
async def credentials_create(w: World) -> None:
    id = await vault(w)
    made = await credential(w, id, bearer(), display_name="token", metadata={"k": "v"})
    assert (made.type, made.vault_id, made.display_name) == ("vault_credential", id, "token")
    assert (made.metadata, made.archived_at) == ({"k": "v"}, None)
    assert (made.auth.type, made.auth.mcp_server_url) == ("static_bearer", URL), "byte for byte"
    made = await credential(w, id, oauth())
    assert made.auth.expires_at.year == 2099 and made.display_name is None
    refresh = made.auth.refresh
    assert (refresh.client_id, refresh.scope) == ("client", "read write")
    assert refresh.token_endpoint_auth.type == "client_secret_basic" and refresh.resource is None
    bare = oauth(mcp_server_url="https://bare.example.com", expires_at=None, refresh=None)
    made = await credential(w, id, bare)
    assert (made.auth.expires_at, made.auth.refresh) == (None, None)
    made = await credential(w, id, variable())
    assert made.auth.networking.allowed_hosts == ["api.example.com", "*.example.org"]
    assert (made.auth.injection_location.header, made.auth.injection_location.body) == (True, True)
    header = variable(secret_name="B", injection_location={"header": True})
    made = await credential(w, id, header)
    assert (made.auth.injection_location.header, made.auth.injection_location.body) == (True, False)


@scenario("vaults.credentials.refused")
async def credentials_refused(w: World) -> None:
    id = await vault(w)
    cases = {
        "auth.token": {**bearer(), "token": ""},
        "auth.mcp_server_url": bearer("mcp.example.com"),
        "auth.expires_at": oauth(expires_at="2020-01-01T00:00:00Z"),
        "auth.networking.allowed_hosts": variable(
            networking={"type": "limited", "allowed_hosts": ["a.example.com"] * 17}
        ),
        "auth.networking.allowed_hosts.0": variable(
            networking={"type": "limited", "allowed_hosts": ["https://a.example.com"]}
        ),
        "auth.injection_location": variable(injection_location={"header": False, "body": False}),
    }
    for field, auth in cases.items():
        work = w.api.vaults.credentials.create(id, auth=auth)
        error = await refused(work, anthropic.BadRequestError)
        assert field in str(error) and SECRET not in str(error), error


@scenario("vaults.credentials.unique")
async def credentials_unique(w: World) -> None:
    id = await vault(w)
    first = await credential(w, id, bearer())
    work = w.api.vaults.credentials.create(id, auth=bearer())
    error = await refused(work, anthropic.ConflictError)
    assert error.response.headers["x-should-retry"] == "false"
    await w.api.vaults.credentials.archive(first.id, vault_id=id)
    await credential(w, id, bearer())
    for number in range(19):
        await credential(w, id, variable(secret_name=f"V{number}"))
    work = w.api.vaults.credentials.create(id, auth=variable(secret_name="V19"))
    await refused(work, anthropic.BadRequestError)
    await credential(w, await vault(w), bearer())


@scenario("vaults.credentials.retrieve")
async def credentials_retrieve(w: World) -> None:
    id, other = await vault(w), await vault(w)
    made = await credential(w, id, oauth())
    assert await w.api.vaults.credentials.retrieve(made.id, vault_id=id) == made
    work = w.api.vaults.credentials.retrieve(made.id, vault_id=other)
    await refused(work, anthropic.NotFoundError)


@scenario("vaults.credentials.update")
async def credentials_update(w: World) -> None:
    id = await vault(w)
    api = w.api.vaults.credentials
    made = await credential(w, id, variable(), metadata={"k": "1"})
    changed = await api.update(
        made.id,
        vault_id=id,
        display_name="named",
        metadata={"k": None, "l": "2"},
        auth={
            "type": "environment_variable",
            "secret_value": SECRET,
            "networking": {"type": "unrestricted"},
            "injection_location": {"body": False},
        },
    )
    assert (changed.display_name, changed.metadata) == ("named", {"l": "2"})
    assert changed.auth.networking.type == "unrestricted", "replaced as a whole"
    place = changed.auth.injection_location
    assert (place.header, place.body) == (True, False), "merged field by field"
    assert changed.updated_at > made.updated_at and SECRET not in changed.to_json()
    assert await api.update(made.id, vault_id=id) == changed, "nothing changed"
    made = await credential(w, id, oauth())
    token = {"type": "mcp_oauth", "access_token": SECRET, "refresh": {"scope": ""}}
    changed = await api.update(made.id, vault_id=id, auth=token)
    assert changed.auth.expires_at == made.auth.expires_at, "a new token keeps the old end"
    assert changed.auth.refresh.scope is None, "an empty scope clears it"
    wrong = api.update(made.id, vault_id=id, auth={"type": "static_bearer", "token": SECRET})
    error = await refused(wrong, anthropic.BadRequestError)
    assert "auth.type" in str(error) and SECRET not in str(error)


@scenario("vaults.credentials.list")
async def credentials_list(w: World) -> None:
    id = await vault(w)
    made = [(await credential(w, id, variable(secret_name=f"V{n}"))).id for n in range(4)]
    await w.api.vaults.credentials.archive(made[1], vault_id=id)
    await credential(w, await vault(w), bearer())
    page = await w.api.vaults.credentials.list(id, limit=2)
    assert len(page.data) == 2 and page.next_page
    assert [item.id async for item in page] == [made[3], made[2], made[0]]
    page = await w.api.vaults.credentials.list(id, include_archived=True)
    assert [item.id async for item in page] == made[::-1]
    nowhere = w.api.vaults.credentials.list("vlt_01nothing")
    await refused(nowhere, anthropic.NotFoundError)


@scenario("vaults.credentials.archive")
async def credentials_archive(w: World) -> None:
    id = await vault(w)
    made = await credential(w, id, bearer())
    gone = await w.api.vaults.credentials.archive(made.id, vault_id=id)
    assert gone.archived_at is not None and gone.auth == made.auth
    again = await w.api.vaults.credentials.archive(made.id, vault_id=id)
    assert again == gone, "repeating it changes nothing"
    token = {"type": "static_bearer", "token": SECRET}
    late = w.api.vaults.credentials.update(made.id, vault_id=id, auth=token)
    await refused(late, anthropic.BadRequestError)


@scenario("vaults.credentials.delete")
async def credentials_delete(w: World) -> None:
    id = await vault(w)
    made = await credential(w, id, bearer())
    answer = await w.api.vaults.credentials.delete(made.id, vault_id=id)
    assert (answer.id, answer.type) == (made.id, "vault_credential_deleted")
    work = w.api.vaults.credentials.retrieve(made.id, vault_id=id)
    await refused(work, anthropic.NotFoundError)


@scenario("vaults.credentials.mcp_oauth_validate")
async def credentials_validate(w: World) -> None:
    id = await vault(w)
    # Nobody answers at that port, so nobody can tell.
    made = await credential(w, id, oauth(mcp_server_url="http://127.0.0.1:9/mcp"))
    tried = await w.api.vaults.credentials.mcp_oauth_validate(made.id, vault_id=id)
    assert (tried.type, tried.status) == ("vault_credential_validation", "unknown")
    assert (tried.credential_id, tried.vault_id) == (made.id, id)
    assert tried.has_refresh_token is True and tried.refresh is None
    assert (tried.mcp_probe.method, tried.mcp_probe.http_response) == ("initialize", None)
    assert SECRET not in tried.to_json()
    other = await credential(w, id, bearer())
    work = w.api.vaults.credentials.mcp_oauth_validate(other.id, vault_id=id)
    await refused(work, anthropic.BadRequestError)
