"""`trimtab lab`: runs the commands of the lab, a distribution of its own that is found by entry point."""

from __future__ import annotations

import click

ENTRY_POINTS = "trimtab.commands"
MISSING = "the lab is not installed; install it with: pip install 'trimtab[lab]'"


@click.command(
    add_help_option=False, context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def lab(arguments: tuple[str, ...]) -> None:
    """A small cluster on this machine: API server, workloads, nodes, and Trimtab itself."""
    command = _find_command("lab")
    if command is None:
        raise click.ClickException(MISSING)
    command.main(list(arguments), prog_name="trimtab lab", standalone_mode=False)


def _find_command(name: str) -> click.Command | None:
    """Load the command that an installed distribution registers under this name."""
    from importlib.metadata import entry_points  # 30 ms that `trimtab --help` does not need

    for entry_point in entry_points(group=ENTRY_POINTS, name=name):
        command: click.Command = entry_point.load()
        return command
    return None
