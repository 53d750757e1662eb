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

EXAMPLES = """
\b
Examples:
  trimtab lab up                         a small cluster on this machine
  trimtab install | kubectl apply -f -   install into a cluster
  trimtab run --config trimtab.yaml      run Trimtab against the cluster of $KUBECONFIG
  trimtab uninstall                      remove it from the cluster
"""


@click.group(epilog=EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="trimtab")
def commands() -> None:
    """Keep Kubernetes workloads level: where a new pod goes, and which pod is deleted first."""


commands.add_command(run)
commands.add_command(lab)
commands.add_command(install)
commands.add_command(uninstall)


def main() -> None:
    """Run the command line. Errors that a user can fix are one line, without a traceback."""
    from trimtab.api.errors import InvalidError
    from trimtab.kube.errors import KubeError

    try:
        commands(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except (InvalidError, KubeError, OSError) as error:
        click.echo(f"trimtab: {error}", err=True)
        sys.exit(1)
