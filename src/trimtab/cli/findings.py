"""What the commands that report findings share: the option --fail-on, the exit status, and the IDs to leave out."""

from __future__ import annotations

from collections.abc import Iterable

import click

_THRESHOLDS = ("error", "warning", "note")

fail_on_option = click.option(
    "--fail-on",
    type=click.Choice([*_THRESHOLDS, "never"]),
    default="warning",
    show_default=True,
    help="The least severity that makes the exit status 1.",
)


class CannotCheckError(click.ClickException):
    """The check could not be made: an exit status of its own, so that CI can tell."""

    exit_code = 2

    def show(self, file: object = None) -> None:  # noqa: ARG002 - click's signature
        """Print the reason in one line."""
        click.echo(f"trimtab: {self.message}", err=True)


def check_ids(ignored: Iterable[str], known: Iterable[str]) -> None:
    """Check that --ignore names IDs that there are. Raises BadParameter."""
    ids = sorted(known)
    for each in ignored:
        if each not in ids:
            raise click.BadParameter(f'"{each}" is none of {", ".join(ids)}', param_hint="--ignore")


def exit_by(worst: str | None, fail_on: str) -> None:
    """End the command with the exit status 1 if the worst finding is as severe as --fail-on."""
    if worst is not None and fail_on != "never" and _THRESHOLDS.index(worst) <= _THRESHOLDS.index(fail_on):
        click.get_current_context().exit(1)
