"""Stops first-choice upstreams while calls are under way: the client sees no error."""

from __future__ import annotations

import collections
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
from client import Streamed, Told

if TYPE_CHECKING:
    from demo import Demo

CALLS, CALLS_FAST = 24, 12
CALLERS = 4
# Long enough for the prompt to have reached the model, short of its first token.
SECONDS_BEFORE_KILL = 0.2


def show_all(demo: Demo) -> None:
    demo.show.title("3  Stop upstreams in mid-run")
    query, documents = "How do I report a bug?", ["Use reportbug.", "The kernel boots.", "Send a bug report by mail."]
    ranked_before = demo.client.rerank(query, documents, 2)
    embeddings_under_way(demo)
    judge_rerank(demo, ranked_before, demo.client.rerank(query, documents, 2))
    if demo.chat.own is None:
        chat_before_its_first_token(demo)
    else:
        demo.show.note("your own chat model is left alone, of course")


def embeddings_under_way(demo: Demo) -> None:
    """Several callers embed; a third of the way through, the server behind e5-a and rerank-a is killed."""
    probe = ["The same text, before and after."]
    before, _ = demo.client.embed(probe, "passage")
    calls = CALLS_FAST if demo.options.fast else CALLS
    finished = threading.Semaphore(0)
    told: list[Told] = []
    errors: list[str] = []

    def call(number: int) -> None:
        try:
            told.append(demo.client.embed([f"Passage number {number} of the failover run."] * 4, "passage")[1])
        except Exception as fault:  # noqa: BLE001 - any kind of failure counts
            errors.append(f"{type(fault).__name__}: {fault}")
        finally:
            finished.release()

    progress = demo.show.progress("embedding", calls)
    with ThreadPoolExecutor(CALLERS) as callers:
        pending = [callers.submit(call, number) for number in range(calls)]
        for done in range(1, calls + 1):
            finished.acquire()
            progress.at(done)
            if done == calls // 3:
                demo.fleet["e5-a"].kill()
        for one in pending:
            one.result()
    progress.end()
    after, by = demo.client.embed(probe, "passage")

    served = collections.Counter(one.upstream.split("/")[0] for one in told)
    repeated = sum(1 for one in told if one.attempts > 1)
    shares = ", ".join(f"{name} {count}" for name, count in sorted(served.items()))
    demo.show.done("e5-a killed", f"{len(told)} of {calls} calls answered ({shares}), {repeated} needed a second try")
    demo.report["failover_embeddings"] = {"calls": calls, "answered": len(told), "served": served, "errors": errors}
    expect = demo.checks.expect
    expect("embeddings: no call failed", not errors and len(told) == calls, "; ".join(errors[:2]))
    expect("embeddings: both upstreams served", len(served) == 2, shares)
    expect("embeddings: second tier took over", by.upstream.startswith("e5-b/"), by.upstream)
    expect("embeddings: same vector after it", bool(np.array_equal(before, after)))


Ranking = tuple[list[tuple[int, float]], Told]


def judge_rerank(demo: Demo, before: Ranking, after: Ranking) -> None:
    """The first reranker speaks Cohere's protocol, the second TEI's; the answer's form stays."""
    (ranked, first), (ranked_again, second) = before, after
    demo.show.done("rerank", f"{first.upstream} before, {second.upstream} now: same ranking through another protocol")
    demo.report["failover_rerank"] = {"before": first.upstream, "after": second.upstream, "attempts": second.attempts}
    expect = demo.checks.expect
    expect("rerank: second protocol took over", second.upstream.startswith("rerank-b/"), second.upstream)
    same = [index for index, _ in ranked] == [index for index, _ in ranked_again]
    close = np.allclose([score for _, score in ranked], [score for _, score in ranked_again], atol=1e-6)
    expect("rerank: same order and scores", same and bool(close) and len(ranked_again) == 2)


def chat_before_its_first_token(demo: Demo) -> None:
    """The chat server is killed while the caller waits for the first token of a long prompt."""
    best = " ".join(passage.embedded_text() for passage in demo.library.passages if passage.language == "en")[:1800]
    messages = [{"role": "user", "content": f"{best}\n\nSay in one sentence what this text is about."}]
    timer = threading.Timer(SECONDS_BEFORE_KILL, demo.fleet["chat-a"].kill)
    began = time.monotonic()
    timer.start()
    demo.show.token("    › ")
    try:
        answer: Streamed = demo.client.stream(messages, demo.show.token)
    finally:
        timer.join()
    demo.show.line()
    demo.show.done(
        "chat-a killed",
        f"before its first token; {answer.told.upstream} answered on attempt {answer.told.attempts}, "
        f"first token after {answer.first:.1f} s",
    )
    demo.report["failover_chat"] = {
        "upstream": answer.told.upstream,
        "attempts": answer.told.attempts,
        "seconds": round(time.monotonic() - began, 1),
    }
    expect = demo.checks.expect
    expect("chat: second tier took over", answer.told.upstream.startswith("chat-b/"), answer.told.upstream)
    expect("chat: two attempts, no error", answer.told.attempts >= 2 and answer.finish_reason in ("stop", "length"))
