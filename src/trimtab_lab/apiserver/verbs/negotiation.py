"""Content negotiation: the output format that the Accept header of a request asks for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from trimtab_lab.apiserver.kinds.errors import status_error

Shape = Literal["object", "table", "metadata"]
JSON = "application/json"
YAML = "application/yaml"
_SHAPES: dict[str, Shape] = {
    "": "object",
    "Table": "table",
    "PartialObjectMetadata": "metadata",
    "PartialObjectMetadataList": "metadata",
}
_TYPES = {JSON: JSON, YAML: YAML, "*/*": JSON, "application/*": JSON, "": JSON}
_INCLUDED = ("", "Metadata", "Object", "None")


@dataclass(frozen=True, slots=True)
class OutputFormat:
    """A format that the client accepts. `included` says how much of the object goes with a row of a table."""

    shape: Shape = "object"
    media_type: str = JSON
    included: str = ""


@lru_cache(maxsize=1024)
def negotiate(accept: str, included: str = "") -> OutputFormat:
    """The first format of an Accept header that the server supports. Raises a StatusError of 406."""
    for clause in accept.split(","):
        media_type, *parameters = (part.strip() for part in clause.split(";"))
        parameters_by_name = dict(part.split("=", 1) for part in parameters if "=" in part)
        shape = _SHAPES.get(parameters_by_name.get("as", ""))
        known = "as" not in parameters_by_name or (
            parameters_by_name.get("g") == "meta.k8s.io" and parameters_by_name.get("v") in ("v1", "v1beta1")
        )
        if media_type in _TYPES and shape is not None and known:
            return OutputFormat(shape, _TYPES[media_type], _check_included(included) if shape == "table" else "")
    raise status_error(406, f"406: Not Acceptable\n\nAvailable representations: {JSON}, {YAML}", details={})


def _check_included(included: str) -> str:
    if included not in _INCLUDED:
        problem = f"includeObject: Invalid value: \"{included}\": must be 'Metadata', 'Object', 'None', or empty"
        raise status_error(400, f"Unable to convert to Table as requested: {problem}")
    return included
