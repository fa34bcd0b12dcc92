"""The recorded calls of real clients, made of several servers: what each answers otherwise than recorded.

python tools/compare_servers.py http://127.0.0.1:8000 http://127.0.0.1:8001 --model smollm2-135m --api-key KEY
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from clients.call import Call, Server, broken, load
from clients.clients import ask


def main() -> None:
    """Print a Markdown table of the calls that some server answers otherwise, and how many it answers as recorded."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bases", nargs="+", metavar="URL", help="where a server listens, without /v1")
    parser.add_argument("--model", required=True, help="the name under which each serves SmolLM2 135M Instruct, with a context of 512")
    parser.add_argument("--api-key", default="-", metavar="KEY")
    args = parser.parse_args()
    for line in table(load(args.model), [Server(base.rstrip("/"), args.api_key, args.model) for base in args.bases]):
        print(line, flush=True)


def table(calls: Sequence[Call], servers: Sequence[Server]) -> Iterator[str]:
    """Its lines."""
    yield f"| call | {' | '.join(s.base for s in servers)} |"
    yield f"|---|{'---|' * len(servers)}"
    right = [0] * len(servers)
    for call in calls:
        found = [_broken(call, server) for server in servers]
        right = [n + (not wrong) for n, wrong in zip(right, found, strict=True)]
        if any(found):
            yield f"| {call.name} | {' | '.join(wrong or 'as recorded' for wrong in found)} |"
    yield f"| as recorded, of {len(calls)} | {' | '.join(map(str, right))} |"


def _broken(call: Call, server: Server) -> str:
    try:
        return "; ".join(broken(call, ask(call, server))).replace("|", "\\|").replace("\n", " ")
    except Exception as error:  # whatever a client makes of an answer that it can't read
        return f"{call.client} raises {type(error).__name__}: {str(error)[:120]}".replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    main()
