"""What the demo prints: short lines, a progress bar, colour on a terminal only. Standard library only."""

import os
import sys
import time
import unicodedata

BAR_WIDTH = 28
SECONDS_BETWEEN_PLAIN_LINES = 5.0


class Show:
    """Writes to standard output, or to standard error where a JSON report owns standard output."""

    def __init__(self, *, to_stderr: bool = False) -> None:
        self._out = sys.stderr if to_stderr else sys.stdout
        self._terminal = self._out.isatty()
        self._colour = self._terminal and "NO_COLOR" not in os.environ

    def _paint(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._colour else text

    def line(self, text: str = "") -> None:
        print(text, file=self._out, flush=True)

    def title(self, text: str) -> None:
        self.line("\n" + self._paint("1", text))

    def done(self, what: str, detail: str = "") -> None:
        self.line(f"  {self._paint('32', '✓')} {padded(what, 22)} {self._paint('2', detail)}")

    def failed(self, what: str, detail: str = "") -> None:
        self.line(f"  {self._paint('31', '✗')} {padded(what, 22)} {detail}")

    def note(self, text: str) -> None:
        self.line("    " + self._paint("2", text))

    def strong(self, text: str) -> str:
        return self._paint("1", text)

    def faint(self, text: str) -> str:
        return self._paint("2", text)

    def token(self, text: str) -> None:
        """A piece of a stream, shown the moment it comes."""
        self._out.write(text.replace("\n", "\n      "))
        self._out.flush()

    def progress(self, what: str, total: int) -> "Progress":
        return Progress(self, what, total)


class Progress:
    """A bar that moves on a terminal; elsewhere a line now and then."""

    def __init__(self, show: Show, what: str, total: int) -> None:
        self._show, self._what, self._total = show, what, max(total, 1)
        self._began = self._spoke = time.monotonic()

    def at(self, done: int, detail: str = "") -> None:
        now = time.monotonic()
        rate = done / max(now - self._began, 1e-6)
        text = f"{done}/{self._total}  {rate:.0f}/s  {detail}"
        if self._show._terminal:
            full = BAR_WIDTH * done // self._total
            bar = "█" * full + "░" * (BAR_WIDTH - full)
            self._show._out.write(f"\r\x1b[K  {bar} {text}")
            self._show._out.flush()
        elif now - self._spoke >= SECONDS_BETWEEN_PLAIN_LINES:
            self._spoke = now
            self._show.note(f"{self._what}: {text}")

    def end(self) -> float:
        """Clears the bar and tells the seconds it took."""
        if self._show._terminal:
            self._show._out.write("\r\x1b[K")
        return time.monotonic() - self._began


def width(text: str) -> int:
    """Columns on a terminal: Chinese characters take two."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def padded(text: str, columns: int) -> str:
    return text + " " * max(columns - width(text), 0)


def shortened(text: str, columns: int) -> str:
    """One line of at most so many columns."""
    text = " ".join(text.split())
    if width(text) <= columns:
        return text
    kept, used = "", 1
    for c in text:
        used += width(c)
        if used > columns:
            break
        kept += c
    return kept + "…"
