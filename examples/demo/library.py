"""The knowledge base: passages, their vectors in numpy, and the two steps of retrieval."""

from dataclasses import dataclass
from statistics import fmean

import numpy as np
from client import Client, Told
from corpus import Passage
from show import Progress

BATCH = 8
CANDIDATES = 20


@dataclass(frozen=True)
class Question:
    """A question as asked, and the sections that answer it."""

    language: str
    text: str
    sections: tuple[str, ...]
    shown: bool
    answered: bool


@dataclass(frozen=True)
class Found:
    """What one question brought up."""

    ranked: list[tuple[Passage, float]]
    retrieved: bool
    """The right section is among the candidates."""
    place: int | None
    """The right section's place after rerank, from 1; one place per section."""
    embedded_by: Told
    reranked_by: Told


class Library:
    """Passages and their vectors, indexed and searched through the gateway."""

    def __init__(self, client: Client, passages: list[Passage]) -> None:
        self.client, self.passages = client, passages
        self.vectors = np.empty((0, 0), dtype=np.float32)

    def index(self, progress: Progress) -> list[Told]:
        parts, told = [], []
        for start in range(0, len(self.passages), BATCH):
            batch = [passage.embedded_text() for passage in self.passages[start : start + BATCH]]
            vectors, by = self.client.embed(batch, "passage")
            parts.append(vectors)
            told.append(by)
            progress.at(start + len(batch), f"by {by.upstream}")
        self.vectors = np.concatenate(parts)
        return told

    def find(self, question: Question) -> Found:
        """Embeds the question, takes the nearest passages of its language, has them reranked."""
        vectors, embedded_by = self.client.embed([question.text], "query")
        nearest = self._nearest(vectors[0], question.language)
        texts = [passage.embedded_text() for passage in nearest]
        order, reranked_by = self.client.rerank(question.text, texts, len(texts))
        ranked = [(nearest[index], score) for index, score in order]
        sections = list(dict.fromkeys(passage.section for passage, _ in ranked))
        places = [at for at, section in enumerate(sections, 1) if section in question.sections]
        return Found(ranked, bool(places), min(places, default=None), embedded_by, reranked_by)

    def _nearest(self, vector: np.ndarray, language: str) -> list[Passage]:
        mine = np.array([at for at, passage in enumerate(self.passages) if passage.language == language])
        best = mine[np.argsort(-(self.vectors[mine] @ vector), kind="stable")[:CANDIDATES]]
        return [self.passages[at] for at in best]


@dataclass(frozen=True)
class Quality:
    """How often the right section came up, over all questions."""

    questions: int
    among_candidates: float
    first: float
    top_3: float
    top_5: float
    mean_reciprocal_rank: float

    @staticmethod
    def of(found: list[Found]) -> "Quality":
        places = [one.place for one in found]

        def share(k: int) -> float:
            return fmean(place is not None and place <= k for place in places)

        reciprocal = fmean(1 / place if place else 0.0 for place in places)
        return Quality(len(found), fmean(one.retrieved for one in found), share(1), share(3), share(5), reciprocal)


def one_per_section(ranked: list[tuple[Passage, float]], count: int) -> list[tuple[Passage, float]]:
    """The best passage of each section, best first."""
    best: dict[str, tuple[Passage, float]] = {}
    for passage, score in ranked:
        best.setdefault(passage.section, (passage, score))
    return list(best.values())[:count]
