"""Write `wirenumbers.json` (`trimtab_lab/apiserver/kinds/serialization`): the field numbers of Kubernetes' protobuf.

kubectl and other Go programs send built-in kinds as protobuf. The numbers of the fields are in the tags of the Go
structs, beside their JSON names:

    python -m tools.wirenumbers PATH-TO-A-CHECKOUT-OF-KUBERNETES

For each struct of `wiretypes.json` the table has its fields by their JSON name, with the number, or with the path of
numbers for a field of an embedded struct (`hostPath` of a volume is `[2,1]`).
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools.wiretypes import PACKAGES
from tools.wiretypes import TARGET as TYPES

TARGET = TYPES.with_name("wirenumbers.json")

_STRUCT = re.compile(r"^type (\w+) struct\s*\{(?:\}|\n(.*?)^\})", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"^\t(?:(\w+)\s+)?([\w.\[\]*]+)\s+`([^`]*)`", re.MULTILINE)
_NAME = re.compile(r'json:"([^",]*)([^"]*)"')
_NUMBER = re.compile(r'protobuf:"\w+,(\d+),')

Fields = dict[str, Any]


def generate(checkout: Path) -> str:
    """The table as text: sorted, one type a line."""
    declared: dict[str, list[tuple[str, str, int]]] = {}
    for package, folder in PACKAGES.items():
        for path in sorted((checkout / folder).glob("*.go")):
            if not path.name.endswith("_test.go") and not path.name.startswith("zz_") and ".pb." not in path.name:
                for name, body in _STRUCT.findall(path.read_text(encoding="utf-8")):
                    declared[f"{package}.{name}"] = list(_fields(body, package))
    types = json.loads(TYPES.read_text(encoding="utf-8"))["types"]
    table = {
        name: dict(_numbers(declared, name, set(fields))) for name, fields in types.items() if isinstance(fields, dict)
    }
    lines = (f"{json.dumps(name)}: {json.dumps(table[name], separators=(',', ':'))}" for name in sorted(table))
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _fields(body: str, package: str) -> Iterator[tuple[str, str, int]]:
    """The fields of a struct: JSON name (empty for an embedded struct), Go type of an embedded struct, and number."""
    for _, type_, tags in _FIELD.findall(body):
        name, number = _NAME.search(tags), _NUMBER.search(tags)
        if name is None or number is None or name[1] == "-":
            continue
        inlined = "inline" in name[2] or not name[1]
        yield ("", f"{package}.{type_}", int(number[1])) if inlined else (name[1], "", int(number[1]))


def _numbers(declared: dict[str, Any], name: str, wanted: set[str]) -> Iterator[tuple[str, int | list[int]]]:
    for field, embedded, number in declared[name]:
        if field in wanted:
            yield field, number
        elif embedded:
            for inner, way in _numbers(declared, embedded, wanted):
                yield inner, [number, *(way if isinstance(way, list) else [way])]


if __name__ == "__main__":
    TARGET.write_text(generate(Path(sys.argv[1])), encoding="utf-8")
