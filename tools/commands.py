"""Writes `docs/commands/`, a page for each command, and the text of `trimtab --help`, from the commands themselves."""

from __future__ import annotations

import html
import inspect
from collections.abc import Iterator
from pathlib import Path

import click

from trimtab import cli
from trimtab.cli.commands import COMMANDS, commands

FOLDER = Path(__file__).parents[1] / "docs" / "commands"
HELP = Path(cli.__file__).parent / cli.HELP
_INDEX = """# Commands

{summary}

Every command has `--help` with examples. As `kubectl trimtab …` they are the same: `kubectl-trimtab` is installed
beside `trimtab`, and kubectl finds it in the PATH. Tables are drawn on a terminal and are plain lines in a pipe;
`NO_COLOR` turns styles off. [From nothing to enforced](../walk.md) is a walk through most of them. These pages are
generated from the commands by `make generate`.

| command | what it does |
|---|---|
"""
_READING = ("plan", "rank", "explain", "place", "lint", "snapshot", "watch", "dashboard", "report")
_RIGHTS = """
Only list and watch rights are needed, and nothing is written. Where a kind may not be listed, a warning names it, and
says what is shown without it; an account of one namespace sees that namespace.
"""


def pages() -> dict[str, str]:
    """All pages, by file name."""
    context = click.Context(commands, info_name="trimtab")
    made = {"index.md": _index(context)}
    for name in COMMANDS:
        command = commands.get_command(context, name)
        if command is None:
            raise LookupError(f"{name} is not a command")
        made[f"{name}.md"] = _page(name, command, context)
    return made


def overview() -> str:
    """What click prints for `trimtab --help`, 80 columns wide."""
    return commands.get_help(click.Context(commands, info_name="trimtab", terminal_width=80)) + "\n"


def main() -> None:
    """Write the pages."""
    HELP.write_text(overview(), encoding="utf-8")
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


def _index(context: click.Context) -> str:
    summary = inspect.cleandoc(context.command.help or "")
    rows = [f"| [`trimtab {name}`]({name}.md) | {text} |\n" for name, (_, text) in COMMANDS.items()]
    return _INDEX.format(summary=summary) + "".join(rows)


def _page(name: str, command: click.Command, parent: click.Context) -> str:
    context = click.Context(command, info_name=name, parent=parent)
    usage = " ".join(command.collect_usage_pieces(context))
    parts = [f"# trimtab {name}\n", f"```text\ntrimtab {name} {usage}\n```\n", *_paragraphs(command)]
    if name in _READING:
        parts.append(_RIGHTS.strip() + "\n")
    options = list(_options(command, context))
    if options:
        rows = "".join(f"| {option} | {text} |\n" for option, text in options)
        parts.append(f"## Options\n\n| option | meaning |\n|---|---|\n{rows}")
    parts += _examples(command)
    return "\n".join(parts)


def _paragraphs(command: click.Command) -> Iterator[str]:
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        yield " ".join(paragraph.split()) + "\n"


def _options(command: click.Command, context: click.Context) -> Iterator[tuple[str, str]]:
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None and isinstance(parameter, click.Option):
            option, text = record
            yield _code(option), " ".join(text.split()).replace("|", "&#124;")


def _code(text: str) -> str:
    """Code in a table. GitHub and the site escape a bar in backticks in different ways; both read HTML."""
    return f"<code>{html.escape(text).replace('|', '&#124;')}</code>" if "|" in text else f"`{text}`"


def _examples(command: click.Command) -> Iterator[str]:
    """The blocks of the epilog: a heading, and lines as they are."""
    for block in (command.epilog or "").split("\b\n"):
        heading, _, lines = block.strip("\n").partition("\n")
        if heading.endswith(":") and lines:
            yield f"## {heading.rstrip(':')}\n\n```text\n{inspect.cleandoc('  ' + lines.lstrip())}\n```\n"


if __name__ == "__main__":
    main()
