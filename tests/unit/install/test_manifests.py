"""The objects of an installation: narrow permissions, spread replicas, and no foreign object replaced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trimtab.api import codec, configuration, crds, selectors
from trimtab.api.annotations import (
    AIMED_SIZE,
    DEFAULT_CONSTRAINTS,
    NAMESPACE_LABEL,
    PROTECT_COSTS,
    SCALE_PLAN,
    SUBSET_COST,
)
from trimtab.api.documents import JSON
from trimtab.api.errors import InvalidError
from trimtab.api.meta import LabelSelector
from trimtab.install import access, definitions, deployments, local, manifests, protection
from trimtab.install.options import DEFAULT_CONFIGURATION, MANAGED_BY, NAME, Options
from trimtab.scaledown.pod_costs import POLICY_KEYS
from trimtab.unitedtopology.admission import pod_reviews

OPTIONS = Options()


def installed(options: Options = OPTIONS) -> list[JSON]:
    """Everything, definitions included."""
    return manifests.everything(options, definitions.choose("all", []).manifests)


def of_kind(kind: str, options: Options = OPTIONS) -> list[JSON]:
    """The objects of one kind."""
    return [each for each in installed(options) if each["kind"] == kind]


def test_every_object_has_our_label() -> None:
    """Nothing without the label is ever removed, so nothing may lack it."""
    assert [each for each in installed() if each["metadata"]["labels"].get(MANAGED_BY) != NAME] == []


def test_nothing_is_there_twice() -> None:
    """Whatever is applied later would silently win."""
    seen = [(each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]) for each in installed()]
    assert len(seen) == len(set(seen))


def test_every_component_has_two_replicas_spread_over_zones() -> None:
    """With a budget, and an account of its own."""
    found = of_kind("Deployment")
    assert [each["metadata"]["name"] for each in found] == [
        "trimtab-scheduler",
        "trimtab-webhooks",
        "trimtab-controllers",
    ]
    for each in found:
        pod = each["spec"]["template"]["spec"]
        assert each["spec"]["replicas"] == 2
        assert pod["topologySpreadConstraints"][0]["topologyKey"] == "topology.kubernetes.io/zone"
        assert pod["serviceAccountName"] == each["metadata"]["name"]
    assert {each["metadata"]["name"] for each in of_kind("PodDisruptionBudget")} == {
        each["metadata"]["name"] for each in found
    }


def test_a_drain_takes_one_replica_at_a_time_and_never_waits_for_ever() -> None:
    """Of a single replica, none could be spared: its node could not be drained."""
    for replicas in (1, 2, 3):
        for each in of_kind("PodDisruptionBudget", Options(replicas=replicas)):
            assert each["spec"]["maxUnavailable"] == 1
            assert "minAvailable" not in each["spec"]


def test_containers_ask_for_no_privilege() -> None:
    """What the strictest of the pod security standards demands."""
    for each in of_kind("Deployment"):
        pod = each["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        (scratch,) = [each for each in pod["volumes"] if each["name"] == "scratch"]
        assert scratch["emptyDir"]["medium"] == "Memory", "private keys pass through it, and must not reach a disk"


def test_the_installed_configuration_is_one_that_can_be_run() -> None:
    """It says where Trimtab lives, and that the scale-downs of all workloads are observed."""
    (config,) = of_kind("ConfigMap", Options(namespace="level"))
    import json

    read = configuration.read(json.loads(config["data"]["trimtab.yaml"]))
    assert read.namespace == "level"
    assert [(each.name, each.mode) for each in read.scale_down.default_policies] == [("level", "Observe")]
    assert (read.serving.host, read.webhooks.port) == ("0.0.0.0", 9443)  # noqa: S104 - in a pod


def test_a_configuration_that_could_not_run_is_not_installed() -> None:
    """The mistake is found before anything reaches a cluster."""
    with pytest.raises(InvalidError, match=r"scaleDown\.enabeld"):
        manifests.everything(Options(configuration={"scaleDown": {"enabeld": True}}))


def test_a_change_of_the_configuration_makes_new_pods() -> None:
    """Processes read it at their start."""
    one, other = (
        {
            each["metadata"]["name"]: each["spec"]["template"]["metadata"]["annotations"]
            for each in of_kind("Deployment", Options(configuration={"logs": {"level": level}}))
        }
        for level in ("info", "debug")
    )
    assert all(one[name] != other[name] for name in one)


def test_only_what_is_asked_for_is_installed() -> None:
    """Without webhooks there is nothing that API servers could ask."""
    kinds = {each["kind"] for each in installed(Options(components=("scheduler",)))}
    assert "Service" not in kinds
    assert "ValidatingWebhookConfiguration" not in kinds


def test_only_api_servers_reach_the_webhooks() -> None:
    """As far as is known where those are."""
    policies = {each["metadata"]["name"]: each["spec"] for each in of_kind("NetworkPolicy")}
    assert {each["ports"][0]["port"] for each in policies["trimtab-scheduler"]["ingress"]} == {"serving"}
    narrow = deployments.manifests(Options(api_server_ranges=("10.0.0.0/28",)))
    (webhooks,) = [
        each for each in narrow if each["kind"] == "NetworkPolicy" and each["metadata"]["name"] == "trimtab-webhooks"
    ]
    assert webhooks["spec"]["ingress"][0]["from"] == [{"ipBlock": {"cidr": "10.0.0.0/28"}}]


# What API servers ask.


@pytest.mark.parametrize(
    ("certificates", "verbs"),
    [
        pytest.param({}, ["get", "patch"], id="managed: the CA bundle is written"),
        pytest.param(
            {"source": "Files", "certificateFile": "/tls.crt", "keyFile": "/tls.key"}, ["get"], id="files: only read"
        ),
    ],
)
def test_the_webhooks_may_read_their_configurations_for_the_call_to_themselves(
    certificates: JSON, verbs: list[str]
) -> None:
    """And write them only if Trimtab manages the certificates."""
    options = Options(configuration={"webhooks": {"certificates": certificates}})
    (role,) = [each for each in of_kind("ClusterRole", options) if each["metadata"]["name"] == "trimtab-webhooks"]
    rules = [each for each in role["rules"] if each["apiGroups"] == ["admissionregistration.k8s.io"]]
    assert [(rule["resourceNames"], rule["verbs"]) for rule in rules] == [(["trimtab"], verbs)]


def webhooks(options: Options = OPTIONS) -> dict[str, JSON]:
    """All webhooks by name."""
    return {
        webhook["name"]: webhook
        for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
        for each in of_kind(kind, options)
        for webhook in each["webhooks"]
    }


ROLLOUTS: JSON = {"group": "argoproj.io", "version": "v1alpha1", "kind": "Rollout", "plural": "rollouts"}


def naming(*workloads: JSON, **more: Any) -> Options:
    """An installation whose configuration names these workloads."""
    return Options(configuration={**DEFAULT_CONFIGURATION, "workloads": list(workloads), **more})


@pytest.mark.parametrize("namespaces", [[], ["shop"]], ids=["all namespaces", "one namespace"])
def test_workloads_that_the_configuration_names_may_be_read_and_nothing_else(namespaces: list[str]) -> None:
    """By exactly the components that do, in the whole cluster."""

    def rules(options: Options) -> dict[str, list[JSON]]:
        return {each["metadata"]["name"]: each["rules"] for each in of_kind("ClusterRole", options)}

    before, after = rules(naming(namespaces=namespaces)), rules(naming(ROLLOUTS, namespaces=namespaces))
    added = {name: [rule for rule in after[name] if rule not in before[name]] for name in after}
    allowed = {"apiGroups": ["argoproj.io"], "resources": ["rollouts"]}
    assert {name: found for name, found in added.items() if found} == {
        "trimtab-webhooks": [{**allowed, "verbs": ["get", "list", "watch"]}],
        "trimtab-controllers": [{**allowed, "verbs": ["list", "watch"]}],
    }
    assert all(rule in after[name] for name, found in before.items() for rule in found)


def test_scale_requests_of_workloads_that_the_configuration_names_are_sent() -> None:
    """Those of their ReplicaSets by their controllers are not."""

    def scale(options: Options) -> JSON:
        (found,) = of_kind("ValidatingWebhookConfiguration", options)
        return next(each for each in found["webhooks"] if each["name"] == "scale.trimtab.dev")

    before, after = scale(OPTIONS), scale(naming(ROLLOUTS))
    added = [rule for rule in after["rules"] if rule not in before["rules"]]
    assert [(rule["apiGroups"], rule["apiVersions"], rule["resources"], rule["operations"]) for rule in added] == [
        (["argoproj.io"], ["*"], ["rollouts", "rollouts/scale"], ["UPDATE"])
    ]
    conditions = {each["name"]: each["expression"] for each in after["matchConditions"]}
    owners = "(o.kind == 'Deployment' || (o.kind == 'Rollout' && o.apiVersion.startsWith('argoproj.io/')))"
    assert f"exists(o, {owners} && o.?controller.orValue(false))" in conditions["not-by-its-owner"]


def definition(**version: Any) -> JSON:
    """The definition of Rollouts in a cluster."""
    served = {"name": "v1alpha1", "served": True, "subresources": {"scale": {}}, **version}
    spec = {"names": {"kind": "Rollout"}, "versions": [served]}
    return {"metadata": {"name": "rollouts.argoproj.io"}, "spec": spec}


@pytest.mark.parametrize(
    ("existing", "want"),
    [
        pytest.param([definition()], "", id="a definition that fits"),
        pytest.param(None, "", id="no cluster to look at"),
        pytest.param([], "is not in the cluster; install its definition", id="none"),
        pytest.param([definition(name="v1")], "is not served in version v1alpha1", id="another version"),
        pytest.param([definition(served=False)], "is not served in version v1alpha1", id="a version of the past"),
        pytest.param([definition(subresources={"status": {}})], "has no scale subresource", id="no scale"),
    ],
)
def test_what_keeps_workloads_of_other_projects_from_being_followed(existing: list[JSON] | None, want: str) -> None:
    """It is reported by `trimtab install`, and changes nothing."""
    notes = list(definitions.workload_notes(naming(ROLLOUTS).read().workloads, existing))
    assert [want in note for note in notes] == ([True] if want else [])


def test_requests_are_admitted_while_trimtab_is_down() -> None:
    """And nothing is ever changed by a dry run."""
    for webhook in webhooks().values():
        assert webhook["failurePolicy"] == "Ignore"
        assert webhook["sideEffects"] in ("None", "NoneOnDryRun")


def test_api_servers_wait_a_second_longer_than_trimtab_takes() -> None:
    """Whatever the budget is."""
    assert webhooks()["scale.trimtab.dev"]["timeoutSeconds"] == 3
    patient = Options(configuration={"scaleDown": {"budgetSeconds": 4.5}})
    assert webhooks(patient)["scale.trimtab.dev"]["timeoutSeconds"] == 6


def test_a_pod_waits_for_one_second_at_most() -> None:
    """Also while Trimtab is stopped, and whatever other webhooks change."""
    found = webhooks()["pods.trimtab.dev"]
    assert (found["timeoutSeconds"], found["reinvocationPolicy"]) == (1, "Never")
    assert pod_reviews.BUDGET < 1


def test_the_clusters_own_namespaces_are_exempt() -> None:
    """kube-system, and the one that Trimtab itself lives in."""
    for webhook in webhooks(Options(namespace="level")).values():
        (exempt,) = webhook["namespaceSelector"]["matchExpressions"]
        assert exempt == {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", "level"]}


def test_only_the_namespaces_that_are_named_are_asked_about() -> None:
    """Where the configuration names some."""
    for webhook in webhooks(Options(configuration={"namespaces": ["shop"]})).values():
        wanted = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["shop"]}
        assert wanted in webhook["namespaceSelector"]["matchExpressions"]


def test_the_page_lists_every_webhook_and_its_timeout() -> None:
    """Administrators read it before they install."""
    page = (Path(__file__).parents[3] / "docs" / "install.md").read_text()
    for name, webhook in webhooks().items():
        (row,) = [line for line in page.splitlines() if line.startswith("| `") and f"`{name}`" in line]
        assert f"{webhook['timeoutSeconds']} s" in row


def test_a_condition_reads_what_a_request_may_lack_as_optional() -> None:
    """A request for a whole object has no subresource: an API server counts an error where one is read as if it had."""
    conditions = [each["expression"] for webhook in webhooks().values() for each in webhook.get("matchConditions", ())]
    assert any("request.?subResource" in text for text in conditions)
    assert not any("request.subResource" in text for text in conditions)


def test_processes_outside_the_cluster_are_called_by_url() -> None:
    """`trimtab install --local` prints our kinds and webhook configurations, and nothing that runs in the cluster."""
    made = local.manifests(configuration.read({"webhooks": {"url": "https://127.0.0.1:9443"}}))
    asked = [webhook for each in made for webhook in each.get("webhooks", ())]
    assert asked
    assert all(webhook["clientConfig"]["url"].startswith("https://127.0.0.1:9443/") for webhook in asked)
    assert {each["kind"] for each in made} == {
        "CustomResourceDefinition",
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
    }


def test_processes_outside_the_cluster_need_a_url() -> None:
    """Without one an API server could not call them."""
    with pytest.raises(InvalidError, match=r"webhooks\.url"):
        local.manifests(configuration.read({}))


# Definitions.


def present(name: str, *, labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None) -> JSON:
    """A definition as a cluster has it."""
    return {"metadata": {"name": name, "labels": labels or {}, "annotations": annotations or {}}}


CLONE_SETS = "clonesets.apps.kruise.io"
GENERATED = {"controller-gen.kubebuilder.io/version": "v0.16.5"}


@pytest.mark.parametrize(
    ("choice", "found", "missing"),
    [
        pytest.param("auto", [], set(), id="an empty cluster gets all"),
        pytest.param(
            "auto", [present(CLONE_SETS, labels=crds.MANAGED_BY_LABELS)], set(), id="ours are brought up to date"
        ),
        pytest.param("auto", [present(CLONE_SETS)], {CLONE_SETS}, id="theirs is left alone"),
        pytest.param("all", [present(CLONE_SETS)], {CLONE_SETS}, id="theirs is left alone whatever is asked for"),
        pytest.param(
            "auto",
            [present(CLONE_SETS, labels=crds.MANAGED_BY_LABELS, annotations=GENERATED)],
            {CLONE_SETS},
            id="theirs applied over ours is theirs",
        ),
        pytest.param("auto", None, {CLONE_SETS}, id="without a cluster, what others bring is left out"),
        pytest.param("all", None, set(), id="without a cluster, all on request"),
        pytest.param("none", [], {kind.name for kind in crds.KINDS}, id="none on request"),
    ],
)
def test_a_definition_that_is_not_ours_is_never_replaced(
    choice: Any, found: list[JSON] | None, missing: set[str]
) -> None:
    """Replacing it would change what other people's objects mean."""
    chosen = definitions.choose(choice, found)
    names = {each["metadata"]["name"] for each in chosen.manifests}
    assert names == {kind.name for kind in crds.KINDS} - missing
    assert bool(chosen.notes) == (bool(missing) and choice != "none")


