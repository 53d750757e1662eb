"""Commands in the documentation: each is typed by a test, or listed here with the reason why it is not.

Every `trimtab` command, typed or not, has options and arguments that the program accepts; `make` knows every target.
"""

from __future__ import annotations

import re
import shlex
import subprocess

import click
import pytest

from tests.unit.documentation.pages import ROOT, Block, blocks
from trimtab.cli.commands import commands as trimtab
from trimtab_lab.cli.commands import lab

TYPED: dict[str, str] = {
    "docs/index.md": "tests/scenarios/test_walk.py",
    "docs/walk.md": "tests/scenarios/test_inspection_walk.py",
    **{
        f"docs/{name}.md": "tests/scenarios/test_howtos.py"
        for name in (
            "configuration",
            "default-constraints",
            "install",
            "lab-nodes",
            "monitoring",
            "policies",
            "united-topology",
        )
    },
    **{
        f"docs/howto/{name}.md": "tests/scenarios/test_howtos.py"
        for name in (
            "defaults-on-a-managed-cluster",
            "keep-a-deployment-level",
            "move-from-workloadspread",
            "observe-then-enforce",
            "spare-busy-workers",
            "spot-with-a-floor",
        )
    },
}
"""Pages whose commands a test types, one by one, but for those that are listed below."""

_REAL = "needs Kubernetes binaries: `make e2e CONTROL_PLANE=DIR` runs the same commands"
_DEVELOPMENT = "a target of the Makefile for developers; it takes minutes"
_EXAMPLE = "tests/scenarios/test_examples.py runs the example"
ON_AN_INSTALLATION = "tests/e2e/test_installed_pages.py types it on a control plane"
"""Of commands that install, or need an installation: that test types every command with this reason."""
_CONTAINER = "needs a container of an installation, and simulated nodes have none"
_SHOWN = "typed in docs/walk.md; here with an explanation beside it"

NOT_TYPED: dict[str, dict[str, str]] = {
    "README.md": {
        "make up": "tests/scenarios/test_walk.py starts the lab",
        ".venv/bin/trimtab plan": "typed in docs/walk.md",
        "kubectl scale deployment web --replicas=20": "an excerpt, with its output; bench/promise measures it",
    },
    "CONTRIBUTING.md": {"make": _DEVELOPMENT},
    "bench/promise/README.md": {"make": _DEVELOPMENT},
    "bench/soak/README.md": {"make": _DEVELOPMENT},
    "docs/index.md": {
        "make up": "the test starts the lab itself",
        "trimtab": _SHOWN,
        ".venv/bin/trimtab lab run": "tests/scenarios/test_level_stories.py runs both stories",
    },
    "docs/configuration.md": {
        "trimtab run --config trimtab.yaml   ": "runs until it is stopped; tests/e2e/processes.py starts it",
        "trimtab run --config trimtab.yaml --component": "as above",
    },
    "docs/dashboard.md": {
        "trimtab dashboard": "tests/browser looks at the pages of such processes",
        "trimtab lab up": "tests/scenarios/test_walk.py starts the lab",
        "trimtab install": ON_AN_INSTALLATION,
        "kubectl -n trimtab-system port-forward": _CONTAINER,
        "kubectl create token": ON_AN_INSTALLATION,
    },
    "docs/default-constraints.md": {
        "trimtab scheduler-config": "tests/e2e/test_defaults.py starts kube-scheduler with its output",
        "kube-scheduler": _REAL,
    },
    "docs/install.md": {
        "make image": "builds an image, and needs a registry",
        "helm": ON_AN_INSTALLATION,
        "trimtab install": ON_AN_INSTALLATION,
        "kubectl -n trimtab-system rollout status": ON_AN_INSTALLATION,
        "kubectl apply --server-side -k": ON_AN_INSTALLATION,
        "trimtab doctor": "tests/e2e/test_doctor.py runs it",
        "trimtab uninstall\n": ON_AN_INSTALLATION,
    },
    "docs/lab.md": {
        "make up": "tests/scenarios/test_walk.py starts the lab",
        "make e2e": _DEVELOPMENT,
        "trimtab lab": "tests/scenarios/test_walk.py and tests/unit/lab start the lab with its options",
    },
    "docs/lab-nodes.md": {
        "trimtab lab nodes": "tests/e2e/test_nodes.py runs simulated nodes",
    },
    "docs/monitoring.md": {"kubectl -n trimtab-system set env": ON_AN_INSTALLATION},
    "docs/runbook.md": {"kubectl": _CONTAINER, "curl": _CONTAINER},
    "docs/scale-down.md": {
        "kubectl scale": "an excerpt, with its output; bench/promise measures it",
        "kubectl describe": "four events of three scale-downs; tests/e2e/test_describe.py asks for each",
    },
    **{
        f"examples/{name}/README.md": {".venv/bin/": _EXAMPLE}
        for name in (
            "01-keep-level",
            "02-where-would-it-go",
            "03-a-strategy-of-your-own",
            "04-a-cluster-in-a-box",
            "05-a-story-of-your-own",
            "06-long-work-is-spared",
            "07-a-cloneset-that-stays-level",
            "08-subsets-for-a-workload",
            "09-steady-and-spot",
        )
    },
}
"""Commands that no test types, by page and beginning (with the end of its line, if it has one), and why; often another
test does the same."""

