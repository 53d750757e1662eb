"""Writes the completion scripts of the shells to `deploy/completions`, from where the wheel takes them."""

from __future__ import annotations

from pathlib import Path

from click.shell_completion import get_completion_class

from trimtab.cli.commands import commands

FOLDER = Path(__file__).parents[1] / "deploy" / "completions"
NAMES = {"bash": "trimtab.bash", "zsh": "_trimtab", "fish": "trimtab.fish"}
"""The name of the script of each shell."""


def files() -> dict[str, str]:
    """The text of each script, by its name."""
    return {name: _script(shell) for shell, name in NAMES.items()}


def main() -> None:
    """Write all scripts."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in files().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


def _script(shell: str) -> str:
    found = get_completion_class(shell)
    if found is None:
        raise LookupError(f"click has no completion for {shell}")
    return found(commands, {}, "trimtab", "_TRIMTAB_COMPLETE").source().strip("\n") + "\n"


if __name__ == "__main__":
    main()
