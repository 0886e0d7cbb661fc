"""Several turns with a real model: streaming, usage, an interrupt, and on."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "sdk" / "python"))

import anthropic  # noqa: E402
from anthropic.lib.sessions import accumulate_managed_agents_event  # noqa: E402
from outlast_sdk import strict  # noqa: E402


class Conversation:
    """A session with a real model, and its stream."""

    def __init__(self, client: anthropic.Anthropic) -> None:
        self.sessions = client.beta.sessions
        agent = client.beta.agents.create(
            name="small", model="smollm2", system="You are a helpful assistant. Answer briefly."
        )
        environment = client.beta.environments.create(name="small")
        self.id = self.sessions.create(agent=agent.id, environment_id=environment.id).id
        self.stream = self.sessions.events.stream(self.id, event_deltas=["agent.message"])
        self.began = time.monotonic()

    def send(self, *events: dict[str, Any]) -> None:
        self.began = time.monotonic()
        self.sessions.events.send(self.id, events=list(events))

    def say(self, text: str) -> None:
        self.send({"type": "user.message", "content": [{"type": "text", "text": text}]})

    def until(self, *wanted: str) -> list[Any]:
        """Reads up to an event of one of these types."""
        heard = []
        for event in self.stream:
            strict.check(event)
            heard.append(event)
            if event.type in wanted:
                return heard
        raise AssertionError(f"the stream ended: {[event.type for event in heard]}")

    def turn(self, text: str) -> tuple[str, Any]:
        """Has one turn; returns what was said and what it used."""
        self.say(text)
        heard = self.until("session.status_idle")
        assert heard[-1].stop_reason.type == "end_turn", heard[-1]
        (message,) = [event for event in heard if event.type == "agent.message"]
        (end,) = [event for event in heard if event.type == "span.model_request_end"]
        deltas = [event for event in heard if event.type == "event_delta"]
        assert len(deltas) > 1, "it was not streamed"
        snapshot = None
        for event in heard[: heard.index(message)]:
            snapshot = accumulate_managed_agents_event(snapshot, event)
        words = "".join(block.text for block in message.content)
        assert snapshot is not None
        assert words.startswith("".join(block.text for block in snapshot.content))
        seconds = time.monotonic() - self.began
        usage = end.model_usage
        print(f"{usage.output_tokens} tokens in {len(deltas)} deltas, {seconds:.1f} s: {words[:70]!r}")
        return words, usage


def main() -> None:
    url, key = os.environ["OUTLAST_TEST_URL"], os.environ["OUTLAST_TEST_KEY"]
    with anthropic.Anthropic(base_url=url, api_key=key) as client:
        talk = Conversation(client)
        words, first = talk.turn("Name three colours.")
        assert words.strip() and first.input_tokens > 0 and first.output_tokens > 1
        _, second = talk.turn("Name one more.")
        longer = second.input_tokens + second.cache_read_input_tokens
        assert longer > first.input_tokens + first.output_tokens, "the first turn is not remembered"

        talk.say("Write a very long story about a river, with as many details as you can.")
        talk.until("event_delta")
        talk.send({"type": "user.interrupt"})
        heard = talk.until("session.status_idle")
        kinds = [event.type for event in heard]
        assert "agent.message" not in kinds and "span.model_request_end" in kinds, kinds
        assert heard[-1].stop_reason.type == "end_turn"
        print(f"interrupted, idle {time.monotonic() - talk.began:.2f} s later")

        talk.turn("Say hello.")
        session = client.beta.sessions.retrieve(talk.id)
        assert session.usage.output_tokens >= first.output_tokens + second.output_tokens
        kinds = [event.type for event in client.beta.sessions.events.list(talk.id)]
        assert kinds.count("agent.message") == 3 and kinds.count("user.message") == 4, kinds


if __name__ == "__main__":
    main()
