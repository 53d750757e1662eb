"""kubectl, as users type it. $KUBECTLS lists the paths of the versions to test; the default is the one in $PATH."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.lab.wire import CORE, CRDS, DEPLOYMENTS, PODS, REPLICA_SETS, Wire, deployment, owned_by, pod
from tools.webhooks import WebhookServer
from trimtab.install import definitions, manifests
from trimtab.install.options import Options
from trimtab_lab.apiserver.wire.server import Server

FOUND = [path for path in os.environ.get("KUBECTLS", shutil.which("kubectl") or "").split(os.pathsep) if path]
ROOT = Path(__file__).parents[2]

EXPLAINED: dict[str, str] = json.loads((ROOT / "tests/recordings/kubectl/explain.json").read_text())
"""What `kubectl explain` prints on a real server (`tools/explain.py`)."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not FOUND, reason="kubectl is not installed: put it in $PATH, or its path in $KUBECTLS"),
]


class Kubectl:
    """Runs kubectl against one server, with its own home folder."""

    def __init__(self, path: str, kubeconfig: Path, home: Path) -> None:
        self._path = path
        self._environment = {"KUBECONFIG": str(kubeconfig), "HOME": str(home), "PATH": os.environ.get("PATH", "")}
        self._home = home

    async def start(self, *arguments: str, stdin: bool = False) -> asyncio.subprocess.Process:
        """Start a command."""
        return await asyncio.create_subprocess_exec(
            self._path,
            *arguments,
            env=self._environment,
            stdin=asyncio.subprocess.PIPE if stdin else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )

    async def run(self, *arguments: str, given: Any = None) -> tuple[int, str, str]:
        """A command's exit code, output and errors; `given` is the input of `-f -`."""
        process = await self.start(*arguments, stdin=given is not None)
        text = None if given is None else (given if isinstance(given, str) else yaml.safe_dump(given)).encode()
        output, errors = await asyncio.wait_for(process.communicate(text), 60)
        return process.returncode or 0, output.decode(), errors.decode()

    async def __call__(self, *arguments: str, given: Any = None) -> str:
        """The output of a command that must succeed."""
        code, output, errors = await self.run(*arguments, given=given)
        assert code == 0, errors
        return output

    async def refused(self, *arguments: str, given: Any = None) -> str:
        """The errors of a command that must fail."""
        code, output, errors = await self.run(*arguments, given=given)
        assert code != 0, output
        return errors


@pytest.fixture(params=FOUND or [""])
def kubectl(request: pytest.FixtureRequest, server: Server, tmp_path: Path) -> Kubectl:
    """Every configured kubectl, one after the other."""
    home = tmp_path / "home"
    home.mkdir()
    return Kubectl(request.param, server.kubeconfig, home)


def words(output: str) -> list[list[str]]:
    """The cells of a table that kubectl printed."""
    return [line.split() for line in output.splitlines()]


