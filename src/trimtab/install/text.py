"""Objects as YAML."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import yaml


def as_yaml(documents: Iterable[Any]) -> str:
    """Documents, such as the objects for `kubectl apply -f`."""
    return yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines, such as the configuration, line by line, and every object in full."""

    def represent_str(self, text: str) -> yaml.ScalarNode:
        style = "|" if "\n" in text else None
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - yaml's signature
        """Parts that objects share are written in each."""
        return True


_Dumper.add_representer(str, _Dumper.represent_str)
