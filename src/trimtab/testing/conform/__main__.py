"""`python -m trimtab.testing.conform FAMILY`: cases on standard input, answers on standard output."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence

from trimtab.testing.conform import FAMILIES, reply

_EXAMPLE = """\
example:
  $ echo '{"id": "q1", "kind": "quantity", "input": {"quantity": "1500m"}}' \\
      | python -m trimtab.testing.conform selectors_quantities
  {"id": "q1", "actual": {"error": false, "value": "2", "milliValue": "1500", ...}}
"""


def main(arguments: Sequence[str] | None = None, *, lines: Iterable[bytes] | None = None) -> int:
    """Answer all cases; blank lines are passed over. A usage error ends the program with status 2."""
    family = _parser().parse_args(arguments).family
    for line in sys.stdin.buffer if lines is None else lines:
        if line.strip():
            print(json.dumps(reply(family, line)))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m trimtab.testing.conform",
        description="Answer recorded questions about Kubernetes: a case a line in, an answer a line out.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("family", metavar="FAMILY", choices=list(FAMILIES), help=f"one of: {', '.join(FAMILIES)}")
    return parser


if __name__ == "__main__":
    sys.exit(main())
