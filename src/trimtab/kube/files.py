"""Files that people write: read, with errors that name the file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from trimtab.api.errors import InvalidError


def read_yaml(path: Path) -> Mapping[str, Any]:
    """The object that a YAML file holds."""
    try:
        tree = yaml.safe_load(path.read_text())
    except OSError as error:
        raise InvalidError(str(path), f"cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InvalidError(str(path), f"is not YAML: {error}") from error
    if not isinstance(tree, dict):
        raise InvalidError(str(path), "must hold one object")
    return tree


def with_scheduler(tree: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """A configuration with its scheduler's in place of the name of a file, which is looked for in that folder."""
    named = tree.get("scheduler")
    return {**tree, "scheduler": dict(read_yaml(folder / named))} if isinstance(named, str) else dict(tree)
