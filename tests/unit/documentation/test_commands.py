"""Commands in the documentation: each is typed by a test, or listed here with the reason why it is not.

Every `trimtab` command, typed or not, has options and arguments that the program accepts; `make` knows every target.
Complete commands in sentences and tables (`inline_commands`) are all typed by tests/e2e/test_installed_pages.py.
"""

from __future__ import annotations

import itertools
import re
import shlex
import subprocess
import sys
from functools import cache

import click
import pytest

from tests.unit.documentation.pages import ROOT, Block, blocks, inline_code, pages
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

_EXAMPLE = "tests/scenarios/test_examples.py runs the example"
ON_AN_INSTALLATION = "tests/e2e/test_installed_pages.py types it on a control plane"
"""Of commands that install, or need an installation: that test types every command with this reason."""
PUSHED = "tests/e2e/test_image.py types it, where podman and a base image are"
UNTIL_STOPPED = "tests/e2e/test_running_pages.py types it, and stops it with Ctrl-C"
IN_A_LAB = "tests/e2e/test_running_pages.py types it in a clone, with a lab"
"""That test types every command with one of these reasons."""
_LEVEL = "an excerpt with its output; tests/scenarios/test_level_stories.py makes the same scale-down"
_ITSELF = "it runs these tests"
_LONG = "it takes long; tests/unit/{} tries its parts, and a test below its options"

NOT_TYPED: dict[str, dict[str, str]] = {
    "README.md": {
        "make up": UNTIL_STOPPED,
        ".venv/bin/trimtab plan": IN_A_LAB,
        "kubectl scale deployment web --replicas=20": _LEVEL,
    },
    "CONTRIBUTING.md": {
        "make lint test": _ITSELF,
        "make format": "it changes files; `make lint` checks the same rules",
        "make test": _ITSELF,
        "make bench": "it measures; a test below looks for the names of benchmarks",
        "make mutants": _LONG.format("tools/test_mutants.py"),
        "make soak": _LONG.format("bench/soak"),
        "make fuzz": _LONG.format("test_fuzz.py"),
        "make docs": "tests/unit/documentation/test_site.py builds the site as it does",
        "make diagrams": "tests/unit/documentation/test_site.py checks that its pictures are current",
        "make generate": "tests/unit/deploy/test_pages.py and others check that what it writes is current",
    },
    "bench/promise/README.md": {"make": _LONG.format("bench")},
    "bench/soak/README.md": {"make": _LONG.format("bench/soak")},
    "docs/index.md": {
        "make up": UNTIL_STOPPED,
        "trimtab watch": UNTIL_STOPPED,
        "trimtab": IN_A_LAB,
        ".venv/bin/trimtab lab run": IN_A_LAB,
    },
    "docs/configuration.md": {
        "trimtab run --config trimtab.yaml   ": UNTIL_STOPPED,
        "trimtab run --config trimtab.yaml --component": UNTIL_STOPPED,
    },
    "docs/dashboard.md": {
        "trimtab dashboard": UNTIL_STOPPED,
        "trimtab lab up": UNTIL_STOPPED,
        "trimtab install": ON_AN_INSTALLATION,
        "kubectl -n trimtab-system port-forward": ON_AN_INSTALLATION,
        "kubectl create token": ON_AN_INSTALLATION,
    },
    "docs/default-constraints.md": {
        "trimtab scheduler-config": "tests/e2e/test_defaults.py starts kube-scheduler with its output",
        "kube-scheduler": "tests/e2e/test_defaults.py starts it",
    },
    "docs/install.md": {
        "make image": PUSHED,
        "helm": ON_AN_INSTALLATION,
        "trimtab install": ON_AN_INSTALLATION,
        "kubectl -n trimtab-system rollout status": ON_AN_INSTALLATION,
        "kubectl apply --server-side -k": ON_AN_INSTALLATION,
        "trimtab doctor": "tests/e2e/test_doctor.py runs it",
        "trimtab uninstall\n": ON_AN_INSTALLATION,
    },
    "docs/lab.md": {
        "make up": "tests/e2e/test_running_pages.py types the lines of this block one after the other",
        "trimtab lab status": "as above",
        "trimtab lab down": "as above",
        "trimtab lab reset": "as above",
        "trimtab lab up": UNTIL_STOPPED,
        "trimtab lab workloads": UNTIL_STOPPED,
        "trimtab lab run": IN_A_LAB,
        "make e2e": _ITSELF,
    },
    "docs/lab-nodes.md": {"trimtab lab nodes": UNTIL_STOPPED},
    "docs/monitoring.md": {"kubectl -n trimtab-system set env": ON_AN_INSTALLATION},
    "docs/runbook.md": {"kubectl": ON_AN_INSTALLATION, "curl": ON_AN_INSTALLATION},
    "docs/scale-down.md": {
        "kubectl scale": _LEVEL,
        "kubectl describe": "four events of three scale-downs; tests/e2e/test_describe.py asks for each",
    },
    **{
        f"examples/{name}/README.md": {".venv/bin/": _EXAMPLE}
        for name in (
            "01-keep-level",
            "02-where-would-it-go",
            "03-a-strategy-of-your-own",
            "05-a-story-of-your-own",
            "06-long-work-is-spared",
            "07-a-cloneset-that-stays-level",
            "08-subsets-for-a-workload",
            "09-steady-and-spot",
        )
    },
    "examples/04-a-cluster-in-a-box/README.md": {".venv/bin/": UNTIL_STOPPED},
}
"""Commands that the test of their page does not type, by page and beginning (with the end of its line, if it has one),
and which test runs them, or does the same."""

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
    """Every `trimtab …` of a command, and of an example of a command's help."""
    examples = [line for block in blocks("text") if "docs/commands/" in block.page for line in block.text.splitlines()]
    return trimtab_commands([*(command for _, command in COMMANDS), *examples])