COMMANDS = [(block, command) for block in blocks("console", "text", "sh", "bash") for command in block.commands]


def reason(page: str, command: str) -> str:
    """Why a command is not typed; empty if it is not listed."""
    return next((why for start, why in NOT_TYPED.get(page, {}).items() if f"{command}\n".startswith(start)), "")


def test_every_command_is_typed_by_a_test_or_listed_with_a_reason() -> None:
    """A page with a new command has to do one of both."""
    assert len(COMMANDS) > 100
    unknown = [
        f"{block}: {command}"
        for block, command in COMMANDS
        if not is_typed(block, command) and not reason(block.page, command)
    ]
    assert unknown == []


def is_typed(block: Block, command: str) -> bool:
    """Whether the test of the page types a command."""
    return block.page in TYPED and block.language == "console" and not reason(block.page, command)


def test_no_entry_is_left_over() -> None:
    """An entry of which the command is gone is removed."""
    for page, entries in NOT_TYPED.items():
        found = [command for block, command in COMMANDS if block.page == page]
        assert [start for start in entries if not any(f"{command}\n".startswith(start) for command in found)] == [], (
            page
        )
    assert set(TYPED) <= {block.page for block, _ in COMMANDS}


def invocations() -> list[str]:
    """Every `trimtab …` of a command, of an example of a command's help, and of a sentence."""
    typed = [command for _, command in COMMANDS]
    examples = [line for block in blocks("text") if "docs/commands/" in block.page for line in block.text.splitlines()]
    found: list[str] = []
    for line in (*typed, *examples):
        for part in re.split(r"\||&&|;|\$\(|<\(", line):
            text = re.split(r"\s{2,}|\s#|\s2?>| &$", part.strip())[0].rstrip(")")
            if re.match(r"(\.venv/bin/)?trimtab [a-z]", text):
                found.append(text.removeprefix(".venv/bin/"))
    return sorted(set(found))


@pytest.mark.parametrize("text", invocations())
def test_a_trimtab_command_has_options_that_exist(text: str) -> None:
    """It is parsed as the program parses it, and not run."""
    if "[OPTIONS]" in text or "…" in text:
        return  # a usage line
    name, *arguments = shlex.split(text)[1:]
    if name == "lab":
        assert problem(arguments[0], arguments[1:], lab) == ""
    else:
        assert problem(name, arguments) == ""


def problem(name: str, arguments: list[str], group: click.Group = trimtab) -> str:
    """Why the program refuses arguments; empty if it does not, or only for want of a file of the reader's."""
    context = click.Context(group, info_name=group.name)
    command = group.get_command(context, name)
    if command is None:
        return f"{name} is not a command"
    try:
        command.make_context(name, arguments, parent=context)
    except click.exceptions.Exit:
        return ""
    except click.ClickException as error:
        return "" if "does not exist" in error.message else error.message
    return ""


def test_an_option_that_does_not_exist_is_noticed() -> None:
    """Otherwise the test above would hold for anything."""
    assert problem("plan", ["deploy/web", "--replcias", "6"]) != ""
    assert problem("plna", []) != ""
    assert problem("up", ["--shpae", "x"], lab) != ""


TARGETS = sorted({command.split("#")[0].strip() for _, command in COMMANDS if command.startswith("make ")})


@pytest.mark.parametrize("command", TARGETS)
def test_a_target_of_make_exists(command: str) -> None:
    """`make` finds it, and would run its recipe; nothing is run."""
    arguments = shlex.split(command.split("&&")[0])[1:]
    done = subprocess.run(  # noqa: S603 - the pages are ours
        ["make", "--dry-run", "BUILDER=podman", *arguments],  # noqa: S607
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
