"""Writes the CustomResourceDefinitions to `deploy/crds`, where people and `kubectl apply` find them."""

from __future__ import annotations

from pathlib import Path

import yaml

from trimtab.api import crds

DIRECTORY = Path(__file__).parents[1] / "deploy" / "crds"

_HEADER = "# Made from the types in src/trimtab/api by `make generate`: change those, not this.\n"


def files() -> dict[str, str]:
    """The text of each file by its name: one a kind."""
    return {f"{kind.plural}.yaml": _HEADER + _text(kind) for kind in crds.KINDS}


def main() -> None:
    """Write them all."""
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    for name, text in files().items():
        (DIRECTORY / name).write_text(text, encoding="utf-8")


def _text(kind: crds.CustomKind) -> str:
    return yaml.safe_dump(crds.manifest(kind), sort_keys=False, allow_unicode=True, width=120)


if __name__ == "__main__":
    main()
