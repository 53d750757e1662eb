"""The command line: parse, call, render. Thin on purpose.

Belongs here: options, help with examples, tables for people and `-o json` for programs, exit codes.

Does not belong here: anything that could be called without a terminal.

May import: everything. `commands` has the table of commands; a command's module is imported when the command runs, and
not even click for `trimtab --help`, whose text `make generate` writes to a file: it answers in the time that Python
takes to start.
"""

from __future__ import annotations

import os
import sys

HELP = "help.txt"


def main() -> None:
    """Run the command line."""
    if sys.argv[1:] in (["--help"], ["-h"]):
        sys.stdout.write(overview(program()))
        return
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy would start threads for algebra that we do not use
    from trimtab.cli.commands import run

    run(program())


def program() -> str:
    """The name by which users call it."""
    return "kubectl trimtab" if sys.argv[0].rpartition("/")[2].startswith("kubectl-") else "trimtab"


def overview(name: str) -> str:
    """The text of `trimtab --help`."""
    with open(__file__.removesuffix("__init__.py") + HELP, encoding="utf-8") as file:  # noqa: PTH123 - pathlib takes 10 ms
        return file.read().replace("Usage: trimtab ", f"Usage: {name} ", 1)
