"""YAML files that users write (configuration, scheduler configuration), with errors that name the file.

A kubeconfig is read by `kubeconfig`, whose errors never show values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from trimtab.api.errors import InvalidError


@contextmanager
def yaml_errors() -> Iterator[None]:
    """Raise YAMLError whatever PyYAML raises inside the block.

    That is another error for values that do not fit their tag (`!!int a`, `2026-99-99`), and for deep nesting.
    """
    try:
        yield
    except yaml.YAMLError:
        raise
    except RecursionError:
        raise yaml.YAMLError("it is nested too deeply") from None
    except Exception as error:
        raise yaml.YAMLError(f"a value cannot be read as what it is written as: {error}") from error


def parse_yaml(text: str | bytes, loader: type[yaml.SafeLoader] = yaml.SafeLoader) -> Any:
    """Read YAML text as plain values. Raises YAMLError whatever is wrong with it."""
    with yaml_errors():
        tree = yaml.load(text, Loader=loader)  # noqa: S506 - a SafeLoader
    _check(tree, set())
    return tree


def _check(value: Any, around: set[int]) -> None:
    """Check that no list or mapping is inside itself (`around` has the identities of those around the value), and that
    every text can be written: YAML can name half of a character (`"\\ud800"`)."""
    if isinstance(value, str) and any("\ud800" <= each <= "\udfff" for each in value):
        raise yaml.YAMLError("a text has half of a surrogate pair")
    if not isinstance(value, (dict, list)):
        return
    if id(value) in around:
        raise yaml.YAMLError("an anchor contains an alias of itself")
    around.add(id(value))
    for each in (*value, *value.values()) if isinstance(value, dict) else value:
        _check(each, around)
    around.remove(id(value))


def read_yaml(path: Path) -> Mapping[str, Any]:
    """Read a YAML file that contains one object. Raises InvalidError with the file's path."""
    try:
        tree = parse_yaml(path.read_bytes())
    except OSError as error:
        raise InvalidError(str(path), f"cannot be read: {error.strerror}") from error
    except yaml.YAMLError as error:
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
