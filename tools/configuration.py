"""Writes the tables of `docs/configuration.md` from the descriptions of the configuration's fields."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import inspect

from trimtab.api import codec, configuration, default_constraints, workloads
from trimtab.api.model import Model
from trimtab.scaledown.sources.prometheus import ConnectionSettings

PAGE = Path(__file__).parents[1] / "docs" / "configuration.md"

SECTIONS: dict[str, type[Model]] = {
    "": configuration.TrimtabConfiguration,
    "defaultConstraints": default_constraints.DefaultConstraintSettings,
    "defaultConstraints.rules[]": default_constraints.ConstraintRule,
    "scaleDown": configuration.ScaleDown,
    "scaleDown.defaultPolicies[]": configuration.DefaultPolicy,
    "scaleDown.sources.Prometheus": ConnectionSettings,
    "workloads[]": workloads.WorkloadKind,
    "unitedTopology": configuration.UnitedTopologies,
    "cloneSet": configuration.CloneSets,
    "webhooks": configuration.Webhooks,
    "webhooks.certificates": configuration.Certificates,
    "leaderElection": configuration.LeaderElection,
    "serving": configuration.Serving,
    "dashboard": configuration.DashboardServing,
    "logs": configuration.Logs,
}
"""The objects of the file, each with its own table."""

_TABLES = re.compile(r"(<!-- fields -->\n).*(<!-- /fields -->)", flags=re.DOTALL)


def page(text: str) -> str:
    """The page with its tables replaced."""
    return _TABLES.sub(lambda match: f"{match[1]}{tables()}{match[2]}", text)


def tables() -> str:
    """All tables, each under its heading."""
    return "".join(f"\n### {f'`{at}`' if at else 'The file'}\n\n{_table(model)}" for at, model in SECTIONS.items())


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def _table(model: type[Model]) -> str:
    return "\n".join(["| field | default | what to write |", "|---|---|---|", *_rows(model), ""])


def _rows(model: type[Model]) -> Iterator[str]:
    info = inspect.type_info(model)
    if not isinstance(info, inspect.StructType):
        raise TypeError(f"{model.__name__} is not a structure")
    for field in info.fields:
        yield f"| `{field.encode_name}` | {_default(field)} | {configuration.description(field)} |"


def _default(field: inspect.Field) -> str:
    """The default of a field; empty for an object, which has its own table."""
    default = () if field.default is msgspec.NODEFAULT else field.default
    if isinstance(default, msgspec.Struct) or default in (None, "", (), {}):
        return ""
    return f"`{json.dumps(codec.to_tree(default))}`"


if __name__ == "__main__":
    main()