@pytest.mark.parametrize(("stored", "is_refused"), [(["v1alpha1"], False), (["v1alpha1", "v1beta1"], True)])
def test_a_definition_that_could_not_read_stored_objects_is_not_printed(stored: list[str], is_refused: bool) -> None:
    """As after a downgrade by several versions; the API server would refuse it, with fewer words."""
    found = present(CLONE_SETS, labels=crds.MANAGED_BY_LABELS) | {"status": {"storedVersions": stored}}
    if is_refused:
        with pytest.raises(InvalidError, match="storedVersions: has v1beta1"):
            definitions.choose("auto", [found])
    else:
        assert len(definitions.choose("auto", [found]).manifests) == len(crds.KINDS)


def test_only_our_own_clonesets_are_validated() -> None:
    """OpenKruise's know fields that ours refuse; they may still shrink level."""
    ours, theirs = webhooks(), webhooks(Options(clonesets=False))
    assert "clonesets.trimtab.dev" in ours
    assert "clonesets.trimtab.dev" not in theirs
    shrinking = [resource for rule in theirs["scale.trimtab.dev"]["rules"] for resource in rule["resources"]]
    assert "clonesets" in shrinking


@pytest.mark.parametrize(
    ("choice", "found", "whose"),
    [
        pytest.param("auto", [], True, id="about to be installed"),
        pytest.param("none", [present(CLONE_SETS, labels=crds.MANAGED_BY_LABELS)], True, id="installed before"),
        pytest.param("auto", [present(CLONE_SETS)], False, id="a foreign definition"),
        pytest.param("auto", None, False, id="without a cluster"),
    ],
)
def test_whether_the_clonesets_of_a_cluster_are_ours(choice: Any, found: list[JSON] | None, whose: bool) -> None:
    """Asked of the cluster where it can be."""
    assert definitions.has_clonesets(definitions.choose(choice, found), found) == whose


