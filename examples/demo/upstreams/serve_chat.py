"""A real chat upstream: llama.cpp's own HTTP server around a GGUF file.

usage: serve_chat.py MODEL_FILE MODEL_NAME        (the key it demands: UPSTREAM_KEY)

Prints one line of JSON with its address once it listens. Loading goes on after that: until it is
done, `GET /health` answers 503.
"""

import json
import os
import sys
import threading

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # spinning workers starve everything else on a small machine

import xllamacpp  # noqa: E402

SLOTS = 4
TOKENS_PER_SLOT = 2048


def parameters(model_file: str, model_name: str, key: str) -> xllamacpp.CommonParams:
    """Small and polite: one thread, no prompt cache in RAM, no web page, a key on every call."""
    params = xllamacpp.CommonParams()
    params.model.path = model_file
    params.model_alias = {model_name}
    params.hostnames = ["127.0.0.1"]
    params.port = 0  # any free one
    params.api_keys = [key]
    params.n_ctx = SLOTS * TOKENS_PER_SLOT
    params.n_parallel = SLOTS
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    params.cache_ram_mib = 0  # by default the prompt cache may take 8 GiB
    params.endpoint_metrics = True
    params.ui = False
    return params


def main() -> None:
    model_file, model_name = sys.argv[1:3]
    server = xllamacpp.Server(parameters(model_file, model_name, os.environ["UPSTREAM_KEY"]))
    print(json.dumps({"address": server.listening_address}), flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
