"""Every finding of doctor, provoked by one change of a healthy installation; and nothing else is found."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.unit.doctor.installations import NOW, definition, healthy, keyring, lease, registration, running, secret
from tests.unit.inspection.clusters import three_zones
from trimtab.api import codec, crds
from trimtab.api.annotations import DELETION_COST, Reason
from trimtab.api.core import Event
from trimtab.api.documents import JSON
from trimtab.api.meta import ObjectReference
from trimtab.api.scaledown import ScaleDownPolicy
from trimtab.doctor.facts import CLONESETS, Denial, Facts
from trimtab.doctor.rules import RULES, check
from trimtab.inspection.lint.findings import Severity
from trimtab.install.options import DEFAULT_CONFIGURATION, Options

OPTIONS = Options()


def changed(objects: Any, name: str, change: Callable[[JSON], None]) -> list[JSON]:
    """Objects, of which the one of this name (or every one) was changed."""
    copied: list[JSON] = copy.deepcopy(list(objects))
    for each in copied:
        if name in ("", each["metadata"]["name"]):
            change(each)
    return copied


def configured(**settings: Any) -> dict[str, Any]:
    """The facts of an installation with another configuration, in which nothing else differs."""
    options = Options(configuration={**DEFAULT_CONFIGURATION, **settings})
    return {"options": options, "configuration_text": "", "deployments": []}


def deployments(name: str, change: Callable[[JSON], None]) -> dict[str, Any]:
    """The facts with a changed Deployment."""
    return {"deployments": changed(running(OPTIONS), name, change)}


def definitions(change: Callable[[JSON], None], name: str = "scaledownpolicies.trimtab.dev") -> dict[str, Any]:
    """The facts with a changed definition."""
    return {"definitions": changed([definition(kind) for kind in crds.KINDS], name, change)}


def hooks(change: Callable[[JSON], None]) -> Callable[[Facts], Facts]:
    """The facts with the first validating webhook changed."""

    def apply(facts: Facts) -> Facts:
        registered = copy.deepcopy(list(facts.webhooks or ()))
        validating = next(each for each in registered if each["kind"].startswith("Validating"))
        change(validating["webhooks"][0])
        return replace(facts, webhooks=registered)

    return apply


def with_certificates(ring: Any) -> dict[str, Any]:
    """The facts with other certificates, that the webhook configurations trust."""
    return {"secrets": [secret(ring)], "webhooks": registration(OPTIONS, ring)}


def event(reason: Reason) -> dict[str, Any]:
    """The facts with an event about a Deployment."""
    about = ObjectReference(kind="Deployment", namespace="shop", name="web")
    return {"events": [Event(reason=reason.value, involved_object=about, message="what happened")]}


def clusters(**annotations: str) -> Any:
    """A cluster with a Deployment of three pods, of which the first has annotations."""
    return three_zones().deployment("web", ["a1", "b1", "c1"], annotations={0: annotations}).build()


def policed(target: str, reason: str = "") -> dict[str, Any]:
    """The facts with a Deployment `web`, and a ScaleDownPolicy for a target that is not ready for a reason."""
    conditions = [{"type": "Ready", "status": "False", "reason": reason}] if reason else []
    tree = {
        "metadata": {"namespace": "default", "name": "web"},
        "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": target}},
        "status": {"conditions": conditions},
    }
    policy = codec.convert(tree, ScaleDownPolicy)
    return {"cluster": three_zones().deployment("web", ["a1", "b1", "c1"]).put(policy).build()}


CASES: list[Any] = [
    ("TD101", "is not installed here", {"deployments": [], "webhooks": [], "configuration_text": "", "options": None}),
    ("TD102", "needs 1.30 or later", {"server_version": "v1.29.4"}),
    ("TD102", "of an unknown version", {"server_version": ""}),
    ("TD102", "tested with versions up to 1.37", {"server_version": "v1.38.0"}),
    (
        "TD103",
        "it is of version 0.0.1",
        deployments(
            "trimtab-webhooks", lambda each: each["metadata"]["labels"].update({"app.kubernetes.io/version": "0.0.1"})
        ),
    ),
    (
        "TD104",
        "1 of 2 pods are ready",
        deployments("trimtab-webhooks", lambda each: each["status"].update(readyReplicas=1)),
    ),
    ("TD104", "0 of 2 pods are ready", deployments("trimtab-webhooks", lambda each: each.pop("status"))),
    ("TD104", "scaled to 0", deployments("trimtab-scheduler", lambda each: each["spec"].update(replicas=0))),
    ("TD105", "no process can start", {"configuration_text": ""}),
    ("TD105", "scaleDwon: unknown field", {"configuration_error": "trimtab.yaml: scaleDwon: unknown field"}),
    (
        "TD106",
        "another configuration than the ConfigMap has",
        {"configuration_text": f"{healthy().configuration_text} "},
    ),
    (
        "TD201",
        "there can be no ScaleDownPolicy",
        {"definitions": [definition(each) for each in crds.KINDS if each.kind != "ScaleDownPolicy"]},
    ),
    (
        "TD201",
        "does not serve it yet",
        definitions(lambda each: each["status"]["conditions"][0].update(status="False")),
    ),
    ("TD202", "is not Trimtab's", definitions(lambda each: each["metadata"].update(labels={}))),
    (
        "TD203",
        "its schema is not that of version",
        definitions(lambda each: each["spec"]["versions"][0]["schema"].clear()),
    ),
    ("TD301", "scale.trimtab.dev is not registered", hooks(lambda hook: hook.update(name="other.example.com"))),
    ("TD302", "was changed: failurePolicy", hooks(lambda hook: hook.update(failurePolicy="Fail"))),
    ("TD302", "was changed: timeoutSeconds", hooks(lambda hook: hook.update(timeoutSeconds=1))),
    ("TD303", "it has no ready address", {"slices": [{"endpoints": [{"conditions": {"ready": False}}]}]}),
    ("TD303", "it has no ready address", {"slices": [{"endpoints": None}]}),
    ("TD304", "does not get an answer", {"is_called": False}),
    ("TD305", "caBundle is empty", hooks(lambda hook: hook["clientConfig"].pop("caBundle"))),
    ("TD305", "cannot be read", hooks(lambda hook: hook["clientConfig"].update(caBundle="%"))),
    ("TD305", "is not that of the webhooks' certificate", {"webhooks": registration(OPTIONS, keyring())}),
    ("TD306", "does not exist", {"secrets": []}),
    ("TD306", "is incomplete", {"secrets": [{"data": {"tls.crt": "eA=="}}]}),
    ("TD306", "has expired", with_certificates(keyring(made=NOW - timedelta(days=400)))),
    ("TD306", "expires in 20 days", with_certificates(keyring(made=NOW - timedelta(days=345)))),
    (
        "TD306",
        "call the webhooks as trimtab-webhooks.trimtab-system.svc",
        with_certificates(keyring(names=["old.svc"])),
    ),
    ("TD401", "the lease does not exist", {"leases": [lease("webhooks"), lease("controllers")]}),
    (
        "TD401",
        "nothing holds the lease",
        {"leases": [lease("webhooks"), lease("controllers"), lease("scheduler", holder="")]},
    ),
    (
        "TD401",
        "a_1 has not renewed it for 0:01:40",
        {"leases": [lease("webhooks"), lease("controllers", age=100), lease("scheduler")]},
    ),
    (
        "TD402",
        "the clock of a_1 is 120 s behind",
        {"leases": [lease("webhooks"), lease("controllers", ahead=-120), lease("scheduler")]},
    ),
    (
        "TD402",
        "is 118 s ahead of",
        {"leases": [lease("webhooks"), lease("controllers", ahead=120, has_fields=False), lease("scheduler")]},
    ),
    ("TD403", "its clock is 90 s behind", {"clock_offset": 90.0}),
    ("TD403", "its clock is 90 s ahead of", {"clock_offset": -90.0}),
    (
        "TD501",
        "it may not in namespace shop: patch pods, create pods/eviction",
        {"denials": [Denial("someone", "patch", "pods", "shop"), Denial("someone", "create", "pods/eviction", "shop")]},
    ),
    ("TD601", "that Trimtab did not write", {"cluster": clusters(**{DELETION_COST: "5"})}),
    ("TD602", "what happened", event(Reason.COSTS_OVERWRITTEN)),
    ("TD602", "what happened", event(Reason.RIVAL_COSTS)),
    ("TD603", "what happened", event(Reason.UNREADABLE)),
    (
        "TD604",
        "scaleDown.enabled is false",
        configured(scaleDown={"enabled": False, "defaultPolicies": [{"name": "level"}]}),
    ),
    ("TD605", "nothing is kept level", configured(scaleDown={})),
    ("TD606", "is not there", policed("wbe")),
    ("TD606", "it is not ready: Overridden", policed("web", "Overridden")),
]


def ids(case: Any) -> str:
    """A case for people."""
    return f"{case[0]} {case[1]}" if isinstance(case, tuple) else ""


@pytest.mark.parametrize("case", CASES, ids=ids)
def test_each_finding_is_provoked_by_one_change(case: tuple[str, str, Any]) -> None:
    """With its fix, and where the documentation explains it."""
    identity, message, change = case
    facts = change(healthy()) if callable(change) else healthy(**change)
    found = check(facts).findings
    wanted = [each for each in found if each.id == identity and message in each.message]
    assert wanted, found
    assert all(each.fix and each.docs.startswith(f"docs/doctor.md#{each.id.lower()}-") for each in found)
    assert {each.id for each in found} - {identity} <= FOLLOWING.get(identity, set()), found


FOLLOWING: dict[str, set[str]] = {
    "TD106": set(),
    "TD604": {"TD101"},
    "TD605": {"TD101"},
    "TD306": {"TD305"},
}
"""Findings that follow from another."""


def test_a_healthy_installation_has_no_finding() -> None:
    """Every rule was checked."""
    result = check(healthy())
    assert result.findings == ()
    assert result.checked == tuple(rule.id for rule in RULES)
    assert result.worst() is None


def test_every_rule_is_provoked() -> None:
    """A rule that nothing provokes would not be known to work."""
    assert {case[0] for case in CASES} == {rule.id for rule in RULES}


def test_a_cloneset_of_openkruise_is_a_note() -> None:
    """Nothing is wrong: OpenKruise manages them; without the kind, too."""
    (found,) = check(healthy(**definitions(lambda each: each["metadata"].update(labels={}), CLONESETS))).findings
    assert (found.id, found.severity) == ("TD202", "note")
    without = [definition(each) for each in crds.KINDS if each.name != CLONESETS]
    missing = [each for each in check(healthy(definitions=without)).findings if each.id == "TD201"]
    assert [each.severity for each in missing] == ["note"]


def test_what_could_not_be_read_is_named_with_what_was_not_checked() -> None:
    """A gap is no finding, and no silence."""
    result = check(healthy(secrets=None, gaps={"secrets": "secrets is forbidden"}))
    assert result.findings == ()
    (gap,) = result.gaps
    assert gap.not_checked == ("TD305", "TD306")
    assert "TD306" not in result.checked
    assert gap.sentence() == "secrets could not be read, so TD305, TD306 were not checked: secrets is forbidden"


def test_an_ignored_finding_is_left_out() -> None:
    """And the worst of the others counts."""
    facts = healthy(is_called=False, clock_offset=90.0)
    assert check(facts).worst() is Severity.ERROR
    result = check(facts, ["TD304"])
    assert [each.id for each in result.findings] == ["TD403"]
    assert result.worst() is Severity.WARNING


def test_a_gap_names_a_field_that_exists() -> None:
    """A rule that needs a field under another name would never be checked."""
    fields = {name for rule in RULES for name in rule.needs}
    assert fields <= set(Facts.__dataclass_fields__)


def test_the_anchors_are_those_of_the_page() -> None:
    """The page is generated; its headings make the anchors."""
    from tools import doctor

    page = doctor.page()
    for rule in RULES:
        assert f"\n## {rule.id} {rule.name}\n" in page
    assert doctor.TARGET.read_text() == page