# Protection of costs.


def test_costs_are_protected_by_a_warning_unless_denial_is_asked_for() -> None:
    """In namespaces that an administrator labels, and nowhere else."""
    for deny, actions in ((False, ["Warn", "Audit"]), (True, ["Deny", "Audit"])):
        policy, binding, group_policy, group_binding = protection.manifests(Options(deny_cost_changes=deny))
        for each in (binding, group_binding):
            assert each["spec"]["validationActions"] == actions
            assert each["spec"]["matchResources"]["namespaceSelector"] == {"matchLabels": {PROTECT_COSTS: "true"}}
        (rule,) = policy["spec"]["matchConstraints"]["resourceRules"]
        assert (rule["operations"], rule["resources"]) == (["UPDATE"], ["pods", "pods/status"])
        (rule,) = group_policy["spec"]["matchConstraints"]["resourceRules"]
        assert (rule["operations"], rule["resources"]) == (["CREATE", "UPDATE", "DELETE"], ["podgroupcosts"])


def test_the_writers_of_the_configuration_are_exempt_for_both_carriers() -> None:
    """An external component that ranks pods is named once."""
    ranker = "system:serviceaccount:ranking:ranker"
    configuration = {**DEFAULT_CONFIGURATION, "scaleDown": {"costWriters": [ranker]}}
    for each in protection.manifests(Options(configuration=configuration)):
        if each["kind"] == "ValidatingAdmissionPolicy":
            (condition,) = each["spec"]["matchConditions"]
            assert f'"{ranker}"' in condition["expression"]


