"""Output: tables for people on a terminal, plain lines in a pipe, JSON or YAML of the same values for programs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

_BAR = 24
"""The width of the longest bar."""


def output_option(*formats: str) -> Callable[[F], F]:
    """The option `-o`; without it, tables or lines for people."""
    return click.option(
        "-o", "--output", type=click.Choice(formats), help="Print values for programs, or more columns."
    )


def emit(value: Any, output: str | None, render: Callable[[], None]) -> None:
    """Print a value as asked for."""
    if output == "json":
        click.echo(as_json(value))
    elif output == "yaml":
        click.echo(as_yaml(value), nl=False)
    else:
        render()


def as_json(value: Any) -> str:
    """A value as indented JSON."""
    import json

    from trimtab.api import codec

    return json.dumps(codec.to_tree(value), indent=2, ensure_ascii=False)


def as_yaml(value: Any) -> str:
    """A value as YAML."""
    import yaml

    from trimtab.api import codec

    text: str = yaml.safe_dump(codec.to_tree(value), sort_keys=False, allow_unicode=True)
    return text


def is_terminal() -> bool:
    """Whether people look at the output."""
    return sys.stdout.isatty()


def title(text: str) -> None:
    """Print a heading."""
    click.echo(click.style(text, bold=True) if _has_colour() else text)


def line(text: str = "") -> None:
    """Print a line."""
    click.echo(text)


def warn(text: str) -> None:
    """Print a warning, beside the output."""
    click.echo(f"trimtab: {text}", err=True)


def table(headers: Sequence[str], rows: Sequence[Sequence[object]], indent: str = "") -> None:
    """Print a table: drawn on a terminal, aligned columns in a pipe."""
    cells = [[str(cell) for cell in row] for row in rows]
    if is_terminal():
        _draw(headers, cells)
        return
    columns = list(zip(*([header.upper() for header in headers], *cells), strict=True))
    widths = [max(map(len, column)) for column in columns]
    for row in zip(*columns, strict=True):
        text = "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo(f"{indent}{text}".rstrip())


def _draw(headers: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for header in headers:
        drawn.add_column(header, overflow="fold")
    for row in cells:
        drawn.add_row(*map(Text, row))
    Console(highlight=False).print(drawn)


def bar(count: int, most: int) -> str:
    """A number as a bar; `most` is the number of the longest."""
    width = round(count * _BAR / most) if most else 0
    block = "█" if _can_print("█") else "#"
    return block * max(width, 1 if count else 0)


def _can_print(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _has_colour() -> bool:
    import os

    return is_terminal() and not os.environ.get("NO_COLOR")


class Progress:
    """What long work is doing, on one line of a terminal; nothing elsewhere."""

    def __init__(self, verb: str) -> None:
        self._verb = verb
        self._is_shown = sys.stderr.isatty()
        self._width = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._write("")

    def update(self, what: str, count: int) -> None:
        """Show how far the work is."""
        self._write(f"{self._verb} {what}: {count}")

    def _write(self, text: str) -> None:
        if not self._is_shown or (not text and not self._width):
            return
        padded = text.ljust(self._width)
        self._width = len(text)
        with suppress(OSError):
            sys.stderr.write(f"\r{padded}" + ("" if text else "\r"))
            sys.stderr.flush()


def duration(seconds: float | None) -> str:
    """An age as kubectl prints it."""
    if seconds is None:
        return "-"
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{int(seconds // size)}{unit}"
    return f"{int(seconds)}s"
