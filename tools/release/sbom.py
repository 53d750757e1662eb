"""The software bill of materials of the product, as CycloneDX 1.6: every distribution that an image contains.

Versions are those of `requirements.lock`; which distributions there are follows from what each requires.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import trimtab
from trimtab.api.documents import JSON

LOCK = Path(__file__).parents[2] / "requirements.lock"
_PINNED = re.compile(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)", re.MULTILINE)
_NAMESPACE = uuid.UUID("6f2b3a52-5a39-4a5e-8f4b-6a2f2b9e7c10")


def bill(*, time: int, revision: str) -> str:
    """The document, for the commit of this time and hash."""
    versions, needs = locked(), requirements()
    components = [_component(name, versions[name]) for name in sorted(needs) if name != "trimtab"]
    product = {**_component("trimtab", trimtab.__version__), "type": "application"}
    document: JSON = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(_NAMESPACE, f'{trimtab.__version__} {revision}')}",
        "version": 1,
        "metadata": {"timestamp": datetime.fromtimestamp(time, UTC).isoformat(), "component": product},
        "components": components,
        "dependencies": [
            {"ref": _url(name, versions), "dependsOn": sorted(_url(each, versions) for each in needed)}
            for name, needed in sorted(needs.items())
        ],
    }
    return json.dumps(document, indent=2) + "\n"


def locked() -> dict[str, str]:
    """The version of each distribution in the lock file."""
    found = _PINNED.findall(LOCK.read_text(encoding="utf-8"))
    return {canonicalize_name(name): version for name, version in found} | {"trimtab": trimtab.__version__}


def requirements() -> dict[str, list[str]]:
    """What the product requires, and what that requires, by name; optional parts are left out."""
    found: dict[str, list[str]] = {}
    waiting = ["trimtab"]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = sorted(set(_required_by(name)))
            waiting += found[name]
    return found


def _required_by(name: str) -> Iterator[str]:
    for text in metadata.requires(name) or ():
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield canonicalize_name(requirement.name)


def _component(name: str, version: str) -> JSON:
    url = f"pkg:pypi/{name}@{version}"
    found = metadata.metadata(name).json
    expression = found.get("license_expression", "")
    component: JSON = {"type": "library", "bom-ref": url, "name": name, "version": version, "purl": url}
    if found.get("summary"):
        component["description"] = found["summary"]
    return component | ({"licenses": [{"expression": expression}]} if expression else {})


def _url(name: str, versions: Mapping[str, str]) -> str:
    return f"pkg:pypi/{name}@{versions[name]}"
