"""Webhook configurations, compiled: which webhook matches which request by its rules and selectors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from trimtab.api import selectors
from trimtab.api.codec import convert
from trimtab.api.meta import LabelSelector
from trimtab_lab.apiserver.admission.admission_reviews import REVIEW_VERSIONS, Resource, ReviewRequest
from trimtab_lab.apiserver.storage.store import Tree


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of a webhook: operations, groups, versions and resources, where `*` matches everything."""

    operations: frozenset[str]
    groups: frozenset[str]
    versions: frozenset[str]
    resources: tuple[tuple[str, str], ...]
    scope: str

    def matches(self, request: ReviewRequest, resource: Resource) -> bool:
        """Whether the rule selects a request, given its resource in one of its versions."""
        return (
            _contains(self.operations, request.operation)
            and _contains(self.groups, resource.group)
            and _contains(self.versions, resource.version)
            and self._matches_resource(resource.name, request.subresource)
            and self._matches_scope(request, resource)
        )

    def _matches_resource(self, name: str, part: str) -> bool:
        return any(wanted in ("*", name) and piece in ("*", part) for wanted, piece in self.resources)

    def _matches_scope(self, request: ReviewRequest, resource: Resource) -> bool:
        if self.scope == "*":
            return True
        is_namespace = resource.name == "namespaces" and not resource.group
        inside = bool(request.namespace) and not is_namespace
        return inside == (self.scope == "Namespaced")


@dataclass(frozen=True, slots=True)
class Webhook:
    """One webhook of a configuration. `identity` is unique among all webhooks."""

    identity: str
    name: str
    client: Tree
    rules: tuple[Rule, ...]
    namespaces: selectors.Selector
    objects: selectors.Selector
    exact: bool
    ignored: bool
    side_effects: str
    timeout: float
    reinvoked: bool
    review_version: str


def compile_webhooks(configurations: Iterable[Tree]) -> list[Webhook]:
    """The webhooks of some configurations, in the order in which they are called."""
    ordered = sorted(configurations, key=lambda tree: str(tree["metadata"].get("name", "")))
    return [
        _compile_webhook(f"{tree['metadata'].get('name', '')}/{webhook.get('name', '')}/{index}", webhook)
        for tree in ordered
        for index, webhook in enumerate(tree.get("webhooks") or ())
    ]


def _compile_webhook(identity: str, webhook: Tree) -> Webhook:
    versions = webhook.get("admissionReviewVersions") or ()
    return Webhook(
        identity=identity,
        name=webhook.get("name", ""),
        client=webhook.get("clientConfig") or {},
        rules=tuple(_compile_rule(rule) for rule in webhook.get("rules") or ()),
        namespaces=_selector(webhook.get("namespaceSelector")),
        objects=_selector(webhook.get("objectSelector")),
        exact=webhook.get("matchPolicy") == "Exact",
        ignored=webhook.get("failurePolicy") == "Ignore",
        side_effects=webhook.get("sideEffects", ""),
        timeout=float(webhook.get("timeoutSeconds", 10)),
        reinvoked=webhook.get("reinvocationPolicy") == "IfNeeded",
        review_version=next((version for version in versions if version in REVIEW_VERSIONS), "v1"),
    )


def _compile_rule(rule: Tree) -> Rule:
    resources = tuple((text.partition("/")[0], text.partition("/")[2]) for text in rule.get("resources") or ())
    return Rule(
        operations=frozenset(rule.get("operations") or ()),
        groups=frozenset(rule.get("apiGroups") or ()),
        versions=frozenset(rule.get("apiVersions") or ()),
        resources=resources,
        scope=rule.get("scope", "*"),
    )


def _selector(given: Tree | None) -> selectors.Selector:
    return selectors.compile(convert(given or {}, LabelSelector))


def _contains(items: frozenset[str], value: str) -> bool:
    return "*" in items or value in items


def labels_of(tree: Tree | None) -> Mapping[str, str]:
    """The labels of an object; none if there is no object."""
    labels: Mapping[str, str] = ((tree or {}).get("metadata") or {}).get("labels") or {}
    return labels


def labels_to_match(request: ReviewRequest) -> list[Mapping[str, str]]:
    """The labels that an object selector is compared with: those of the new and of the old object."""
    return [labels_of(tree) for tree in (request.object, request.old) if tree is not None]
