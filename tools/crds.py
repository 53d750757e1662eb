"""Writes the CustomResourceDefinitions to `deploy/crds`."""

from __future__ import annotations

from pathlib import Path

import yaml

from trimtab.api import crds

DIRECTORY = Path(__file__).parents[1] / "deploy" / "crds"

_HEADER = "# Generated from the types in src/trimtab/api by `make generate`. Do not edit.\n"


def files() -> dict[str, str]:
    """The text of each file by its name, one per kind."""
    return {f"{kind.plural}.yaml": _HEADER + _text(kind) for kind in crds.KINDS}


def main() -> None:
    """Write all files."""
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    for name, text in files().items():
        (DIRECTORY / name).write_text(text, encoding="utf-8")


def _text(kind: crds.CustomKind) -> str:
    return yaml.safe_dump(crds.manifest(kind), sort_keys=False, allow_unicode=True, width=120)


if __name__ == "__main__":
    main()
