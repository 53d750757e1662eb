"""Writes the chart: templates from the objects, values with their schema, the definitions of our kinds."""

from __future__ import annotations

import base64
import functools
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml

from tools.chart import merging, settings, values
from tools.chart.conditions import Flags
from trimtab import __version__
from trimtab.api.documents import JSON
from trimtab.install import definitions, kustomize

FOLDER = Path(__file__).parents[2] / "deploy" / "chart"
_WRITTEN = Path(__file__).parent / "templates"
_HEADER = "Generated from src/trimtab/install by `make generate`. Do not edit."
_START = '{{- $is := include "trimtab.flags" $ | fromJson }}\n{{- $suffix := include "trimtab.suffix" $ }}\n'
PARTS = ("access", "certificates", "workloads", "webhooks", "costs", "privileges")

_BUNDLE = base64.b64encode(settings.BUNDLE).decode()
_SUFFIX = re.compile(rf"\.{settings.NAMESPACE}(?!\.svc)")
"""The end of the name of a cluster-scoped object; the names of the Service contain the namespace, too."""
_REPLACEMENTS: Mapping[str, str] = {
    settings.NAMESPACE: "{{ $.Release.Namespace }}",
    settings.MANAGED: "{{ $namespace }}",
    settings.IMAGE: '{{ include "trimtab.image" $ }}',
    settings.LEASE: '{{ include "trimtab.lease" $ }}',
    f', "{settings.WRITER}"': '{{ include "trimtab.costWriters" $ }}',
    _BUNDLE: "{{ $.Values.certificates.caBundle | b64enc }}",
    settings.ISSUER["name"]: "{{ $.Values.certificates.issuer.name }}",
    settings.ISSUER["kind"]: '{{ $.Values.certificates.issuer.kind | default "Issuer" }}',
    settings.ISSUER["group"]: '{{ $.Values.certificates.issuer.group | default "cert-manager.io" }}',
    "@@replicas@@": "{{ $.Values.replicas }}",
    "@@timeout@@": '{{ include "trimtab.timeout" $ }}',
    "@@namespaces@@": "{{ toJson $.Values.namespaces }}",
    "@@callers@@": '{{ include "trimtab.callers" $ }}',
    "@@digest@@": '{{ include "trimtab.digest" $ | quote }}',
    "@@configuration@@": '|\n    {{- include "trimtab.configuration" $ | nindent 4 }}',
}


@functools.cache
def files() -> Mapping[str, str]:
    """The text of each file of the chart, by its path."""
    made = {f"templates/{part}.yaml": _part(part) for part in PARTS}
    made |= {f"templates/{path.name}": path.read_text(encoding="utf-8") for path in sorted(_WRITTEN.iterdir())}
    made |= {f"crds/{_plural(each)}.yaml": _yaml(each) for each in definitions.choose("all", []).manifests}
    made["Chart.yaml"] = _yaml(_metadata())
    made["values.yaml"] = values.text()
    made["values.schema.json"] = values.schema()
    return made


def main() -> None:
    """Write all files, and no others."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    for name, text in files().items():
        path = FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _metadata() -> JSON:
    return {
        "apiVersion": "v2",
        "name": "trimtab",
        "description": "Keeps Kubernetes workloads level: where a new pod goes, and which pod goes first.",
        "type": "application",
        "version": __version__,
        "appVersion": __version__,
        "kubeVersion": ">=1.30.0-0",
        "keywords": ["scheduler", "topology-spread", "scale-down", "replicaset"],
    }


def _part(part: str) -> str:
    text = "\n".join(merging.joined(list(_objects(settings.cases(part))))) + "\n"
    text = _SUFFIX.sub("{{ $suffix }}", text)
    for placeholder, replacement in _REPLACEMENTS.items():
        text = text.replace(placeholder, replacement)
    return f"{{{{- /* {_HEADER} */}}}}\n{_START}{text}"


def _objects(cases: dict[Flags, list[JSON]]) -> Iterator[str]:
    for (_, namespace, _), variants in merging.union_of_objects(cases, kustomize.identity):
        lines = ["---", *merging.template(variants)]
        if namespace == settings.MANAGED:
            lines = ["{{- range $namespace := $.Values.namespaces }}", *lines, "{{- end }}"]
        yield from merging.conditional(lines, list(cases), list(variants))


def _plural(definition: JSON) -> str:
    return str(definition["spec"]["names"]["plural"])


def _yaml(tree: JSON) -> str:
    return f"# {_HEADER}\n" + yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=120)


if __name__ == "__main__":
    main()
