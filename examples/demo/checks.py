"""What `--check` asserts: each expectation is noted where its facts are, and all are told at the end."""

from show import Show, padded

WIDTH = 36


class Checks:
    """Expectations and whether they held."""

    def __init__(self, show: Show) -> None:
        self._show = show
        self._noted: list[tuple[str, bool, str]] = []

    def expect(self, what: str, held: bool, detail: str = "") -> None:
        self._noted.append((what, bool(held), detail))

    def report(self) -> list[dict[str, object]]:
        return [{"what": what, "held": held, "detail": detail} for what, held, detail in self._noted]

    def summary(self) -> bool:
        """Prints all of them; true when all held."""
        self._show.title("Check")
        for what, held, detail in self._noted:
            (self._show.done if held else self._show.failed)(padded(what, WIDTH), detail)
        failed = sum(1 for _, held, _ in self._noted if not held)
        self._show.line(f"\n  {len(self._noted) - failed} of {len(self._noted)} checks hold")
        return failed == 0
