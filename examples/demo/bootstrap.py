"""First half of the demo: fetch everything with the system's Python, then go on inside the virtual environment."""

import json
import os
import sys

import provision
from options import parse
from show import Show

# What `make test` reads as "could not be run here", as opposed to "failed".
EXIT_SKIPPED = 77


def main() -> int:
    options = parse(sys.argv[1:])
    show = Show(to_stderr=options.json)
    show.line(show.strong("MAI Gateway demo") + ": real models on this machine, one address and one key for the client")
    show.title("What it runs on")
    try:
        python = provision.python_packages(show)
        found = {
            "model": str(provision.chat_model(show, python)),
            "documents": str(provision.documents(show)),
            "gateway": str(provision.gateway_binary(show, options.gateway)),
        }
    except provision.Unavailable as fault:
        show.failed("not possible here", str(fault))
        return EXIT_SKIPPED
    if options.only_install:
        return 0
    environment = {**os.environ, "MAI_DEMO_FOUND": json.dumps(found)}
    main_file = str(provision.HERE / "demo.py")
    os.execve(python, [str(python), "-B", main_file, *sys.argv[1:]], environment)


if __name__ == "__main__":
    sys.exit(main())
