"""What schemathesis has to know of this server, and what is counted of its answers."""

from __future__ import annotations

import atexit
import collections
import json
import os
import re
import threading
import uuid
from pathlib import Path
from typing import Any

import schemathesis

KEPT = set(os.environ["OUTLAST_SCHEMA_KEPT"].split(","))
"""Keys that must stay: revoking the one that asks would make every later answer a 401."""

NOBODY = "apikey_010000000000000000000000"

PARENTS: dict[str, str] = json.loads(os.environ["OUTLAST_SCHEMA_PARENTS"])
"""What is in what: of two ids in a path that are drawn apart the one is seldom in the other."""

WITHIN = {"credential_id": "vault_id", "resource_id": "session_id", "thread_id": "session_id"}

PLACES = {"mcp_server_url", "token_endpoint", "url"}
"""Fields that may name a server, which this one would ask."""

ADDRESS = re.compile(r"(https?://)[!\"$-.0->@-~]*([!-~]*)", re.IGNORECASE | re.ASCII)

KEY = re.compile(r"[ -~]{1,255}")

_counted: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
_lock = threading.Lock()


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    path = case.path_parameters or {}
    if path.get("key_id") in KEPT:
        path["key_id"] = NOBODY
    for inner, outer in WITHIN.items():
        if path.get(inner) in PARENTS:
            path[outer] = PARENTS[path[inner]]
    key = (case.headers or {}).get("Idempotency-Key")
    if isinstance(key, str) and KEY.fullmatch(key):
        # The same one for all would be refused from the second request on.
        case.headers["Idempotency-Key"] = uuid.uuid4().hex
    events = case.body.get("event_ids") if isinstance(case.body, dict) else None
    for event in events if isinstance(events, list) else ():
        path["session_id"] = PARENTS.get(str(event), path.get("session_id"))
    keep_here(case.body)


def keep_here(value: Any) -> None:
    """Has every address lead to this machine, where nobody listens: nothing that is made up here is asked."""
    if isinstance(value, dict):
        for name, inner in value.items():
            found = ADDRESS.fullmatch(inner) if name in PLACES and isinstance(inner, str) else None
            if found:
                value[name] = f"{found[1]}127.0.0.1:9{found[2]}"
            keep_here(inner)
    elif isinstance(value, list):
        for inner in value:
            keep_here(inner)


@schemathesis.hook
def filter_failure(context: Any, failure: Any, case: Any, response: Any) -> bool:
    # HTTP has everybody pass over headers that nobody knows.
    return "in header - object with unexpected properties" not in f"{failure.title} {failure.message}"


@schemathesis.hook
def after_call(context: Any, case: Any, response: Any) -> None:
    # Methods that a path does not have are tried under the name of one that it has.
    if response.request.method.lower() == case.operation.method.lower():
        with _lock:
            _counted[case.operation.label][str(response.status_code)] += 1


@atexit.register
def write() -> None:
    Path(os.environ["OUTLAST_SCHEMA_COUNTED"]).write_text(json.dumps(_counted))
