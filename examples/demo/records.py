"""What the gateway wrote down meanwhile: access log, metrics; and what it never wrote."""

from __future__ import annotations

import json
import math
import statistics
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

import httpx2

if TYPE_CHECKING:
    from demo import Demo
    from processes import Fleet
    from show import Show

WANTED_METRICS = ("mai_requests_total", "mai_upstream_attempts_total", "mai_overhead_seconds")
SHOWN_METRIC = 'mai_upstream_attempts_total{'
SHOWN_ROUTE = 'route="rag-embedding"'
SHOWN_FIELDS = ("route", "status", "tokens_in", "tokens_out", "ttft_ms", "ms", "overhead_ms")


def show_all(demo: Demo) -> None:
    demo.show.title("4  What the records say")
    strangers(demo)
    log = access_log(demo)
    metrics(demo)
    secrets_kept(demo, log)


def strangers(demo: Demo) -> None:
    """An upstream's key opens nothing at the gateway; the client's key opens nothing at an upstream."""
    upstream = demo.lineup.upstreams["rag-embedding"][-1]
    body = {"model": "rag-embedding", "input": "hello"}

    def status(url: str, key: str) -> int:
        headers = {"Authorization": f"Bearer {key}"}
        return httpx2.post(f"{url}/embeddings", json=body, headers=headers, timeout=30).status_code

    at_gateway = status(f"{demo.lineup.gateway}/v1", upstream.key)
    at_upstream = status(upstream.base_url, demo.lineup.client_key)
    demo.checks.expect("upstream key is no client key", at_gateway == 401, f"status {at_gateway}")
    demo.checks.expect("client key is no upstream key", at_upstream == 401, f"status {at_upstream}")


def written(demo: Demo, calls: int) -> str:
    """The access log once it has a line for each of so many calls: lines are written behind the traffic."""
    patience = time.monotonic() + 5
    while True:
        text = demo.fleet["gateway"].stdout.read_text(errors="replace")
        if text.count("\n") >= calls or time.monotonic() > patience:
            return text
        time.sleep(0.02)


def access_log(demo: Demo) -> str:
    """One JSON line per request; those with a second attempt are the ones to see."""
    text = written(demo, demo.client.tape.answers)
    lines: list[dict[str, Any]] = []
    for raw in text.splitlines():
        try:
            lines.append(json.loads(raw))
        except ValueError:
            demo.checks.expect("access log is JSON lines", False, raw[:80])
    moved = [line for line in lines if len(line.get("attempts") or []) > 1]
    chats = [line for line in lines if line.get("route") == "rag-chat"]
    for line in [*chats[:1], *moved[:1], *moved[-1:]]:
        kept = {name: line[name] for name in SHOWN_FIELDS if line.get(name) is not None}
        tries = [f"{one.get('upstream', '').split('/')[0]}: {one.get('outcome')}" for one in line.get("attempts") or []]
        demo.show.note(f"log  {json.dumps(kept, ensure_ascii=False)}  tries {', '.join(tries)}")
    overheads = [line["overhead_ms"] for line in lines if isinstance(line.get("overhead_ms"), int | float)]
    if overheads:
        middle = statistics.median(overheads)
        demo.show.done("overhead", f"median {middle:.2f} ms of the gateway's own time per call, {len(overheads)} calls")
        demo.report["overhead_ms_median"] = middle if math.isfinite(middle) else None
    expect = demo.checks.expect
    expect("access log has every call", len(lines) >= demo.client.tape.answers, f"{len(lines)} lines")
    expect("access log shows moves", bool(moved), f"{len(moved)} calls with more than one attempt")
    expect("usage learned unasked", bool(chats) and all((line.get("tokens_out") or 0) > 0 for line in chats))
    return text


def metrics(demo: Demo) -> None:
    request = urllib.request.Request(
        f"{demo.lineup.admin}/metrics", headers={"Authorization": f"Bearer {demo.lineup.admin_token}"}
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            text = answer.read().decode()
    except (OSError, urllib.error.URLError) as fault:
        text = ""
        demo.show.failed("metrics", str(fault))
    for line in text.splitlines():
        if line.startswith(SHOWN_METRIC) and SHOWN_ROUTE in line:
            demo.show.note(line)
    for name in WANTED_METRICS:
        demo.checks.expect(f"metric {name}", name in text)
    demo.checks.expect("metrics hold no secret", not _leaks(demo, text))


def secrets_kept(demo: Demo, log: str) -> None:
    tape = demo.client.tape
    kib = tape.bytes_seen / 1024
    if tape.leaks:
        demo.show.failed("upstreams seen", "; ".join(tape.leaks[:3]))
    else:
        demo.show.done("upstreams unseen", f"no key and no address of theirs in {tape.answers} answers ({kib:.0f} KiB)")
    demo.report["answers_scanned"] = tape.answers
    expect = demo.checks.expect
    expect("no upstream secret in answers", not tape.leaks and tape.answers > 0, "; ".join(tape.leaks[:3]))
    errors = demo.fleet["gateway"].stderr.read_text(errors="replace")
    expect("no key in the logs", not _leaks(demo, log + errors))


def _leaks(demo: Demo, text: str) -> bool:
    keys = [upstream.key for upstream in demo.lineup.all() if upstream.key]
    return any(key in text for key in [*keys, demo.lineup.client_key, demo.lineup.admin_token])


def show_end_of_logs(fleet: Fleet, show: Show) -> None:
    """After an unexpected failure: what the gateway said last."""
    try:
        gateway = fleet["gateway"]
    except KeyError:
        return
    for path in (gateway.stdout, gateway.stderr):
        for line in path.read_text(errors="replace").splitlines()[-6:]:
            show.note(line[:400])
