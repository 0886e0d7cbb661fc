"""Something of every kind on a server, so that paths and bodies name what is there."""

from __future__ import annotations

import json
import time
import urllib.request
from typing import Any

PATIENCE = 60.0
"""Seconds for a turn."""

SCRIPT = [
    {"thinking": "hm", "text": "I look.", "calls": [{"name": "bash", "input": {"command": "echo hello"}}]},
    {"text": "I ask.", "calls": [{"name": "weather", "input": {"city": "Lisbon"}}]},
]
"""What the agent of the first session does: a call that runs, and one that a client has to answer."""

TOOLS = [
    {"type": "agent_toolset_20260401"},
    {"type": "custom", "name": "weather", "description": "Tells it.", "input_schema": {"type": "object"}},
]

WASTE = 12
"""Objects of each kind that may be deleted, archived and changed for good."""

LASTING = "(archive|revoke|deadlines)$"
"""Paths of what cannot be undone, beside `DELETE`."""


class Client:
    """Asks the server."""

    def __init__(self, url: str, key: str) -> None:
        self._url, self._key = url, key

    def ask(self, method: str, path: str, body: bytes | None = None, kind: str = "application/json") -> Any:
        headers = {"x-api-key": self._key, "content-type": kind}
        request = urllib.request.Request(f"{self._url}{path}", body, headers, method=method)
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.load(answer)

    def get(self, path: str) -> Any:
        return self.ask("GET", path)

    def post(self, path: str, body: Any) -> Any:
        return self.ask("POST", path, json.dumps(body).encode())

    def keys(self) -> list[str]:
        """Returns the ids of the keys that are there."""
        return [key["id"] for key in self.get("/outlast/v1/keys")["data"]]

    def upload(self) -> str:
        """Returns the id of a new file."""
        head = 'content-disposition: form-data; name="file"; filename="a.txt"\r\ncontent-type: text/plain'
        form = f"--edge\r\n{head}\r\n\r\nhello\r\n--edge--\r\n"
        return self.ask("POST", "/v1/files", form.encode(), "multipart/form-data; boundary=edge")["id"]


def text(words: str) -> dict[str, Any]:
    return {"type": "user.message", "content": [{"type": "text", "text": words}]}


def idle(asks: Client, session: str) -> None:
    """Waits for the end of a turn."""
    deadline = time.monotonic() + PATIENCE
    while asks.get(f"/v1/sessions/{session}")["status"] != "idle":
        if time.monotonic() > deadline:
            raise RuntimeError("the turn does not end")
        time.sleep(0.1)


class Made:
    """Ids by the name of their parameter."""

    def __init__(self, asks: Client, several: int) -> None:
        self._asks = asks
        self.ids: dict[str, list[str]] = {}
        self.parents: dict[str, str] = {}
        self._agents(several)
        self._vaults(several)
        self._sessions(several)
        self._put("file_id", [asks.upload() for _ in range(several)])

    def _put(self, name: str, ids: list[str]) -> None:
        self.ids.setdefault(name, []).extend(ids)

    def _agents(self, several: int) -> None:
        for n in range(several):
            agent = {"name": f"helper {n}", "model": "scripted", "tools": TOOLS}
            self._put("agent_id", [self._asks.post("/v1/agents", agent)["id"]])
            environment = {"name": f"plain {n}", "config": {"type": "cloud"}}
            self._put("environment_id", [self._asks.post("/v1/environments", environment)["id"]])
            key = {"name": f"key {n}", "scope": "read-only"}
            self._put("key_id", [self._asks.post("/outlast/v1/keys", key)["id"]])

    def _vaults(self, several: int) -> None:
        for n in range(several):
            vault = self._asks.post("/v1/vaults", {"display_name": f"vault {n}"})["id"]
            self._put("vault_id", [vault])
        # They are in a vault that nobody archives for its own sake.
        vault = self._asks.post("/v1/vaults", {"display_name": "of credentials"})["id"]
        for n in range(several):
            auth = {"type": "static_bearer", "mcp_server_url": f"https://{n}.example.com/", "token": "a-token"}
            # Nobody listens there, which a validation has to say.
            oauth = {"type": "mcp_oauth", "mcp_server_url": f"http://127.0.0.1:9/{n}", "access_token": "a-token"}
            made = self._asks.post(f"/v1/vaults/{vault}/credentials", {"auth": oauth if n % 2 else auth})
            self._put("credential_id", [made["id"]])
            self.parents[made["id"]] = vault

    def _sessions(self, several: int) -> None:
        agent, environment = self.ids["agent_id"][0], self.ids["environment_id"][0]
        repository = {"type": "github_repository", "url": "https://git.example.com/o/r", "authorization_token": "t"}
        body = {"agent": agent, "environment_id": environment}
        for n in range(several):
            self._put("session_id", [self._asks.post("/v1/sessions", {**body, "title": f"session {n}"})["id"]])
        # So are resources, in a session.
        files = [{"type": "file", "file_id": self._asks.upload(), "mount_path": f"/{n}"} for n in range(several)]
        made = self._asks.post("/v1/sessions", {**body, "resources": [*files, repository]})
        resources = [resource["id"] for resource in made["resources"]]
        self._put("resource_id", resources)
        self.parents.update(dict.fromkeys(resources, made["id"]))


