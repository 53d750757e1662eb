"""Write `descriptions.json` (`trimtab_lab/apiserver/kinds/serialization`): the texts of `kubectl explain`.

The texts are those of a real API server's OpenAPI documents, for the types in `wiretypes.json`:

    KUBECONFIG=… python -m tools.descriptions

For each type the table has its description (under the empty name) and that of each field. `field=` has the values of an
enumeration.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools import record
from tools.wiretypes import TARGET as TYPES

TARGET = TYPES.with_name("descriptions.json")
_PACKAGES = {
    "meta.v1": "io.k8s.apimachinery.pkg.apis.meta.v1",
    "apiextensions.v1": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1",
}


async def published(kubeconfig: Path) -> dict[str, Any]:
    """All schemas of an API server, by name."""
    async with record.connected(kubeconfig) as server:
        _, _, index = await server.send({"method": "GET", "path": "/openapi/v3"})
        schemas: dict[str, Any] = {}
        for path in index["paths"]:
            _, _, document = await server.send({"method": "GET", "path": f"/openapi/v3/{path}"})
            schemas |= document.get("components", {}).get("schemas", {})
        return schemas


def generate(schemas: dict[str, Any]) -> str:
    """The table as text: sorted, one type a line."""
    types: dict[str, Any] = json.loads(TYPES.read_text(encoding="utf-8"))["types"]
    lines = [
        f"{json.dumps(name)}: {json.dumps(dict(_described(schemas, name, fields)), ensure_ascii=False)}"
        for name, fields in sorted(types.items())
        if isinstance(fields, dict)
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _described(schemas: dict[str, Any], name: str, fields: dict[str, str]) -> Iterator[tuple[str, Any]]:
    package, _, type_ = name.rpartition(".")
    schema = schemas.get(f"{_PACKAGES.get(package, f'io.k8s.api.{package}')}.{type_}", {})
    if "description" in schema:
        yield "", schema["description"]
    for field in sorted(fields):
        known = schema.get("properties", {}).get(field, {})
        if "description" in known:
            yield field, known["description"]
        if "enum" in known:
            yield f"{field}=", known["enum"]


if __name__ == "__main__":
    TARGET.write_text(generate(asyncio.run(published(Path(os.environ["KUBECONFIG"])))), encoding="utf-8")