async def test_apply_creates_and_merges(kubectl: Kubectl) -> None:
    """apply creates, reports when nothing changed, and merges changes, also into lists with elements of other
    writers."""
    manifest = deployment()
    assert await kubectl("apply", "-f", "-", given=manifest) == "deployment.apps/web created\n"
    assert await kubectl("apply", "-f", "-", given=manifest) == "deployment.apps/web unchanged\n"
    await kubectl("set", "env", "deployment/web", "LEVEL=debug")
    manifest["spec"]["template"]["spec"]["containers"][0]["image"] = "example.com/web:2"
    assert await kubectl("apply", "-f", "-", given=manifest) == "deployment.apps/web configured\n"
    tree = yaml.safe_load(await kubectl("get", "deployment", "web", "-o", "yaml"))
    (container,) = tree["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "example.com/web:2"
    assert container["env"] == [{"name": "LEVEL", "value": "debug"}]


async def test_apply_rejects_an_unknown_field(kubectl: Kubectl) -> None:
    """kubectl leaves the validation to the server, which names the field; with --validate=warn it warns."""
    manifest = deployment()
    manifest["spec"]["repliccas"] = 3
    errors = await kubectl.refused("apply", "-f", "-", given=manifest)
    assert 'unknown field "spec.repliccas"' in errors
    _, output, errors = await kubectl.run("apply", "--validate=warn", "-f", "-", given=manifest)
    assert 'Warning: unknown field "spec.repliccas"' in errors
    assert output == "deployment.apps/web created\n"


async def test_get_prints_tables(kubectl: Kubectl, wire: Wire) -> None:
    """Short, wide, by label, by field, of several kinds, and as names."""
    await wire.create(PODS, pod("one") | {"metadata": {"name": "one", "labels": {"app": "a"}}})
    await wire.create(PODS, pod("two", nodeName="node-1"))
    assert words(await kubectl("get", "pods"))[0] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    wide = words(await kubectl("get", "pods", "-o", "wide"))
    assert wide[0][:7] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP", "NODE"]
    assert wide[2][6] == "node-1"
    assert [row[0] for row in words(await kubectl("get", "pods", "-l", "app in (a,b)"))] == ["NAME", "one"]
    by_field = await kubectl("get", "pods", "--field-selector", "spec.nodeName=node-1", "-o", "name")
    assert by_field == "pod/two\n"
    everything = await kubectl("get", "all,nodes", "-A")
    assert "service/kubernetes" in everything
    assert "pod/one" in everything


async def test_an_object_is_described_with_its_events(kubectl: Kubectl, wire: Wire) -> None:
    """describe prints an object and the events about it."""
    created = await wire.create(PODS, pod())
    about = {"kind": "Pod", "namespace": "default", "name": "web", "uid": created["metadata"]["uid"]}
    event = {"metadata": {"name": "web.1"}, "involvedObject": about, "reason": "Placed", "message": "on a whim"}
    times = {"firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z", "count": 1}
    await wire.create(f"{CORE}/events", {**event, **times, "type": "Normal", "source": {"component": "a test"}})
    output = await kubectl("describe", "pod", "web")
    assert "Service Account:  default" in output
    assert "on a whim" in output
    assert "Replicas:" in await kubectl("describe", "deployment", (await _deployed(kubectl)))


async def _deployed(kubectl: Kubectl) -> str:
    await kubectl("create", "deployment", "shop", "--image=example.com/shop:1", "--replicas=2")
    return "shop"


async def test_fields_are_explained(kubectl: Kubectl) -> None:
    """explain prints the fields and types of built-in kinds, and the descriptions of ours."""
    output = await kubectl("explain", "deployment.spec")
    assert "GROUP:      apps" in output
    assert "replicas\t<integer>" in output
    await kubectl("apply", "-f", str(ROOT / "deploy" / "crds" / "clonesets.yaml"))
    output = await kubectl("explain", "clonesets")
    assert "CloneSet keeps a number of identical pods" in output
    assert "spec\t<Object> -required-" in output


@pytest.mark.parametrize("path", EXPLAINED)
async def test_kinds_are_explained_as_by_a_real_server(kubectl: Kubectl, path: str) -> None:
    """Descriptions, types and enumerations of built-in kinds and of ours, as recorded; `-required-` is not compared.

    Published schemas require fields by markers in comments of the Go source; the lab's follow from its types.
    """
    await kubectl("apply", "-f", str(ROOT / "deploy" / "crds"))
    output = await kubectl("explain", path)
    assert _comparable(output) == _comparable(EXPLAINED[path])


def _comparable(text: str) -> list[str]:
    return [line.rstrip().removesuffix(" -required-") for line in text.strip().splitlines()]


UNSERVED = [
    {"apiVersion": "unserved.example.com/v1", "kind": "Thing", "metadata": {"name": "a"}},
    {"apiVersion": "apps/v1", "kind": "Thing", "metadata": {"name": "a"}},
]


@pytest.mark.parametrize("thing", UNSERVED, ids=["of an unserved group", "of a served group"])
async def test_an_unserved_kind_has_no_matches(kubectl: Kubectl, thing: dict[str, Any]) -> None:
    """With kubectl's own message, as on a real server."""
    for verb in ("apply", "create"):
        errors = await kubectl.refused(verb, "-f", "-", given=thing)
        assert f'no matches for kind "Thing" in version "{thing["apiVersion"]}"' in errors


NO_CEL = "written in CEL, which the lab does not evaluate"
REFUSED = {
    "NetworkPolicy": "NetworkPolicy: the lab does not enforce network policies",
    "ValidatingAdmissionPolicy": f"ValidatingAdmissionPolicy: admission policies are {NO_CEL}",
    "ValidatingAdmissionPolicyBinding": f"ValidatingAdmissionPolicyBinding: admission policies are {NO_CEL}",
}
"""The kinds of an installation that the lab refuses, with the reason."""
OPTIONS = (
    pytest.param(Options(), id="all components"),
    pytest.param(Options(components=("webhooks", "controllers")), id="no scheduler"),
    pytest.param(Options(components=("scheduler",), namespace="elsewhere", replicas=1), id="the scheduler alone"),
    pytest.param(Options(deny_cost_changes=True, api_server_ranges=("10.0.0.0/28",)), id="costs denied"),
    pytest.param(
        Options(configuration={"namespaces": ["shop"], "featureGates": {"CloneSetPodCost": True}}), id="one namespace"
    ),
)


@pytest.mark.parametrize("options", OPTIONS)
async def test_an_installation_is_applied_or_refused_with_a_reason(kubectl: Kubectl, options: Options) -> None:
    """`trimtab install | kubectl apply -f -`: each refused object is named by its kind, with why."""
    await kubectl("create", "namespace", "shop")
    printed = list(manifests.everything(options, definitions.choose("all", []).manifests))
    refused = [reason for each in printed if (reason := refusal(each))]
    _, output, errors = await kubectl.run("apply", "-f", "-", given=yaml.safe_dump_all(printed))
    assert len(output.splitlines()) == len(printed) - len(refused), errors
    assert [reason for reason in refused if errors.count(reason) != refused.count(reason)] == []


def refusal(printed: dict[str, Any]) -> str:
    """Why the lab refuses an object of an installation; empty if it accepts it."""
    if any("matchConditions" in webhook for webhook in printed.get("webhooks", ())):
        name = f'{printed["kind"]}.admissionregistration.k8s.io "{printed["metadata"]["name"]}"'
        return f"{name} is invalid: webhooks[0].matchConditions: Forbidden: this API server evaluates no CEL"
    return REFUSED.get(printed["kind"], "")


async def test_objects_are_changed_by_patches_labels_annotations_and_scale(kubectl: Kubectl) -> None:
    """The three kinds of patches, the commands that use them, and the error of server-side apply."""
    await kubectl("apply", "-f", "-", given=deployment())
    await kubectl("patch", "deployment", "web", "-p", '{"spec":{"minReadySeconds":5}}')
    await kubectl("patch", "deployment", "web", "--type=merge", "-p", '{"spec":{"paused":true}}')
    removal = '[{"op":"remove","path":"/spec/paused"}]'
    await kubectl("patch", "deployment", "web", "--type=json", "-p", removal)
    await kubectl("label", "deployment", "web", "tier=front")
    await kubectl("annotate", "deployment", "web", "example.com/note=seen")
    assert await kubectl("scale", "deployment", "web", "--replicas=5") == "deployment.apps/web scaled\n"
    tree = yaml.safe_load(await kubectl("get", "deployment", "web", "-o", "yaml"))
    assert tree["spec"]["replicas"] == 5
    assert tree["spec"]["minReadySeconds"] == 5
    assert "paused" not in tree["spec"]
    assert tree["metadata"]["labels"] == {"tier": "front"}
    assert tree["metadata"]["annotations"]["example.com/note"] == "seen"
    errors = await kubectl.refused("apply", "--server-side", "-f", "-", given=deployment())
    assert "kubectl apply without --server-side" in errors


async def test_a_rollout_is_followed_by_its_status(kubectl: Kubectl, wire: Wire) -> None:
    """rollout status reads the status that a controller writes; here the test writes it."""
    await kubectl("apply", "-f", "-", given=deployment(replicas=2))
    process = await kubectl.start("rollout", "status", "deployment/web", "--timeout=30s")
    status = {"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2, "availableReplicas": 2}
    await wire.patch(f"{DEPLOYMENTS}/web/status", {"status": status})
    output, _ = await asyncio.wait_for(process.communicate(), 30)
    assert b'deployment "web" successfully rolled out' in output


async def test_changes_are_watched(kubectl: Kubectl, wire: Wire) -> None:
    """get -w prints a line for every change."""
    await wire.create(PODS, pod("old"))
    process = await kubectl.start("get", "pods", "-w")
    assert process.stdout is not None
    seen = [(await asyncio.wait_for(process.stdout.readline(), 30)).split()[0] for _ in range(2)]
    await wire.create(PODS, pod("new"))
    line = (await asyncio.wait_for(process.stdout.readline(), 30)).decode().split()
    assert [*seen, line[0], line[2]] == [b"NAME", b"old", "new", "Pending"]
    process.terminate()
    await process.wait()


@pytest.fixture
async def owner_with_pod(wire: Wire) -> str:
    """A ReplicaSet with a pod, as a controller would create it."""
    replica_set = {**deployment("parent", 1), "kind": "ReplicaSet"}
    owner = await wire.create(REPLICA_SETS, replica_set)
    child = pod("child") | {"metadata": {"name": "child", "labels": {"app": "parent"}}}
    await wire.create(PODS, owned_by(owner, child))
    return "parent"


@pytest.mark.parametrize(
    ("cascade", "left"),
    [
        pytest.param("background", [], id="the dependents go later"),
        pytest.param("foreground", [], id="the dependents go first"),
        pytest.param("orphan", ["child"], id="the dependents stay"),
    ],
)
async def test_an_owner_is_deleted(
    kubectl: Kubectl, wire: Wire, server: Server, owner_with_pod: str, cascade: str, left: list[str]
) -> None:
    """delete waits until the owner is gone; the propagation policy decides about the dependents."""
    await kubectl("delete", "replicaset", owner_with_pod, f"--cascade={cascade}")
    await server.settled()
    assert await wire.names(PODS) == left
    if left:
        assert "ownerReferences" not in (await wire.get(f"{PODS}/child"))["metadata"]


async def test_discovery_and_version(kubectl: Kubectl) -> None:
    """api-resources, api-versions, version and auth whoami."""
    resources = await kubectl("api-resources", "-o", "wide")
    assert "deployments" in resources
    assert "poddisruptionbudgets" in resources
    assert "apps/v1\n" in await kubectl("api-versions")
    assert "+trimtab-lab" in await kubectl("version")
    assert await kubectl("auth", "can-i", "create", "pods") == "yes\n"
    assert "kubernetes-admin" in await kubectl("auth", "whoami")


async def test_what_kubectl_sends_as_protobuf_is_understood(kubectl: Kubectl, wire: Wire) -> None:
    """create sends some kinds as protobuf; no field is lost."""
    await kubectl("create", "namespace", "shop")
    await kubectl("create", "serviceaccount", "robot", "-n", "shop")
    await kubectl("create", "configmap", "settings", "--from-literal=mode=fast", "-n", "shop")
    await kubectl("create", "secret", "generic", "key", "--from-literal=password=open", "-n", "shop")
    await kubectl("create", "deployment", "shop", "--image=example.com/shop:1", "--port=80", "-n", "shop")
    await kubectl("create", "priorityclass", "high", "--value=100")
    await kubectl("create", "poddisruptionbudget", "shop", "--selector=app=shop", "--min-available=50%", "-n", "shop")
    await kubectl("create", "service", "nodeport", "shop", "--tcp=80:8080", "-n", "shop")
    await kubectl("create", "quota", "small", "--hard=cpu=1500m,pods=2", "-n", "shop")
    inside = "/api/v1/namespaces/shop"
    assert (await wire.get(f"{inside}/configmaps/settings"))["data"] == {"mode": "fast"}
    assert (await wire.get(f"{inside}/secrets/key"))["data"] == {"password": "b3Blbg=="}
    budget = await wire.get("/apis/policy/v1/namespaces/shop/poddisruptionbudgets/shop")
    assert budget["spec"] == {"minAvailable": "50%", "selector": {"matchLabels": {"app": "shop"}}}
    (port,) = (await wire.get(f"{inside}/services/shop"))["spec"]["ports"]
    assert (port["port"], port["targetPort"], port["protocol"]) == (80, 8080, "TCP")
    assert (await wire.get(f"{inside}/resourcequotas/small"))["spec"]["hard"] == {"cpu": "1500m", "pods": "2"}


async def test_our_kinds_are_installed_and_used(kubectl: Kubectl, wire: Wire) -> None:
    """A definition is installed; its objects are validated, defaulted, scaled and printed; they are deleted with it."""
    manifest = ROOT / "deploy" / "crds" / "clonesets.yaml"
    await kubectl("apply", "-f", str(manifest))
    await kubectl("wait", "--for=condition=Established", "crd/clonesets.apps.kruise.io", "--timeout=30s")
    clone_set = {**deployment("web", 3), "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet"}
    await kubectl("apply", "-f", "-", given=clone_set)
    assert words(await kubectl("get", "clonesets"))[0] == [
        "NAME",
        "DESIRED",
        "UPDATED",
        "UPDATED_READY",
        "UPDATED_AVAILABLE",
        "READY",
        "TOTAL",
        "AGE",
    ]
    await kubectl("scale", "cloneset", "web", "--replicas=7")
    assert words(await kubectl("get", "clone", "web"))[1][:2] == ["web", "7"]
    broken = {**clone_set, "spec": {**clone_set["spec"], "replicas": -1}}
    assert "spec.replicas" in await kubectl.refused("apply", "-f", "-", given=broken)
    await kubectl("delete", "-f", str(manifest))
    assert await wire.names(CRDS) == []


async def test_a_webhook_denies_and_another_one_warns(kubectl: Kubectl) -> None:
    """kubectl prints the messages of webhooks."""
    async with WebhookServer() as webhooks:
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
        hooks = [
            {
                "name": f"{name}.example.com",
                "clientConfig": {"url": f"{webhooks.url}/{name}", "caBundle": webhooks.ca},
                "rules": [rule],
                "objectSelector": {"matchLabels": {"ask": name}},
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }
            for name in ("deny", "warn")
        ]
        kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
        await kubectl("apply", "-f", "-", given={**kind, "metadata": {"name": "hooks"}, "webhooks": hooks})
        manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {"ask": "deny"}}}
        errors = await kubectl.refused("create", "-f", "-", given=manifest)
        assert 'admission webhook "deny.example.com" denied the request: not today' in errors
        manifest["metadata"] = {"name": "a", "labels": {"ask": "warn"}}
        _, output, errors = await kubectl.run("create", "-f", "-", given=manifest)
        assert "Warning: take care" in errors
        assert output == "configmap/a created\n"


