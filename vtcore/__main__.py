"""`python -m vtcore`: the command line."""

import sys

from vtcore.cli import main

sys.exit(main())
