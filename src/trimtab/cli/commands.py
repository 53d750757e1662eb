"""The table of commands, and how they are run."""

from __future__ import annotations

import sys
from collections.abc import Mapping

import click

from trimtab import __version__

EXAMPLES = """
\b
Examples:
  trimtab plan deploy/web --replicas 6   what a scale-down would delete; nothing is installed or changed
  trimtab lint -A                        what keeps workloads from being level
  trimtab lab up                         a cluster in a box, on this machine
  trimtab install | kubectl apply -f -   into a real cluster
  trimtab uninstall                      the way back
"""

COMMANDS: Mapping[str, tuple[str, str]] = {
    "plan": ("plan", "Show which pods a scale-down would delete, and why."),
    "rank": ("rank", "Show the pods of a workload in the order in which they are deleted."),
    "explain": ("explain", "Explain a pod: where it is, when it goes, and what applies to it."),
    "place": ("place", "Show which node a pod would get, and why not the others."),
    "lint": ("lint", "Find what keeps workloads from being level."),
    "snapshot": ("snapshot", "Capture what decisions look at in a file."),
    "watch": ("watch", "Follow every scale-down: what the controller left, and what Trimtab would have left."),
    "dashboard": ("dashboard", "Serve pages that show where pods are, which go next, and why."),
    "report": ("report", "Sum up the scale-downs of an installation, or of records."),
    "doctor": ("doctor", "Check an installation: what is broken in it, and how to fix that."),
    "run": ("run", "Run Trimtab against a cluster until it is stopped."),
    "install": ("install", "Print all objects of an installation, for `kubectl apply -f -`."),
    "uninstall": ("uninstall", "Remove Trimtab from a cluster."),
    "scheduler-config": (
        "scheduler_config",
        "Print a KubeSchedulerConfiguration for kube-scheduler with Trimtab's default constraints.",
    ),
    "lab": ("lab", "A small cluster on this machine."),
    "completion": ("completion", "Print the completion script of a shell."),
}
"""The commands in the order of the help, each with its module and what the list of commands says."""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """The names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - as above
        """Import a command."""
        if cmd_name not in COMMANDS:
            return None
        from importlib import import_module

        module = import_module(f"trimtab.cli.{COMMANDS[cmd_name][0]}")
        found: click.Command = getattr(module, cmd_name.replace("-", "_"))
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - as above
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=LazyGroup, epilog=EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="trimtab")
def commands() -> None:
    """Keeps Kubernetes workloads level: where a new pod goes, and which pod goes first."""


def run(name: str) -> None:
    """Run a command. What a user can mend is one line, not a traceback."""
    try:
        code = commands.main(prog_name=name, standalone_mode=False)
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
    sys.exit(code if isinstance(code, int) else 0)


def _is_expected(error: Exception) -> bool:
    """Whether an error is about the user's input, files or cluster."""
    from trimtab.api.errors import InvalidError
    from trimtab.kube.errors import KubeError

    return isinstance(error, InvalidError | KubeError | OSError)
