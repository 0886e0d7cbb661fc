"""Opens a session's stream, lets it be silent, and hears what is said at last on the same connection."""

from __future__ import annotations

import os
import sys
import threading
import time

import anthropic


def main() -> int:
    silent = int(sys.argv[1])
    client = anthropic.Anthropic(
        base_url=os.environ["OUTLAST_TEST_URL"], api_key=os.environ["OUTLAST_TEST_KEY"], max_retries=0
    )
    sessions = client.beta.sessions
    agent = client.beta.agents.create(name="silent", model="claude-sonnet-4-5")
    environment = client.beta.environments.create(name="silent")
    session = sessions.create(agent=agent.id, environment_id=environment.id).id
    message = {"type": "user.message", "content": [{"type": "text", "text": "At last."}]}
    # Over a connection of its own: the stream has one for itself.
    speak = threading.Timer(silent, lambda: sessions.events.send(session, events=[message]))
    speak.start()
    began, heard = time.monotonic(), []
    with sessions.events.stream(session) as stream:
        for event in stream:
            heard.append((round(time.monotonic() - began, 1), event.type))
            if event.type == "user.message":
                break
    speak.join()
    print(f"heard: {heard}")
    spoken = [at for at, kind in heard if kind == "user.message"]
    early = [kind for at, kind in heard if at < silent - 1]
    return 0 if spoken and spoken[0] >= silent - 1 and not early else 1


if __name__ == "__main__":
    sys.exit(main())
