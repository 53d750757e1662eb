"""Patches on raw JSON, in the three ways Kubernetes takes them.

| media type                              | function                          | module       |
|-----------------------------------------|-----------------------------------|--------------|
| `application/strategic-merge-patch+json` | `strategic_merge`, `schema_for`  | `strategic`  |
| `application/merge-patch+json`          | `json_merge`                      | `merge`      |
| `application/json-patch+json`           | `json_patch`, and back: `diff`    | `operations` |

All of them take plain JSON values and return new ones: no argument is changed, and the result shares nothing with it.
What cannot be applied is an `InvalidError` that names the place; a kind that cannot take a strategic merge patch is a
`NoSchemaError`. Server-side apply does not belong here: it needs the history of who set which field.
"""

from __future__ import annotations

from trimtab.api.patches.merge import json_merge
from trimtab.api.patches.mergekeys import NoSchemaError, Schema, schema_for
from trimtab.api.patches.operations import diff, json_patch
from trimtab.api.patches.strategic import strategic_merge

__all__ = ["NoSchemaError", "Schema", "diff", "json_merge", "json_patch", "schema_for", "strategic_merge"]
