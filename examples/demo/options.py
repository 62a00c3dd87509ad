"""The demo's command line. Standard library only: both halves read it."""

import argparse

EPILOG = """
what can take the small chat model's place (it stays as the last resort behind it):
  --chat own      your provider: OPENAI_API_KEY, OPENAI_BASE_URL (default https://api.openai.com/v1), --chat-model
  --chat ollama   a running Ollama: OLLAMA_HOST (default http://127.0.0.1:11434), --chat-model (default: its first model)

exit codes: 0 all well, 1 something failed, 77 cannot be run here (no network and nothing kept, no apt-get, …)
"""


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="examples/demo/run",
        description="Real models behind the gateway: index the Debian FAQ, ask it in Chinese and English, stop upstreams.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--check", action="store_true", help="assert everything the demo shows; exit 1 where it fails")
    parser.add_argument("--fast", action="store_true", help="fewer documents and questions, for CI")
    parser.add_argument("--json", action="store_true", help="a report on standard output; the rest goes to standard error")
    parser.add_argument("--chat", choices=["small", "own", "ollama"], default="small", help="who answers (default: small)")
    parser.add_argument("--chat-model", metavar="NAME", help="the model of --chat own or --chat ollama")
    parser.add_argument("--gateway", metavar="PATH", help="the gateway to run (default: the newest built one)")
    parser.add_argument("--only-install", action="store_true", help="fetch everything, start nothing")
    return parser.parse_args(argv)
