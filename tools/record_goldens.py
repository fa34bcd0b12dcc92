"""Record goldens: what transformers answers on tiny checkpoints that are drawn from a seed. Needs the extra `oracle`.

python tools/record_goldens.py llama gemma2     these
python tools/record_goldens.py --all            every recipe
python tools/record_goldens.py --variants llama their second networks only
python tools/record_goldens.py --list           their names"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from goldens import dense, experts, hybrid, latent, more_dense, wrapped
from goldens.recipe import RECIPES
from goldens.record import record, text
from goldens.variants import varied

from vtcore.conformance.golden import FOLDER, Golden

TABLES = (dense, more_dense, experts, latent, hybrid, wrapped)  # importing them fills RECIPES


def main() -> int:
    """Record what the command line names; the exit status is the number of recipes that failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--variants", action="store_true")
    parser.add_argument("--out", type=Path, default=FOLDER)
    wanted = parser.parse_args()
    if wanted.list:
        print("\n".join(RECIPES))
        return 0
    names = list(RECIPES) if wanted.all else wanted.names
    if unknown := [n for n in names if n not in RECIPES] or (not names and ["(none)"]):
        parser.error(f"no recipe {', '.join(unknown)}; there are {', '.join(RECIPES)}")
    return sum(not saved(name, wanted.out, wanted.variants) for name in names)


def saved(name: str, folder: Path, again: bool = False) -> bool:
    """Record one golden (`again`: its second network only). A failure is printed and doesn't stop the others."""
    file = folder / f"{name}.json"
    try:
        if not again:
            file.write_text(text(record(RECIPES[name])))
        if variant := varied(RECIPES[name], Golden.load(file)):
            file.write_text(text({**json.loads(file.read_text()), "variant": variant}))
    except (ValueError, RuntimeError, AttributeError, TypeError, AssertionError) as error:
        print(f"{name}: FAILED: {type(error).__name__}: {error}", file=sys.stderr)
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
