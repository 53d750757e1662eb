"""The command line: `python -m bench.soak [options]`."""

from __future__ import annotations

import asyncio
import signal
import sys

from bench.soak.options import Options, read_options
from bench.soak.report import Report
from bench.soak.run import soak


def main() -> int:
    """Run it; the exit code is 1 where an invariant was broken."""
    options = read_options()
    report = asyncio.run(_run(options))
    report.show()
    report.write(options.output)
    print(f"everything is in {options.output}")
    return 1 if report.ledger.breaches else 0


async def _run(options: Options) -> Report:
    """Run it; SIGINT and SIGTERM stop it early, and what was found until then is reported."""
    task = asyncio.ensure_future(soak(options))
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    return await task


if __name__ == "__main__":
    sys.exit(main())
