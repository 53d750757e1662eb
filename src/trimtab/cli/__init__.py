"""The command line: parse, call, render. Thin on purpose.

Belongs here: options, help with examples, tables for people and `-o json` for programs, exit codes.

Does not belong here: anything that could be called without a terminal.

May import: everything. Heavy modules are imported by the command that needs them, so that `--help` stays quick.
"""

from __future__ import annotations

import sys

import click

from trimtab import __version__
from trimtab.cli.install import install, uninstall
from trimtab.cli.lab import lab
from trimtab.cli.run import run
from trimtab.cli.scheduler_config import scheduler_config

EXAMPLES = """
\b
Examples:
  trimtab lab up                         a cluster in a box, on this machine
  trimtab install | kubectl apply -f -   into a real cluster
  trimtab run --config trimtab.yaml      the product, against the cluster of $KUBECONFIG
  trimtab uninstall                      the way back
"""


@click.group(epilog=EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="trimtab")
def commands() -> None:
    """Keeps Kubernetes workloads level: where a new pod goes, and which pod goes first."""


commands.add_command(run)
commands.add_command(lab)
commands.add_command(install)
commands.add_command(uninstall)
commands.add_command(scheduler_config)


def main() -> None:
    """Run the command line. What a user can mend is one line, not a traceback."""
    try:
        commands(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except Exception as error:
        if not _is_expected(error):
            raise
        click.echo(f"trimtab: {error}", err=True)
        sys.exit(1)


def _is_expected(error: Exception) -> bool:
    """Whether an error is about the user's input, files or cluster. Imported here, so that `--help` stays quick."""
    from trimtab.api.errors import InvalidError
    from trimtab.kube.errors import KubeError

    return isinstance(error, InvalidError | KubeError | OSError)
