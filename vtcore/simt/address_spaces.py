"""Metal's address spaces, checked by clang where there is one: the processor itself knows none."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence

from vtcore.errors import ProviderError, ProviderUnavailableError
from vtcore.simt.compiler import HEADERS, SECONDS, SHOWN
from vtcore.simt.program import REWRITTEN, Text, undefined
from vtcore.simt.signature import bare

CLANG = "clang++"
FLAGS = ("-std=c++17", "-x", "c++", "-fsyntax-only", "-w", "-include", str(HEADERS / "address_spaces.hpp"))


def check(texts: Sequence[Text]) -> None:
    """Raises ProviderError with clang's words for the first texts that mix them up, ProviderUnavailableError without clang."""
    clang = shutil.which(CLANG)
    if clang is None:
        raise ProviderUnavailableError(f"{CLANG} isn't there: Metal's address spaces are checked by it (Debian: apt-get install clang)")
    source = "".join(f"namespace vt_{i} {{\n{_plain(t)}\n}}\n{undefined(t.code)}" for i, t in enumerate(texts))
    done = subprocess.run([clang, *FLAGS, "-"], input=source, capture_output=True, text=True, timeout=SECONDS, check=False)
    if done.returncode:
        raise ProviderError(f"{CLANG}: Metal's address spaces: {done.stderr.strip()[:SHOWN]}")


def _plain(text: Text) -> str:
    code = re.sub(r"#\s*include\s*<metal_stdlib>", "", bare(text.code))
    for pattern, by in REWRITTEN["metal"]:
        code = re.sub(pattern, by, code)
    return f'#line 1 "{text.name}"\n{code}'