async def test_a_token_of_a_service_account_is_created_and_used(kubectl: Kubectl, wire: Wire) -> None:
    """It authenticates as the ServiceAccount, until that is deleted."""
    await kubectl("create", "serviceaccount", "robot")
    token = (await kubectl("create", "token", "robot", "--duration=30m")).strip()
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    user = (await wire.call("POST", path, review, token=token)).tree["status"]["userInfo"]
    assert user["username"] == "system:serviceaccount:default:robot"
    refused = await kubectl.refused(
        "create", "token", "robot", "--bound-object-kind", "Secret", "--bound-object-name", "s"
    )
    assert "the lab does not bind tokens to objects; leave it out" in refused
    await kubectl("delete", "serviceaccount", "robot")
    assert (await wire.call("POST", path, review, token=token)).status == 401


async def test_a_node_is_drained(kubectl: Kubectl, wire: Wire) -> None:
    """drain cordons a node and evicts its pods."""
    await wire.create("/api/v1/nodes", {"metadata": {"name": "node-1"}})
    await wire.create(PODS, pod("web", nodeName="node-1"))
    await kubectl("drain", "node-1", "--force", "--grace-period=0", "--timeout=30s")
    assert (await wire.get("/api/v1/nodes/node-1"))["spec"]["unschedulable"] is True
    assert await wire.names(PODS) == []


async def test_unsupported_features_have_clear_errors(kubectl: Kubectl, wire: Wire) -> None:
    """Logs, commands in containers and policies in CEL: the error says why."""
    await wire.create(PODS, pod("web", nodeName="node-1"))
    assert "which runs no containers" in await kubectl.refused("logs", "web")
    policy = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy"}
    errors = await kubectl.refused("create", "-f", "-", given={**policy, "metadata": {"name": "p"}, "spec": {}})
    assert "CEL" in errors