def played(asks: Client, session: str) -> tuple[str, dict[str, list[str]]]:
    """Plays a turn in a session, and one to its end in another; returns that one, and ids of what came of both."""
    asks.post(f"/v1/sessions/{session}/events", {"events": [text(json.dumps({"script": SCRIPT}))]})
    idle(asks, session)
    threads = asks.get(f"/v1/sessions/{session}/threads")["data"]
    outputs = [{"calls": [{"name": "bash", "input": {"command": "echo hello >/mnt/session/outputs/a.txt"}}]}]
    other = asks.get(f"/v1/sessions/{session}")
    body = {"agent": other["agent"]["id"], "environment_id": other["environment_id"]}
    body["initial_events"] = [text(json.dumps({"script": outputs}))]
    made = asks.post("/v1/sessions", body)["id"]
    idle(asks, made)
    files = asks.get(f"/v1/files?scope_id={made}")["data"]
    events = asks.get(f"/v1/sessions/{made}/events")["data"]
    events = [event for event in events if event["type"] in ("user.message", "agent.tool_result")]
    return made, {
        "event_id": [event["id"] for event in events],
        "thread_id": [thread["id"] for thread in threads],
        "file_id": [file["id"] for file in files if file["downloadable"]],
    }


BODIES = {
    "body.agent": "agent_id",
    "body.environment_id": "environment_id",
    "body.file_id": "file_id",
    "body.event_ids[*]": "event_id",
    "body.vault_ids[*]": "vault_id",
    "body.model": "model",
}
"""What bodies name."""


class Scene:
    """What is there: some of it to stay, the rest to be deleted, archived and changed for good."""

    def __init__(self, asks: Client) -> None:
        self._kept, self._waste = Made(asks, 3), Made(asks, WASTE)
        # Not the first, which examples are sent to: this one waits for an answer.
        session = self._kept.ids["session_id"][-1]
        other, more = played(asks, session)
        more["model"] = ["scripted"]
        for name, ids in more.items():
            self._kept.ids.setdefault(name, []).extend(ids)
        self._kept.parents.update(dict.fromkeys(more["thread_id"], session))
        self._kept.parents.update(dict.fromkeys(more["event_id"], other))

    def parents(self) -> dict[str, str]:
        """Returns what is in what."""
        return {**self._kept.parents, **self._waste.parents}

    def filled(self, document: str) -> str:
        """Puts ids of what is there in the place of those in the document's examples."""
        for name in ("agent_id", "environment_id", "file_id", "vault_id"):
            there = self._kept.ids[name][0]
            prefix = there.split("_")[0]
            document = document.replace(f"{prefix}_010000000000000000000001", there)
        return document

    def configuration(self) -> str:
        """Returns what schemathesis has to know of it."""
        lasting = json.dumps(LASTING)
        out = [*_dictionaries("kept", self._kept.ids), *_dictionaries("waste", self._waste.ids)]
        kept = {**_paths("kept", self._kept.ids), **{place: f"kept_{name}" for place, name in BODIES.items()}}
        out += [f'[[operations]]\nexclude-method = "DELETE"\nexclude-path-regex = {lasting}', _parameters(kept)]
        waste = _parameters(_paths("waste", self._waste.ids))
        out += ['[[operations]]\ninclude-method = "DELETE"', waste]
        out += [f"[[operations]]\ninclude-path-regex = {lasting}", waste]
        return "\n" + "\n".join(out)


def _dictionaries(prefix: str, made: dict[str, list[str]]) -> list[str]:
    return [f'[dictionaries."{prefix}_{name}"]\nvalues = {json.dumps(ids)}' for name, ids in made.items()]


def _paths(prefix: str, made: dict[str, list[str]]) -> dict[str, str]:
    return {f"path.{name}": f"{prefix}_{name}" for name in made if name.endswith("_id") and name != "event_id"}


def _parameters(places: dict[str, str]) -> str:
    lines = [f'"{place}" = {{ dictionary = "{name}", probability = 0.8 }}' for place, name in places.items()]
    return "\n".join(["[operations.parameters]", *lines])