def test_what_deletes_costs_with_their_owners_is_exempt() -> None:
    """A PodGroupCost is garbage-collected with its workload, and goes with its namespace; pods are not their matter."""
    policy, _, group_policy, _ = protection.manifests(OPTIONS)
    for name in ("generic-garbage-collector", "namespace-controller"):
        user = f'"system:serviceaccount:kube-system:{name}"'
        (condition,) = group_policy["spec"]["matchConditions"]
        assert user in condition["expression"]
        (condition,) = policy["spec"]["matchConditions"]
        assert user not in condition["expression"]


@pytest.mark.parametrize("edits", [False, True])
def test_editors_of_a_namespace_write_pod_group_costs_only_where_the_administrator_says_so(edits: bool) -> None:
    """They see them all the same, and write every other kind."""
    printed = access.manifests(Options(group_cost_edits=edits))
    roles = {each["metadata"]["name"]: each["rules"] for each in printed if each["kind"] == "ClusterRole"}
    edited = {name for rule in roles["trimtab-edit"] for name in rule["resources"]}
    assert ("podgroupcosts" in edited) is edits
    assert {"scaledownpolicies", "unitedtopologies", "clonesets", "clonesets/scale"} <= edited
    assert "podgroupcosts" in {name for rule in roles["trimtab-view"] for name in rule["resources"]}


