"""The upstreams of the demo and the gateway in front of them."""

import json
import os
import secrets
import sys
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from processes import Fleet, free_port
from show import Show

SERVERS = Path(__file__).resolve().parent / "upstreams"
SMALL_MODEL = "smollm2-135m-instruct"
EMBEDDING_MODEL = "multilingual-e5-small-q4"
RERANK_MODEL = "e5-small-bm25-rerank"
# Generous, for machines that are busy with other things.
PATIENCE = {"timeout": {"attempt": "100s", "first_byte": "100s", "stream_idle": "60s"}, "deadline": "170s"}


class NoChat(Exception):
    """The chat model asked for cannot be used, and why."""


@dataclass
class Upstream:
    """One server behind the gateway."""

    name: str
    protocol: str
    model: str
    base_url: str
    key: str = ""
    variable: str = ""
    local: bool = True


@dataclass
class Lineup:
    """Everything that runs, and the only two things that a client is told: address and key."""

    gateway: str = ""
    admin: str = ""
    client_key: str = field(default_factory=lambda: "sk-demo-" + secrets.token_hex(16))
    admin_token: str = field(default_factory=lambda: "admin-" + secrets.token_hex(16))
    upstreams: dict[str, list[Upstream]] = field(default_factory=dict)

    def all(self) -> list[Upstream]:
        return [upstream for tier in self.upstreams.values() for upstream in tier]

    def hidden(self) -> list[bytes]:
        """What a client must never see: upstream keys, and the addresses of local upstreams."""
        keys = [upstream.key for upstream in self.all() if upstream.key]
        addresses = [u.base_url.removeprefix("http://").removesuffix("/v1") for u in self.all() if u.local]
        return [text.encode() for text in dict.fromkeys(keys + addresses)]


def start_upstreams(fleet: Fleet, model_file: str, chat: "ChatChoice") -> Lineup:
    """Two servers per route, on free ports, each with a key of its own."""
    chats = ["chat-a", "chat-b"] if chat.own is None else ["chat-b"]
    commands = {name: ["serve_chat.py", model_file, SMALL_MODEL] for name in chats}
    commands |= {name: ["serve_e5.py"] for name in ("e5-a", "e5-b")}
    keys = {name: "sk-upstream-" + secrets.token_hex(16) for name in commands}
    for name, (script, *rest) in commands.items():
        fleet.start(name, [sys.executable, "-B", str(SERVERS / script), *rest], {"UPSTREAM_KEY": keys[name]})
    address = {name: fleet[name].wait_for_address() for name in commands}
    for name in commands:
        fleet[name].wait_until_ready(f"{address[name]}/health")

    def local(name: str, server: str, protocol: str, model: str, path: str) -> Upstream:
        variable = f"DEMO_{server.upper().replace('-', '_')}_KEY"
        return Upstream(name, protocol, model, address[server] + path, keys[server], variable)

    small = [local(name, name, "openai", SMALL_MODEL, "/v1") for name in chats]
    return Lineup(
        upstreams={
            "rag-chat": [chat.own, *small] if chat.own else small,
            "rag-embedding": [local(name, name, "openai", EMBEDDING_MODEL, "/v1") for name in ("e5-a", "e5-b")],
            # Two protocols for one kind of work: the client sees the same form whichever answers.
            "rag-rerank": [
                local("rerank-a", "e5-a", "cohere", RERANK_MODEL, ""),
                local("rerank-b", "e5-b", "tei", RERANK_MODEL, ""),
            ],
        }
    )


@dataclass(frozen=True)
class ChatChoice:
    """Who answers: the small model alone, or the user's own before it."""

    own: Upstream | None
    speaks_chinese: bool


def choose_chat(kind: str, model: str | None) -> ChatChoice:
    """Reads the environment for `--chat own` and `--chat ollama`."""
    if kind == "small":
        return ChatChoice(None, speaks_chinese=False)
    if kind == "own":
        key = os.environ.get("OPENAI_API_KEY", "")
        if not key:
            raise NoChat("--chat own needs OPENAI_API_KEY (and OPENAI_BASE_URL for a provider other than OpenAI)")
        base_url = os.environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1"
        own = Upstream("own", "openai", model or "gpt-4o-mini", base_url, key, "DEMO_OWN_KEY", local=False)
        return ChatChoice(own, speaks_chinese=True)
    host = os.environ.get("OLLAMA_HOST") or "127.0.0.1:11434"
    base_url = host if "://" in host else f"http://{host}"
    own = Upstream("ollama", "ollama", model or _first_ollama_model(base_url), base_url, local=False)
    return ChatChoice(own, speaks_chinese=True)


def _first_ollama_model(base_url: str) -> str:
    try:
        with urllib.request.urlopen(f"{base_url}/api/tags", timeout=5) as answer:
            models = json.load(answer)["models"]
    except (OSError, ValueError, KeyError) as fault:
        raise NoChat(f"no Ollama answers at {base_url}: {fault}") from fault
    if not models:
        raise NoChat("this Ollama holds no model yet: ollama pull qwen2.5:7b")
    return models[0]["name"]


def configuration(lineup: Lineup, data_dir: Path) -> dict[str, Any]:
    """The gateway's configuration. Keys stay in the environment; the file only names them."""

    def provider(upstream: Upstream) -> dict[str, Any]:
        written = {"name": upstream.name, "protocol": upstream.protocol, "base_url": upstream.base_url}
        return written | ({"api_key": f"${{{upstream.variable}}}"} if upstream.key else {})

    def route(name: str, path: str) -> dict[str, Any]:
        tiers = [
            {"provider": upstream.name, "model": upstream.model, "tier": tier}
            for tier, upstream in enumerate(lineup.upstreams[name])
        ]
        return {"name": name, "match": {"path": path, "model": name}, "upstreams": tiers} | PATIENCE

    return {
        "environment": "demo",
        "listen": lineup.gateway.removeprefix("http://"),
        "admin": {
            "listen": lineup.admin.removeprefix("http://"),
            "tokens": [{"name": "demo", "role": "viewer", "token": "${DEMO_ADMIN_TOKEN}"}],
        },
        "data_dir": str(data_dir),
        "shutdown_grace": "3s",
        "providers": [provider(upstream) for upstream in lineup.all()],
        "routes": [
            route("rag-chat", "/v1/chat/completions"),
            route("rag-embedding", "/v1/embeddings"),
            route("rag-rerank", "/v1/rerank"),
        ],
        "clients": [
            {"name": "demo", "keys": ["${DEMO_CLIENT_KEY}"], "routes": ["rag-*"]}
        ],
    }


def start_gateway(fleet: Fleet, binary: str, lineup: Lineup, show: Show) -> None:
    """Writes the configuration (JSON is YAML) and waits until the gateway says that it is ready."""
    lineup.gateway = f"http://127.0.0.1:{free_port()}"
    lineup.admin = f"http://127.0.0.1:{free_port()}"
    data_dir = fleet.folder / "data"
    data_dir.mkdir(exist_ok=True)
    file = fleet.folder / "gateway.yaml"
    file.write_text(json.dumps(configuration(lineup, data_dir), indent=2))
    environment = {upstream.variable: upstream.key for upstream in lineup.all() if upstream.key}
    environment |= {"DEMO_CLIENT_KEY": lineup.client_key, "DEMO_ADMIN_TOKEN": lineup.admin_token}
    gateway = fleet.start("gateway", [binary, "serve", "--config", str(file)], environment)
    gateway.wait_until_ready(f"{lineup.gateway}/readyz")
    show.done("gateway", f"{lineup.gateway}  (configuration: {file})")
