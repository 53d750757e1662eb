"""YAML files that users write (configuration, scheduler configuration), with errors that name the file.

A kubeconfig is read by `kubeconfig`, whose errors never show values.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from trimtab.api.errors import InvalidError


def read_yaml(path: Path) -> Mapping[str, Any]:
    """Read a YAML file that contains one object. Raises InvalidError with the file's path."""
    try:
        tree = yaml.safe_load(path.read_text())
    except OSError as error:
        raise InvalidError(str(path), f"cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InvalidError(str(path), f"is not YAML: {error}") from error
    if not isinstance(tree, dict):
        raise InvalidError(str(path), "must contain one YAML object (a mapping)")
    return tree


def with_scheduler(tree: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The configuration with the file that `scheduler` names, relative to the folder, read in its place."""
    named = tree.get("scheduler")
    return {**tree, "scheduler": dict(read_yaml(folder / named))} if isinstance(named, str) else dict(tree)


def with_kube_scheduler(tree: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The same for `defaultConstraints.kubeScheduler`."""
    section = tree.get("defaultConstraints")
    named = section.get("kubeScheduler") if isinstance(section, dict) else None
    if not isinstance(section, dict) or not isinstance(named, str):
        return dict(tree)
    return {**tree, "defaultConstraints": {**section, "kubeScheduler": dict(read_yaml(folder / named))}}
