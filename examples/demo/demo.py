"""The demo's story: start real upstreams and the gateway, index, ask, stop upstreams, look at the records."""

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import corpus
import failover
import records
from checks import Checks
from client import Client, Streamed, Tape
from library import Found, Library, Quality, Question, one_per_section
from lineup import NoChat, Lineup, choose_chat, start_gateway, start_upstreams
from options import parse
from processes import Fleet, NotReady
from show import Show, shortened

HERE = Path(__file__).resolve().parent
EXIT_OK, EXIT_FAILED, EXIT_INTERRUPTED = 0, 1, 130
CONTEXT_PASSAGES = 3
COLUMNS = 96


class Demo:
    """One run: what it works with, and what it has learned for the report."""

    def __init__(self, options: argparse.Namespace, show: Show, fleet: Fleet) -> None:
        self.options, self.show, self.fleet = options, show, fleet
        self.found = json.loads(os.environ["MAI_DEMO_FOUND"])
        self.chat = choose_chat(options.chat, options.chat_model)
        self.report: dict[str, Any] = {"fast": options.fast, "chat": options.chat}
        self.checks = Checks(show)
        self.lineup: Lineup
        self.client: Client
        self.library: Library

    def run(self) -> int:
        self.start()
        questions = load_questions(fast=self.options.fast)
        self.index(questions)
        self.ask(questions)
        failover.show_all(self)
        records.show_all(self)
        self.report["checks"] = self.checks.report()
        if self.options.check:
            return EXIT_OK if self.checks.summary() else EXIT_FAILED
        return EXIT_OK

    def start(self) -> None:
        self.show.title("Start")
        began = time.monotonic()
        self.lineup = start_upstreams(self.fleet, self.found["model"], self.chat)
        for route, tiers in self.lineup.upstreams.items():
            names = ", then ".join(f"{upstream.name} ({upstream.protocol})" for upstream in tiers)
            self.show.done(route, f"{tiers[0].model}: {names}")
        start_gateway(self.fleet, self.found["gateway"], self.lineup, self.show)
        self.report["start_seconds"] = round(time.monotonic() - began, 1)
        self.client = Client(self.lineup.gateway, self.lineup.client_key, Tape(self.lineup.hidden()))

    def index(self, questions: list[Question]) -> None:
        self.show.title("1  Index the Debian FAQ through the embedding route")
        chapters = {s.split("#")[0] for q in questions for s in q.sections} if self.options.fast else None
        passages = corpus.load(Path(self.found["documents"]), chapters=chapters, per_section=1)
        self.library = Library(self.client, passages)
        progress = self.show.progress("indexing", len(passages))
        told = self.library.index(progress)
        seconds = progress.end()
        count, dimensions = self.library.vectors.shape
        self.show.done("indexed", f"{count} passages, {dimensions} dimensions, {count / seconds:.0f}/s, by {told[-1].upstream}")
        self.report["index"] = {"passages": count, "dimensions": dimensions, "seconds": round(seconds, 1)}
        self.checks.expect("every passage has a vector", count == len(passages) > 0, f"{count} of {len(passages)}")

    def ask(self, questions: list[Question]) -> None:
        self.show.title("2  Ask: embed, take the nearest 20, rerank, answer")
        results: list[Found] = []
        answers: list[Streamed] = []
        shown = [question for question in questions if question.shown]
        for question in shown:
            found = self.library.find(question)
            results.append(found)
            self._show_found(question, found)
            if question.answered or (self.chat.speaks_chinese and question.language == "zh"):
                answers.append(self._answer(question, found, usage=not answers))
        rest = [question for question in questions if not question.shown]
        progress = self.show.progress("more questions", len(rest))
        for done, question in enumerate(rest, 1):
            results.append(self.library.find(question))
            progress.at(done)
        progress.end()
        self.show.line()
        if self.chat.own is None:
            self.show.note("SmolLM2 has 135 million parameters and reads English only: it proves the stream, not the answers.")
        self._judge_retrieval(Quality.of(results))
        self._judge_streams(answers)

    def _show_found(self, question: Question, found: Found) -> None:
        self.show.line(f"\n  {self.show.strong('? ' + question.text)}")
        for place, (passage, score) in enumerate(one_per_section(found.ranked, CONTEXT_PASSAGES), 1):
            mark = "●" if passage.section in question.sections else "○"
            self.show.line(f"    {mark} {place}. {score:.3f}  {shortened(passage.title, COLUMNS - 16)}")
        self.show.note(f"{found.embedded_by.upstream}, {found.reranked_by.upstream}")

    def _answer(self, question: Question, found: Found, *, usage: bool) -> Streamed:
        self.show.token("    › ")
        answer = self.client.stream(self.messages(question, found), self.show.token, usage=usage)
        self.show.line()
        counted = f", {answer.usage.prompt_tokens} tokens in, {answer.usage.completion_tokens} out" if answer.usage else ""
        self.show.note(
            f"{answer.told.upstream}: first token after {answer.first:.2f} s, then {answer.tokens_per_second:.0f} tokens/s{counted}"
        )
        return answer

    def messages(self, question: Question, found: Found) -> list[dict[str, str]]:
        """A plain RAG prompt: the passages, then the question."""
        # More than one passage only confuses a model of 135 million parameters.
        passages = one_per_section(found.ranked, 1 if self.chat.own is None else CONTEXT_PASSAGES)
        context = "\n\n".join(passage.embedded_text() for passage, _ in passages)
        asked = f"{context}\n\nUsing only the text above, answer in one or two full sentences: {question.text}"
        system = "You answer questions about Debian from the text you are given."
        return [{"role": "system", "content": system}, {"role": "user", "content": asked}]

    def _judge_retrieval(self, quality: Quality) -> None:
        self.show.done(
            "retrieval",
            f"{quality.questions} questions: right section first {quality.first:.0%}, in the first three {quality.top_3:.0%}, "
            f"MRR {quality.mean_reciprocal_rank:.2f}",
        )
        self.report["retrieval"] = asdict(quality)
        expect = self.checks.expect
        expect("right section retrieved", quality.among_candidates >= 0.9, f"{quality.among_candidates:.0%}, wanted 90%")
        expect("right section in first 5", quality.top_5 >= 0.75, f"{quality.top_5:.0%}, wanted 75%")
        expect("right section first", quality.first >= 0.55, f"{quality.first:.0%}, wanted 55%")

    def _judge_streams(self, answers: list[Streamed]) -> None:
        self.report["answers"] = [
            {
                "upstream": answer.told.upstream,
                "pieces": len(answer.arrivals),
                "first_token_seconds": round(answer.first, 3),
                "tokens_per_second": round(answer.tokens_per_second, 1),
                "finish_reason": answer.finish_reason,
            }
            for answer in answers
        ]
        expect = self.checks.expect
        pieces = min(len(answer.arrivals) for answer in answers)
        expect("streams come in many pieces", pieces > 5, f"the shortest has {pieces}")
        # A gateway that collects the answer first would deliver all pieces within a blink.
        spread = min(answer.arrivals[-1] - answer.first for answer in answers if answer.arrivals)
        expect("first piece long before last", spread > 0.1, f"{spread:.2f} s between them at least")
        expect("streams finish", all(answer.finish_reason in ("stop", "length") for answer in answers))
        expect("usage when asked for", answers[0].usage is not None and answers[0].usage.completion_tokens > 0)
        expect("no usage otherwise", all(answer.usage is None for answer in answers[1:]))


