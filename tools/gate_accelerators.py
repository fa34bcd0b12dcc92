"""Every golden on an accelerator, and a table of what came of it: tokens, the largest difference of a logit, what fell back.

`python tools/gate_accelerators.py opencl [GOLDEN...]`. A golden that doesn't pass makes the exit status 1."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping

from vtcore.conformance.gate import fallen, load
from vtcore.conformance.golden import FOLDER, Golden
from vtcore.provider import Provider
from vtcore.providers import find

COLUMNS = ("golden", "tokens", "off by", "allowed", "seconds", "fallbacks")
LINE = "{:24} {:>9} {:>8} {:>8} {:>8}  {}"


def main() -> int:
    """The table, a line as soon as it is known."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("provider", metavar="PROVIDER")
    parser.add_argument("golden", nargs="*", metavar="GOLDEN", help="of these names only (default: all)")
    options = parser.parse_args()
    provider, names = find(options.provider), options.golden or [p.stem for p in sorted(FOLDER.glob("*.json"))]
    print(LINE.format(*COLUMNS))
    failed = [name for name in names if not passes(provider, Golden.load(FOLDER / f"{name}.json"))]
    print(f"{len(names) - len(failed)} of {len(names)} pass" + (f"; not {', '.join(failed)}" if failed else ""))
    return int(bool(failed))


def passes(provider: Provider, golden: Golden) -> bool:
    """Run one, and print its line."""
    begin = time.perf_counter()
    verdict, definitions = fallen(load(golden), golden, [provider])
    tokens, seconds = f"{verdict.matched}/{verdict.tokens}", f"{time.perf_counter() - begin:.1f}"
    row = (golden.name, tokens, f"{verdict.error:.1e}", f"{verdict.tolerance:.0e}", seconds, shown(definitions))
    print(LINE.format(*row) + ("" if verdict.passed else f"  {verdict}"), flush=True)
    return verdict.passed


def shown(definitions: Mapping[str, int]) -> str:
    """Each op with its number of calls."""
    return ", ".join(f"{op} {n}" for op, n in definitions.items()) or "none"


if __name__ == "__main__":
    raise SystemExit(main())
