"""The tools are programs of their own: their folder is where they find each other."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "tools"))
