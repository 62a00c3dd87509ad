"""The application's side: the official OpenAI SDK, one address, one key. It knows nothing else.

A tape below the SDK sees every byte that comes back, so that the check can say that no upstream's
key and no upstream's address was ever among them.
"""

import threading
import time
from dataclasses import dataclass, field
from typing import Any, Iterator

import httpx2
import numpy as np
from openai import DefaultHttpxClient, OpenAI

CALL_SECONDS = 180.0


@dataclass(frozen=True)
class Told:
    """What the gateway's headers say about one call."""

    request_id: str
    upstream: str
    attempts: int
    overhead_ms: float

    @staticmethod
    def by(headers: Any) -> "Told":
        return Told(
            headers.get("x-request-id", ""),
            headers.get("x-mai-upstream", ""),
            int(headers.get("x-mai-attempts", 0)),
            float(headers.get("x-mai-overhead-ms", "nan")),
        )


@dataclass
class Tape:
    """Looks for secrets in everything that the client is shown."""

    secrets: list[bytes]
    answers: int = 0
    bytes_seen: int = 0
    leaks: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def look(self, where: str, shown: bytes) -> None:
        with self._lock:
            self.bytes_seen += len(shown)
            self.leaks += [where for secret in self.secrets if secret in shown]


class _TapedBody(httpx2.SyncByteStream):
    """Passes each chunk on at once and looks at it, and at the seam between two chunks."""

    def __init__(self, body: httpx2.SyncByteStream, tape: Tape, where: str) -> None:
        self._body, self._tape, self._where = body, tape, where

    def __iter__(self) -> Iterator[bytes]:
        seam = max(map(len, self._tape.secrets), default=1) - 1
        end = b""
        for chunk in self._body:
            self._tape.look(self._where, end + chunk)
            end = (end + chunk)[-seam:]
            yield chunk

    def close(self) -> None:
        self._body.close()


class _TapedTransport(httpx2.HTTPTransport):
    def __init__(self, tape: Tape) -> None:
        super().__init__()
        self._tape = tape

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        response = super().handle_request(request)
        self._tape.answers += 1
        where = f"{request.method} {request.url.path}"
        self._tape.look(f"headers of {where}", b"\n".join(name + b": " + value for name, value in response.headers.raw))
        response.stream = _TapedBody(response.stream, self._tape, where)
        return response


@dataclass
class Streamed:
    """One streamed answer, with the moment each piece arrived, in seconds since the call began."""

    told: Told
    text: str = ""
    arrivals: list[float] = field(default_factory=list)
    finish_reason: str | None = None
    usage: Any = None

    @property
    def first(self) -> float:
        return self.arrivals[0] if self.arrivals else float("nan")

    @property
    def tokens_per_second(self) -> float:
        spread = self.arrivals[-1] - self.arrivals[0] if len(self.arrivals) > 1 else 0.0
        return (len(self.arrivals) - 1) / spread if spread > 0 else float("nan")


class Client:
    """Embeds, reranks and chats through the gateway by the names of its routes."""

    def __init__(self, gateway: str, key: str, tape: Tape) -> None:
        self.tape = tape
        self.openai = OpenAI(
            base_url=f"{gateway}/v1",
            api_key=key,
            max_retries=0,  # retrying is the gateway's work; here a failure shall show
            timeout=CALL_SECONDS,
            default_headers={"Accept-Encoding": "identity"},  # the tape reads plain text
            http_client=DefaultHttpxClient(transport=_TapedTransport(tape)),
        )

    def embed(self, texts: list[str], kind: str) -> tuple[np.ndarray, Told]:
        """`kind` is "query" or "passage": a field that the upstream understands and OpenAI's API does not know."""
        raw = self.openai.embeddings.with_raw_response.create(
            model="rag-embedding", input=texts, extra_body={"input_type": kind}
        )
        answer = raw.parse()
        vectors = np.zeros((len(texts), len(answer.data[0].embedding)), dtype=np.float32)
        for item in answer.data:
            vectors[item.index] = item.embedding
        return vectors, Told.by(raw.headers)

    def rerank(self, query: str, documents: list[str], top_n: int) -> tuple[list[tuple[int, float]], Told]:
        body = {"model": "rag-rerank", "query": query, "documents": documents, "top_n": top_n}
        raw = self.openai.post("/rerank", body=body, cast_to=httpx2.Response)
        results = raw.json()["results"]
        return [(item["index"], item["relevance_score"]) for item in results], Told.by(raw.headers)

    def stream(self, messages: list[dict[str, str]], on_token: Any, *, usage: bool = False) -> Streamed:
        """One chat answer; `on_token` is called with each piece as it comes."""
        began = time.monotonic()
        asked: dict[str, Any] = {"stream_options": {"include_usage": True}} if usage else {}
        raw = self.openai.chat.completions.with_raw_response.create(
            model="rag-chat", messages=messages, stream=True, max_tokens=90, temperature=0, frequency_penalty=0.5, **asked
        )
        answer = Streamed(Told.by(raw.headers))
        for chunk in raw.parse():
            answer.usage = chunk.usage or answer.usage
            for choice in chunk.choices:
                answer.finish_reason = choice.finish_reason or answer.finish_reason
                if choice.delta.content:
                    answer.arrivals.append(time.monotonic() - began)
                    answer.text += choice.delta.content
                    on_token(choice.delta.content)
        return answer
