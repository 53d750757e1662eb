"""Patches on raw JSON, of the three types that Kubernetes applies.

| media type                              | function                          | module       |
|-----------------------------------------|-----------------------------------|--------------|
| `application/strategic-merge-patch+json` | `strategic_merge`, `schema_for`  | `strategic`  |
| `application/merge-patch+json`          | `json_merge`                      | `merge`      |
| `application/json-patch+json`           | `json_patch`, inverse: `diff`     | `operations` |

All functions take plain JSON values and return new ones: arguments are not changed, and the result shares nothing with
them. A patch that cannot be applied raises `InvalidError` with the path; a kind without strategic merge patch raises
`NoSchemaError`. Server-side apply is not implemented: it needs the field managers of the object.
"""

from __future__ import annotations

from trimtab.api.patches.merge import json_merge
from trimtab.api.patches.mergekeys import NoSchemaError, Schema, schema_for
from trimtab.api.patches.operations import diff, json_patch
from trimtab.api.patches.strategic import strategic_merge

__all__ = ["NoSchemaError", "Schema", "diff", "json_merge", "json_patch", "schema_for", "strategic_merge"]
