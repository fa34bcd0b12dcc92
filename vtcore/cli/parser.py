"""The parser of every command: a word that is not known is refused by the command it was said to, with the nearest one that is."""

from __future__ import annotations

import argparse
import sys
from typing import Any, NoReturn

from vtcore.cli import config_file
from vtcore.errors import nearest


class Parser(argparse.ArgumentParser):
    """argparse's, and `--config FILE` where a command has that option."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **{"allow_abbrev": False, **options})

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Nothing that is unknown is left to whoever called: this parser knows what was meant."""
        given = sys.argv[1:] if args is None else list(args)
        if config_file.OPTION in self._option_string_actions:
            namespace = config_file.told(self, given)
        found, unknown = super().parse_known_args(given, namespace)
        if unknown:
            hints = (nearest(word.partition("=")[0], self._option_string_actions) for word in unknown if word.startswith("-"))
            self.error(f"unrecognized arguments: {' '.join(unknown)}{next(filter(None, hints), '')}")
        return found, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as wrong:
            raise argparse.ArgumentError(action, wrong.message + nearest(value, map(str, action.choices or ()))) from None


class Version(argparse.Action):
    """Asks for the version only where it is wanted: looking it up takes as long as defining all commands."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        """Print it, and end."""
        from vtcore import __version__

        print(f"vtcore {__version__}")
        parser.exit()
