"""Starts programs, waits until they are ready, and stops exactly those it started."""

import ctypes
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

STOP_SECONDS = 8.0
READY_SECONDS = 120.0
POLL_SECONDS = 0.05
PR_SET_PDEATHSIG = 1


class NotReady(Exception):
    """A program that ended, or did not come up in time, with the end of its log."""


def _end_with_parent() -> None:
    """In the child: where the demo is killed outright, Linux ends its children."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


class Program:
    """One running program, its output in files."""

    def __init__(self, name: str, argv: list[str], environment: dict[str, str], folder: Path) -> None:
        self.name = name
        self.stdout, self.stderr = folder / f"{name}.out", folder / f"{name}.err"
        with self.stdout.open("wb") as out, self.stderr.open("wb") as err:
            self._process = subprocess.Popen(
                argv,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=folder,
                start_new_session=True,  # Ctrl-C is the demo's to handle
                preexec_fn=_end_with_parent,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def alive(self) -> bool:
        return self._process.poll() is None

    def wait_for_address(self) -> str:
        """The address that the program prints as its first line."""
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline and self.alive():
            first, newline, _ = self.stdout.read_text(errors="replace").partition("\n")
            if newline:
                return json.loads(first)["address"]
            time.sleep(POLL_SECONDS)
        raise self._not_ready()

    def wait_until_ready(self, url: str) -> None:
        """Polls until the address answers 200."""
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline and self.alive():
            if status(url) == 200:
                return
            time.sleep(POLL_SECONDS)
        raise self._not_ready()

    def kill(self) -> None:
        """As a crash would: at once."""
        self._process.kill()
        self._process.wait()

    def ask_to_stop(self) -> None:
        if self.alive():
            self._process.terminate()

    def stop(self) -> int:
        """Asks, then insists; gives the exit code."""
        self.ask_to_stop()
        try:
            return self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            return self._process.returncode

    def _not_ready(self) -> NotReady:
        log = self.stderr.read_text(errors="replace").strip() or self.stdout.read_text(errors="replace").strip()
        ended = "" if self.alive() else f" (it ended with code {self._process.returncode})"
        last = "\n".join(log.splitlines()[-12:])
        return NotReady(f"{self.name} did not become ready{ended}:\n{last}")


class Fleet:
    """Everything the demo started. Leaving the block stops all of it, newest first."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._programs: dict[str, Program] = {}

    def __enter__(self) -> "Fleet":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop_all()

    def start(self, name: str, argv: list[str], environment: dict[str, str]) -> Program:
        self._programs[name] = Program(name, argv, environment, self.folder)
        return self._programs[name]

    def __getitem__(self, name: str) -> Program:
        return self._programs[name]

    def stop_all(self) -> None:
        newest_first = list(self._programs.values())[::-1]
        self._programs = {}
        for program in newest_first:
            program.ask_to_stop()
        for program in newest_first:
            program.stop()


def status(url: str) -> int | None:
    """The status of a GET, or nothing where nobody answers."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=5)
    try:
        connection.request("GET", parts.path or "/")
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def free_port() -> int:
    """A port of the loopback that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
