"""The command line: `python -m bench.soak [options]`."""

from __future__ import annotations

import asyncio
import sys

from bench.soak.options import read_options
from bench.soak.run import soak


def main() -> int:
    """Run it; the exit code is 1 where an invariant was broken."""
    options = read_options()
    report = asyncio.run(soak(options))
    report.show()
    report.write(options.output)
    print(f"everything is in {options.output}")
    return 1 if report.ledger.breaches else 0


if __name__ == "__main__":
    sys.exit(main())
