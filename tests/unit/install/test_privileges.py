"""The policies about privileges, as they are printed; `tests/e2e/test_privileges.py` has them evaluated."""

from __future__ import annotations

import pytest

from trimtab.api.annotations import NAMESPACE_LABEL
from trimtab.api.documents import JSON
from trimtab.install import privileges
from trimtab.install.options import Options


def printed(options: Options) -> dict[str, dict[str, JSON]]:
    """The specs of all policies and bindings, by name and kind."""
    found: dict[str, dict[str, JSON]] = {}
    for each in privileges.manifests(options):
        found.setdefault(each["metadata"]["name"], {})[each["kind"]] = each["spec"]
    return found


def test_every_policy_is_bound_and_refuses() -> None:
    """While Trimtab is down as well: they are evaluated by the API server."""
    policies = printed(Options())
    assert set(policies) == {privileges.PATCHES, privileges.DRY_RUNS, privileges.PODS, privileges.NAMESPACES}
    for name, specs in policies.items():
        assert specs["ValidatingAdmissionPolicy"]["failurePolicy"] == "Fail"
        binding = specs["ValidatingAdmissionPolicyBinding"]
        assert (binding["policyName"], binding["validationActions"]) == (name, ["Deny"])


@pytest.mark.parametrize(
    ("options", "want"),
    [
        pytest.param(Options(), ["kube-system", "trimtab-system"], id="of the cluster and our own"),
        pytest.param(Options(namespace="level"), ["kube-system", "level"], id="wherever Trimtab is"),
        pytest.param(
            Options(configuration={"namespaces": ["kube-system"]}), ["trimtab-system"], id="but for those configured"
        ),
    ],
)
def test_controllers_handle_no_pods_in_exempt_namespaces(options: Options, want: list[str]) -> None:
    """Where nothing of theirs can be."""
    specs = printed(options)[options.scoped(privileges.PODS)]
    selector = specs["ValidatingAdmissionPolicyBinding"]["matchResources"]["namespaceSelector"]
    assert selector["matchExpressions"][0]["values"] == want
    (rule,) = specs["ValidatingAdmissionPolicy"]["matchConstraints"]["resourceRules"]
    assert (rule["resources"], rule["operations"]) == (["pods", "pods/eviction"], ["CREATE", "DELETE"])
    (condition,) = specs["ValidatingAdmissionPolicy"]["matchConditions"]
    user = f"system:serviceaccount:{options.namespace}:trimtab-controllers"
    assert condition["expression"] == f'request.userInfo.username == "{user}"'


def test_controllers_change_one_label_of_namespaces() -> None:
    """The subresources are not for them at all."""
    spec = printed(Options())[privileges.NAMESPACES]["ValidatingAdmissionPolicy"]
    (rule,) = spec["matchConstraints"]["resourceRules"]
    assert (rule["operations"], "namespaces/finalize" in rule["resources"]) == (["UPDATE"], True)
    assert spec["validations"][0]["expression"].count(NAMESPACE_LABEL) == 2


def test_webhooks_create_pods_as_dry_runs_only() -> None:
    """RBAC knows the verb alone."""
    spec = printed(Options())[privileges.DRY_RUNS]["ValidatingAdmissionPolicy"]
    (condition,) = spec["matchConditions"]
    assert condition["expression"].endswith('"system:serviceaccount:trimtab-system:trimtab-webhooks"')
    assert spec["validations"][0]["expression"] == "has(request.dryRun) && request.dryRun"


@pytest.mark.parametrize(
    ("components", "want"),
    [
        pytest.param(("scheduler",), set(), id="the scheduler"),
        pytest.param(
            ("webhooks",), {privileges.PATCHES, privileges.DRY_RUNS}, id="the webhooks, which apply and try patches"
        ),
        pytest.param(("controllers",), {privileges.PODS, privileges.NAMESPACES}, id="the controllers"),
    ],
)
def test_policies_come_with_the_components_that_they_are_about(components: tuple[str, ...], want: set[str]) -> None:
    """And with no others."""
    assert set(printed(Options(components=components))) == want  # type: ignore[arg-type]