def test_the_annotations_beside_a_cost_are_protected_with_it() -> None:
    """Changing one would change the owner of a cost, or keep a CloneSet waiting for ranks."""
    policy, *_ = protection.manifests(OPTIONS)
    compared = " ".join(each["expression"] for each in policy["spec"]["validations"])
    for name in (POLICY_KEYS, {SCALE_PLAN, SUBSET_COST, AIMED_SIZE}):
        assert all(f"'{each}'" in compared for each in name)


RULES = {"delivery": "Admission", "rules": [{"constraints": []}]}
ADMISSION = Options(configuration={"defaultConstraints": RULES})


def matches(webhook: JSON, labels: dict[str, str]) -> bool:
    """Whether API servers send the requests of a namespace with these labels."""
    selector = codec.convert(webhook["namespaceSelector"], LabelSelector)
    return selectors.compile(selector).matches({"kubernetes.io/metadata.name": "shop", **labels})


@pytest.mark.parametrize(
    ("labels", "want"),
    [
        pytest.param({}, [], id="no label: its pods pay nothing"),
        pytest.param({DEFAULT_CONSTRAINTS: "enabled"}, ["default-constraints.trimtab.dev"], id="default constraints"),
        pytest.param({DEFAULT_CONSTRAINTS: "other"}, [], id="another value"),
        pytest.param({NAMESPACE_LABEL: "enabled"}, ["pods.trimtab.dev"], id="subsets"),
        pytest.param(
            {DEFAULT_CONSTRAINTS: "enabled", NAMESPACE_LABEL: "enabled"}, ["pods.trimtab.dev"], id="both: one review"
        ),
    ],
)
def test_a_new_pod_is_reviewed_once_at_most(labels: dict[str, str], want: list[str]) -> None:
    """By one webhook, with one budget, for subsets and default constraints together."""
    mutating = [each for each in webhooks(ADMISSION).values() if each["clientConfig"]["service"]["path"] == "/pods"]
    assert [each["name"] for each in mutating if matches(each, labels)] == want
    assert len({each["timeoutSeconds"] for each in mutating}) == 1