def load_questions(*, fast: bool) -> list[Question]:
    """The known questions; in fast mode those marked so."""
    written = json.loads((HERE / "questions.json").read_text(encoding="utf-8"))["questions"]
    return [
        Question(q["language"], q["text"], tuple(q["sections"]), q.get("shown", False), q.get("answered", False))
        for q in written
        if q.get("fast", False) or not fast
    ]


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def main() -> int:
    options = parse(sys.argv[1:])
    show = Show(to_stderr=options.json)
    signal.signal(signal.SIGTERM, interrupt)
    signal.signal(signal.SIGHUP, interrupt)
    with tempfile.TemporaryDirectory(prefix="mai-demo-") as folder, Fleet(Path(folder)) as fleet:
        try:
            demo = Demo(options, show, fleet)
            code = demo.run()
            if options.json:
                print(json.dumps(demo.report, indent=2, ensure_ascii=False))
            return code
        except KeyboardInterrupt:
            show.line("\nInterrupted; stopping what was started.")
            return EXIT_INTERRUPTED
        except (NotReady, NoChat) as fault:
            show.failed("stopped", str(fault))
        except Exception as fault:  # noqa: BLE001 - whatever it was, say it, with what the gateway last said
            show.failed("stopped", f"{type(fault).__name__}: {fault}")
            records.show_end_of_logs(fleet, show)
        return EXIT_FAILED


if __name__ == "__main__":
    sys.exit(main())
