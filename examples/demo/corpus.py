"""Real documents: the Debian FAQ in English and Chinese, cut into passages.

A section is one question of the FAQ with its answer. Its identity is `chapter#anchor`, which is
the same in both languages, so one list of expected answers serves both.
"""

from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

# Long enough to hold an answer's core, short enough to index the whole FAQ in a minute on one thread
# (about 90 tokens; the embedding model reads at most 512).
PASSAGE_CHARS = {"en": 360, "zh": 160}
LANGUAGES = {"en": ("", ".en.html"), "zh": ("zh-cn", ".zh-cn.html")}
# About the document itself, or lists of links: nothing a user would ask.
SKIPPED_CHAPTERS = {"index", "faqinfo"}


@dataclass(frozen=True)
class Passage:
    """One piece of a section, small enough to embed and to show to a model."""

    section: str
    language: str
    title: str
    text: str

    def embedded_text(self) -> str:
        """What is embedded and reranked: the heading gives a fragment its subject back."""
        return f"{self.title}\n{self.text}"


@dataclass
class Section:
    """One question of the FAQ and its answer, as paragraphs."""

    key: str
    language: str
    title: str
    paragraphs: list[str]


class _FaqPage(HTMLParser):
    """Collects the sections of one chapter: from one `<h2 class="title">` to the next."""

    BLOCKS = {"p", "li", "dt", "dd", "pre", "tr", "div"}

    def __init__(self, chapter: str, language: str) -> None:
        super().__init__(convert_charrefs=True)
        self.chapter, self.language = chapter, language
        self.sections: list[Section] = []
        self._heading: list[str] | None = None
        self._anchor = ""
        self._block: list[str] = []
        self._preformatted = 0
        self._ended = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "div" and given.get("class") == "navfooter":
            self._close_block()
            self._ended = True
        elif tag == "h2" and given.get("class") == "title":
            self._close_block()
            self._heading, self._anchor = [], ""
        elif tag == "a" and self._heading is not None and given.get("id"):
            self._anchor = self._anchor or given["id"] or ""
        elif tag in self.BLOCKS:
            self._close_block()
        if tag == "pre":
            self._preformatted += 1

    def handle_endtag(self, tag: str) -> None:
        if tag == "h2" and self._heading is not None:
            number_and_title = " ".join("".join(self._heading).split())
            title = number_and_title.split(" ", 1)[-1].strip()
            self.sections.append(Section(f"{self.chapter}#{self._anchor}", self.language, title, []))
            self._heading = None
        elif tag in self.BLOCKS:
            self._close_block()
        if tag == "pre":
            self._preformatted -= 1

    def handle_data(self, data: str) -> None:
        if self._heading is not None:
            self._heading.append(data)
        elif self.sections and not self._ended:
            self._block.append(data)

    def _close_block(self) -> None:
        raw, self._block = "".join(self._block), []
        text = raw.strip("\n") if self._preformatted else self._one_line(raw)
        if text.strip() and self.sections and not self._ended:
            self.sections[-1].paragraphs.append(text)

    def _one_line(self, raw: str) -> str:
        # Chinese has no spaces at a line's end; English does.
        joiner = "" if self.language == "zh" else " "
        return joiner.join(line.strip() for line in raw.splitlines() if line.strip())


def read_sections(faq_dir: Path, language: str) -> list[Section]:
    """All sections of one language, in the order of the chapters' file names."""
    folder, suffix = LANGUAGES[language]
    sections: list[Section] = []
    for path in sorted((faq_dir / folder).glob(f"*{suffix}")):
        chapter = path.name.removesuffix(suffix)
        if chapter in SKIPPED_CHAPTERS:
            continue
        page = _FaqPage(chapter, language)
        page.feed(path.read_text(encoding="utf-8"))
        page.close()
        sections += [section for section in page.sections if section.paragraphs]
    return sections


def passages_of(section: Section, limit: int) -> list[Passage]:
    """Cuts a section at paragraph ends; a paragraph over the limit is cut where it must be."""
    pieces: list[str] = []
    for paragraph in section.paragraphs:
        for start in range(0, len(paragraph), limit):
            part = paragraph[start : start + limit]
            if pieces and len(pieces[-1]) + 1 + len(part) <= limit:
                pieces[-1] += "\n" + part
            else:
                pieces.append(part)
    return [Passage(section.key, section.language, section.title, text) for text in pieces]


def load(faq_dir: Path, *, chapters: set[str] | None = None, per_section: int | None = None) -> list[Passage]:
    """Passages of both languages, only those of the named chapters where some are named."""
    found: list[Passage] = []
    for language in LANGUAGES:
        for section in read_sections(faq_dir, language):
            if chapters is None or section.key.split("#")[0] in chapters:
                found += passages_of(section, PASSAGE_CHARS[language])[:per_section]
    return found