def test_without_admission_there_is_neither_webhook_nor_permission() -> None:
    """And with the feature gate off, admission adds nothing."""

    def granted(options: Options) -> bool:
        (role,) = [each for each in of_kind("ClusterRole", options) if each["metadata"]["name"] == "trimtab-webhooks"]
        return any("namespaces" in rule["resources"] and "get" in rule["verbs"] for rule in role["rules"])

    off = Options(configuration={"defaultConstraints": RULES, "featureGates": {"EvenPodsSpread": False}})
    for options, is_installed in ((OPTIONS, False), (ADMISSION, True), (off, False)):
        assert ("default-constraints.trimtab.dev" in webhooks(options)) == is_installed
        assert granted(options) == is_installed


def test_pods_that_opt_out_or_state_constraints_are_not_sent() -> None:
    """By the API server itself."""
    webhook = webhooks(ADMISSION)["default-constraints.trimtab.dev"]
    (expression,) = webhook["objectSelector"]["matchExpressions"]
    assert expression == {"key": DEFAULT_CONSTRAINTS, "operator": "NotIn", "values": ["disabled"]}
    assert [each["name"] for each in webhook["matchConditions"]] == ["states-no-constraints", "is-spread"]


def test_without_the_gate_for_subsets_all_chosen_namespaces_are_sent() -> None:
    """There is no other webhook then that would review them."""
    options = Options(configuration={"defaultConstraints": RULES, "featureGates": {"PodWebhook": False}})
    found = webhooks(options)
    assert "pods.trimtab.dev" not in found
    labels = {DEFAULT_CONSTRAINTS: "enabled", NAMESPACE_LABEL: "enabled"}
    assert matches(found["default-constraints.trimtab.dev"], labels)


def test_processes_outside_the_cluster_can_do_without_match_conditions() -> None:
    """For API servers that do not evaluate them: nothing else differs."""
    configured = configuration.read({"webhooks": {"url": "https://127.0.0.1:9443"}})
    full, plain = local.manifests(configured), local.manifests(configured, conditions=False)
    hooks = [hook for tree in full for hook in tree.get("webhooks", ())]
    assert any("matchConditions" in hook for hook in hooks)
    for hook in hooks:
        hook.pop("matchConditions", None)
    assert full == plain