def mentions() -> list[str]:
    """Every `trimtab …` with an option in a sentence, that is not a command as well."""
    sentences = [code for page in pages() for code in inline_code(page) if " -" in code and "…" not in code]
    return sorted({*trimtab_commands(sentences)} - {*invocations()})


def trimtab_commands(lines: list[str]) -> list[str]:
    """The commands of the program in some lines."""
    found: list[str] = []
    for line in lines:
        for part in re.split(r"\||&&|;|\$\(|<\(", line):
            text = re.split(r"\s{2,}|\s#|\s2?>| &$", part.strip())[0].rstrip(")")
            if re.match(r"(\.venv/bin/)?trimtab [a-z]", text):
                found.append(text.removeprefix(".venv/bin/"))
    return sorted(set(found))


@pytest.mark.parametrize("text", invocations())
def test_a_trimtab_command_has_options_that_exist(text: str) -> None:
    """It is parsed as the program parses it, and not run."""
    if "[OPTIONS]" not in text and "…" not in text:  # a usage line
        assert parsed(text) == ""


@pytest.mark.parametrize("text", mentions())
def test_a_sentence_names_options_that_exist(text: str) -> None:
    """It may leave out the value of one."""
    assert parsed(text).removesuffix("requires an argument.") in ("", f"Option '{text.split()[-1]}' ")


def parsed(text: str) -> str:
    """Why the program refuses a command; empty if it does not."""
    name, *arguments = shlex.split(text)[1:]
    return problem(arguments[0], arguments[1:], lab) if name == "lab" else problem(name, arguments)


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


WITH_OPTIONS = ("bench", "bench.promise", "bench.soak", "tests.fuzz", "tools.mutants")
"""Programs of recipes that print their options with `--help`; others, such as tools.generate, just run."""


def targets() -> list[str]:
    """Every `make …` of a command and of a sentence."""
    typed = [command.split("#")[0].split("&&")[0].strip() for _, command in COMMANDS]
    sentences = [code for page in pages() for code in inline_code(page) if "…" not in code]
    return sorted({each for each in (*typed, *sentences) if each.startswith("make ")})


@pytest.mark.parametrize("command", targets())
def test_a_target_of_make_exists_and_its_options_too(command: str) -> None:
    """`make` finds it, and would run its recipe; the programs of the recipe know their options. Nothing is run."""
    done = subprocess.run(  # noqa: S603 - the pages are ours
        ["make", "--dry-run", "BUILDER=podman", *shlex.split(command)[1:]],  # noqa: S607
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for line in done.stdout.replace("\\\n", " ").splitlines():
        program = re.match(r"\S+/python -m (\S+)", line)
        if program is not None and program[1] in WITH_OPTIONS:
            assert misunderstood(shlex.split(line)[1:]) == []


def misunderstood(arguments: list[str]) -> list[str]:
    """The options that a program of ours does not know, and the names of benchmarks."""
    subcommand = [each for each in arguments[2:3] if not each.startswith("-")]
    known = re.split(r"[\s,\[\]{}]+", help_of(*arguments[:2], *subcommand))
    pairs = itertools.pairwise(arguments[1:])
    return [each for before, each in pairs if (each.startswith("-") or before == "--only") and each not in known]


@cache
def help_of(*command: str) -> str:
    """What a program of ours says about its options."""
    arguments = [sys.executable, *command, "--help"]
    return subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, check=True).stdout  # noqa: S603 - our own


def test_an_option_that_a_program_does_not_know_is_noticed() -> None:
    """Otherwise the test above would hold for anything."""
    assert misunderstood(["-m", "tests.fuzz", "--minuts", "10", "--seed", "0"]) == ["--minuts"]
    assert misunderstood(["-m", "bench", "--only", "plan-10"]) == ["plan-10"]
