"""Which webhooks are called for a request, in which order, and what their responses lead to."""

from __future__ import annotations

import asyncio
import base64
import copy
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tools import record
from tools.webhooks import WebhookServer
from trimtab_lab.apiserver.admission.admission_reviews import CallError, Resource, ReviewRequest
from trimtab_lab.apiserver.admission.webhook_client import WebhookClient
from trimtab_lab.apiserver.admission.webhook_dispatcher import WebhookDispatcher
from trimtab_lab.apiserver.kinds import defaults
from trimtab_lab.apiserver.kinds.errors import StatusError, internal_error
from trimtab_lab.apiserver.kinds.serialization import wiretypes
from trimtab_lab.apiserver.kinds.serialization.wirevalues import WrongTypeError

Tree = dict[str, Any]

PODS = Resource("", "v1", "pods", "Pod")
NAMESPACES = Resource("", "v1", "namespaces", "Namespace")
NODES = Resource("", "v1", "nodes", "Node")
SCALE = Resource("apps", "v1", "deployments", "Deployment")
THINGS = Resource("example.com", "v1", "things", "Thing")
OLD_THINGS = Resource("example.com", "v1beta1", "things", "Thing")
HOOKS = Resource("admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration")

LABELS = {"team-a": {"team": "a"}, "plain": {}}


def rule(**changes: Any) -> Tree:
    """A rule that matches everything."""
    everything: Tree = {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"], "scope": "*"}
    return everything | changes


def hook(name: str = "one.example.com", **changes: Any) -> Tree:
    """A webhook that matches everything; its URL is its name."""
    webhook: Tree = {
        "name": name,
        "clientConfig": {"url": name},
        "rules": [rule()],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "timeoutSeconds": 5,
    }
    return webhook | changes


def configuration(name: str, *webhooks: Tree) -> Tree:
    """A configuration with these webhooks."""
    return {"metadata": {"name": name}, "webhooks": list(webhooks)}


class FakeWebhooks:
    """Stands in for all webhooks: returns the given responses, and records the reviews."""

    def __init__(self, **response: Any) -> None:
        self.response = response
        self.called: list[str] = []
        self.reviews: list[Tree] = []

    async def __call__(self, config: Tree, body: bytes, _timeout: float) -> bytes:
        name = config["url"].partition(".")[0]
        review = json.loads(body)
        self.called.append(name)
        self.reviews.append(review["request"])
        response = self.response.get(name, {})
        if isinstance(response, Exception):
            raise response
        if callable(response):
            response = response(review["request"])
        response = {"uid": review["request"]["uid"], "allowed": True} | response
        return json.dumps(
            {"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response}
        ).encode()


def patch(*operations: Tree) -> Tree:
    """A response with a patch."""
    return {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(operations).encode()).decode()}


def adding(name: str, value: str = "yes") -> Tree:
    """A response that adds a label."""
    return patch({"op": "add", "path": f"/metadata/labels/{name}", "value": value})


def webhooks(
    fake: FakeWebhooks, mutating: tuple[Tree, ...] = (), validating: tuple[Tree, ...] = ()
) -> WebhookDispatcher:
    """A dispatcher for a cluster with two namespaces, in which things have two versions."""
    equivalents = {THINGS: [THINGS, OLD_THINGS], OLD_THINGS: [THINGS, OLD_THINGS]}
    made = WebhookDispatcher(fake, LABELS.get, lambda resource, _: equivalents.get(resource, ()))
    made.load(mutating, validating)
    return made


def request(resource: Resource = PODS, **changes: Any) -> ReviewRequest:
    """A CREATE in a namespace."""
    tree = {"apiVersion": resource.version, "kind": resource.kind, "metadata": {"name": "x", "labels": {"app": "web"}}}
    given: Tree = {"operation": "CREATE", "resource": resource, "object": tree, "namespace": "team-a", "name": "x"}
    return ReviewRequest(**(given | changes))


# --- matching --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("webhook", "about", "called"),
    [
        pytest.param(hook(), request(), True, id="everything"),
        pytest.param(hook(rules=[rule(operations=["UPDATE"])]), request(), False, id="another operation"),
        pytest.param(hook(rules=[rule(apiGroups=["apps"])]), request(), False, id="another group"),
        pytest.param(hook(rules=[rule(resources=["pods"])]), request(), True, id="this resource"),
        pytest.param(hook(rules=[rule(resources=["pods"])]), request(subresource="status"), False, id="not its parts"),
        pytest.param(hook(rules=[rule(resources=["pods/*"])]), request(subresource="status"), True, id="all its parts"),
        pytest.param(
            hook(rules=[rule(resources=["*/status"])]), request(subresource="status"), True, id="that part of all"
        ),
        pytest.param(hook(rules=[rule(resources=["*"])]), request(subresource="status"), False, id="a star is no part"),
        pytest.param(hook(rules=[rule(resources=["*/*"])]), request(), True, id="two stars are everything"),
        pytest.param(hook(rules=[rule(scope="Cluster")]), request(), False, id="the cluster's only"),
        pytest.param(hook(rules=[rule(scope="Cluster")]), request(NODES, namespace=""), True, id="a node is"),
        pytest.param(
            hook(rules=[rule(scope="Namespaced")]), request(NODES, namespace=""), False, id="a node is in none"
        ),
        pytest.param(
            hook(rules=[rule(scope="Cluster")]),
            request(NAMESPACES, namespace="x"),
            True,
            id="a namespace is the cluster's",
        ),
        pytest.param(
            hook(objectSelector={"matchLabels": {"app": "web"}}), request(), True, id="objects with this label"
        ),
        pytest.param(
            hook(objectSelector={"matchLabels": {"app": "db"}}), request(), False, id="objects with another label"
        ),
        pytest.param(
            hook(objectSelector={"matchLabels": {"app": "web"}}),
            request(operation="DELETE", object=None, old={"metadata": {"labels": {"app": "web"}}}),
            True,
            id="the old object counts",
        ),
        pytest.param(hook(namespaceSelector={"matchLabels": {"team": "a"}}), request(), True, id="in these namespaces"),
        pytest.param(
            hook(namespaceSelector={"matchLabels": {"team": "a"}}),
            request(namespace="plain"),
            False,
            id="not in others",
        ),
        pytest.param(
            hook(namespaceSelector={"matchLabels": {"team": "a"}}),
            request(NODES, namespace=""),
            True,
            id="what is in none",
        ),
        pytest.param(
            hook(namespaceSelector={"matchLabels": {"team": "a"}}),
            request(NAMESPACES, namespace="new", object={"metadata": {"labels": {"team": "a"}}}),
            True,
            id="a new namespace has labels of its own",
        ),
        pytest.param(
            hook(rules=[rule(apiVersions=["v1beta1"])]), request(THINGS), True, id="the same in another version"
        ),
        pytest.param(
            hook(rules=[rule(apiVersions=["v1beta1"])], matchPolicy="Exact"), request(THINGS), False, id="or exactly"
        ),
        pytest.param(hook(), request(HOOKS, namespace=""), False, id="webhook configurations are not reviewed"),
    ],
)
async def test_a_webhook_is_called_if_it_matches(webhook: Tree, about: ReviewRequest, called: bool) -> None:
    """By its rules, the namespace and the labels; `is_needed` never excludes a matching webhook."""
    fake = FakeWebhooks()
    cluster = webhooks(fake, validating=(configuration("c", webhook),))
    await cluster.validate(about, [])
    assert bool(fake.called) is called
    assert cluster.is_needed(about.operation, about.resource, about.subresource) or not called


async def test_a_missing_namespace_is_an_error() -> None:
    """Its labels cannot be compared."""
    cluster = webhooks(
        FakeWebhooks(), validating=(configuration("c", hook(namespaceSelector={"matchLabels": {"a": "b"}})),)
    )
    with pytest.raises(StatusError, match='namespaces "gone" not found') as caught:
        await cluster.validate(request(namespace="gone"), [])
    assert caught.value.code == 404


async def test_no_webhook_is_needed_before_any_is_loaded() -> None:
    """Loading takes effect at once."""
    cluster = webhooks(FakeWebhooks())
    assert not cluster.is_needed("CREATE", PODS)
    cluster.load([], [configuration("c", hook(rules=[rule(resources=["pods"])]))])
    assert cluster.is_needed("CREATE", PODS)
    assert not cluster.is_needed("CREATE", NODES)
    cluster.load([], [])
    assert not cluster.is_needed("CREATE", PODS)


async def test_the_object_is_converted_to_the_version_of_the_rule() -> None:
    """The review states the requested version as well."""
    fake = FakeWebhooks()
    cluster = webhooks(fake, validating=(configuration("c", hook(rules=[rule(apiVersions=["v1beta1"])])),))
    await cluster.validate(request(THINGS), [])
    review = fake.reviews[0]
    assert (review["kind"]["version"], review["requestKind"]["version"]) == ("v1beta1", "v1")
    assert review["object"]["apiVersion"] == "example.com/v1beta1"
    assert review["resource"] == {"group": "example.com", "version": "v1beta1", "resource": "things"}


# --- mutating --------------------------------------------------------------------------------------------------------


async def test_mutating_webhooks_are_called_in_order() -> None:
    """By the name of their configuration, then by their index; each receives the changes of the previous ones."""
    fake = FakeWebhooks(b=adding("b"), c=adding("c"))
    configurations = (
        configuration("z", hook("a.example.com")),
        configuration("y", hook("b.example.com"), hook("c.example.com")),
    )
    changed = await webhooks(fake, configurations).mutate(request(), [])
    assert fake.called == ["b", "c", "a"]
    assert [sorted(review["object"]["metadata"]["labels"]) for review in fake.reviews] == [
        ["app"],
        ["app", "b"],
        ["app", "b", "c"],
    ]
    assert changed is not None
    assert changed["metadata"]["labels"] == {"app": "web", "b": "yes", "c": "yes"}


async def test_the_original_object_is_not_changed() -> None:
    """A patch is applied to a copy."""
    about = request()
    await webhooks(FakeWebhooks(one=adding("b")), (configuration("c", hook()),)).mutate(about, [])
    assert about.object is not None
    assert about.object["metadata"]["labels"] == {"app": "web"}


@pytest.mark.parametrize(
    ("response", "why"),
    [
        pytest.param({}, "no patch", id="no patch"),
        pytest.param(patch(), "an empty patch", id="an empty patch"),
        pytest.param(adding("app", "web"), "a patch that changes nothing", id="a patch that changes nothing"),
    ],
)
async def test_a_patch_without_effect_is_no_change(response: Tree, why: str) -> None:
    """There is no changed object, and no webhook is called again."""
    fake = FakeWebhooks(b=response)
    hooks = configuration("c", hook("a.example.com", reinvocationPolicy="IfNeeded"), hook("b.example.com"))
    assert await webhooks(fake, (hooks,)).mutate(request(), []) is None, why
    assert fake.called == ["a", "b"]


async def test_webhooks_with_if_needed_are_called_again_after_a_change() -> None:
    """Those before the change, not those after it, and each once."""
    fake = FakeWebhooks(b=adding("b"), d=adding("d"))
    again = {"reinvocationPolicy": "IfNeeded"}
    hooks = configuration(
        "c",
        hook("a.example.com", **again),
        hook("b.example.com"),
        hook("c.example.com", **again),
        hook("d.example.com"),
        hook("e.example.com", **again),
    )
    await webhooks(fake, (hooks,)).mutate(request(), [])
    assert fake.called == ["a", "b", "c", "d", "e", "a", "c"]


async def test_a_change_in_the_second_round_reaches_later_webhooks() -> None:
    """There is no third round."""
    fake = FakeWebhooks(a=lambda review: adding("a", str(len(review["object"]["metadata"]["labels"]))), b=adding("b"))
    again = {"reinvocationPolicy": "IfNeeded"}
    hooks = configuration("c", hook("a.example.com", **again), hook("b.example.com", **again))
    await webhooks(fake, (hooks,)).mutate(request(), [])
    assert fake.called == ["a", "b", "a", "b"]


async def test_built_in_plugins_run_between_the_rounds() -> None:
    """After each patch the object is completed; before the second round the built-in plugins run again."""
    fake = FakeWebhooks(b=adding("b"))
    hooks = configuration("c", hook("a.example.com", reinvocationPolicy="IfNeeded"), hook("b.example.com"))
    about = request()

    def settle(tree: Tree) -> None:
        tree["metadata"]["labels"]["settled"] = "yes"

    def between(tree: Tree) -> None:
        tree["metadata"]["labels"]["between"] = "yes"

    changed = await webhooks(fake, (hooks,)).mutate(about, [], settle, between)
    assert changed is not None
    assert changed["metadata"]["labels"] == {"app": "web", "b": "yes", "settled": "yes", "between": "yes"}
    assert "between" in fake.reviews[-1]["object"]["metadata"]["labels"]


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        pytest.param(
            {"op": "add", "path": "/no/such", "value": 1},
            'add operation does not apply: doc is missing path: "/no/such": missing value',
            id="an addition",
        ),
        pytest.param(
            {"op": "replace", "path": "/no/such", "value": 1},
            "replace operation does not apply: doc is missing path: /no/such: missing value",
            id="a replacement",
        ),
        pytest.param(
            {"op": "test", "path": "/metadata/name", "value": "y"},
            "testing value /metadata/name failed: test failed",
            id="a test",
        ),
    ],
)
async def test_an_inapplicable_patch_is_an_internal_error(operation: Tree, message: str) -> None:
    """Regardless of the failure policy: the webhook was called, and its response is invalid."""
    cluster = webhooks(FakeWebhooks(one=patch(operation)), (configuration("c", hook(failurePolicy="Ignore")),))
    with pytest.raises(StatusError) as caught:
        await cluster.mutate(request(), [])
    assert caught.value.status["message"] == f"Internal error occurred: {message}"


async def test_replacing_a_missing_field_adds_it() -> None:
    """As in Kubernetes."""
    response = patch({"op": "replace", "path": "/metadata/labels/new", "value": "yes"})
    changed = await webhooks(FakeWebhooks(one=response), (configuration("c", hook()),)).mutate(request(), [])
    assert changed is not None
    assert changed["metadata"]["labels"]["new"] == "yes"


async def test_a_delete_cannot_be_patched() -> None:
    """There is no object to patch."""
    about = request(operation="DELETE", object=None, old={"metadata": {}})
    with pytest.raises(StatusError, match="attempted to modify the object, which is not supported"):
        await webhooks(FakeWebhooks(one=adding("a")), (configuration("c", hook()),)).mutate(about, [])


# --- fake ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("response", "code", "message"),
    [
        pytest.param({"status": {"message": "no"}}, 400, ": no", id="a message"),
        pytest.param({"status": {"reason": "Sorry", "code": 409}}, 409, ": Sorry", id="a reason and a code"),
        pytest.param({"status": {"code": 200, "status": "Success"}}, 400, " without explanation", id="a contradiction"),
        pytest.param({}, 400, " without explanation", id="nothing"),
    ],
)
@pytest.mark.parametrize("mutating", [True, False])
async def test_a_denial_is_returned(response: Tree, code: int, message: str, mutating: bool) -> None:
    """With the name of the webhook, and an error code."""
    fake = FakeWebhooks(one={"allowed": False, **response})
    configurations = (configuration("c", hook()),)
    cluster = webhooks(fake, configurations if mutating else (), () if mutating else configurations)
    with pytest.raises(StatusError) as caught:
        await (cluster.mutate(request(), []) if mutating else cluster.validate(request(), []))
    status = caught.value.status
    assert status["message"] == f'admission webhook "one.example.com" denied the request{message}'
    assert (status["code"], status["status"]) == (code, "Failure")


async def test_warnings_of_denying_webhooks_are_collected() -> None:
    """In the order of the webhooks, not of their responses."""
    fake = FakeWebhooks(a={"warnings": ["first"]}, b={"allowed": False, "warnings": ["second"]})
    warnings: list[str] = []
    cluster = webhooks(fake, validating=(configuration("c", hook("a.example.com"), hook("b.example.com")),))
    with pytest.raises(StatusError):
        await cluster.validate(request(), warnings)
    assert warnings == ["first", "second"]


async def test_validating_webhooks_are_called_concurrently() -> None:
    """Each waits for the other; called one after the other, they would wait for ever."""
    meeting = asyncio.Barrier(2)

    async def call(_config: Tree, body: bytes, _timeout: float) -> bytes:
        await meeting.wait()
        response = {"uid": json.loads(body)["request"]["uid"], "allowed": True}
        return json.dumps(
            {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        ).encode()

    cluster = WebhookDispatcher(call, LABELS.get)
    cluster.load([], [configuration("c", hook("a.example.com"), hook("b.example.com"))])
    await cluster.validate(request(), [])


@pytest.mark.parametrize(
    ("response", "problem"),
    [
        pytest.param(CallError("no route"), "failed to call webhook: no route", id="unreachable"),
        pytest.param({"uid": "x"}, "received invalid webhook response: expected response.uid=", id="another identity"),
        pytest.param(
            {"patch": "W10="},
            "received invalid webhook response: webhook returned response.patch but not response.patchType",
            id="a patch of no type",
        ),
        pytest.param(
            {"patch": "!", "patchType": "JSONPatch"},
            "received undecodable patch in webhook response",
            id="a patch that is none",
        ),
        pytest.param(
            {"patch": "W10=", "patchType": "Merge"}, 'unsupported patch type "Merge"', id="another type of patch"
        ),
    ],
)
async def test_a_failed_call_follows_the_failure_policy(response: Any, problem: str) -> None:
    """`Fail` fails the request, `Ignore` skips the webhook."""
    strict = webhooks(FakeWebhooks(one=response), (configuration("c", hook()),))
    with pytest.raises(StatusError) as caught:
        await strict.mutate(request(), [])
    assert caught.value.status["message"].startswith(
        f'Internal error occurred: failed calling webhook "one.example.com": {problem}'
    )
    assert caught.value.code == 500
    easy = webhooks(FakeWebhooks(one=response), (configuration("c", hook(failurePolicy="Ignore")),))
    assert await easy.mutate(request(), []) is None


async def test_a_webhook_that_never_responds_times_out() -> None:
    """Even if the client would wait."""

    async def call(_config: Tree, _body: bytes, _timeout: float) -> bytes:
        await asyncio.Event().wait()
        return b""

    cluster = WebhookDispatcher(call, LABELS.get)
    cluster.load([], [configuration("c", hook(timeoutSeconds=0.01))])
    with pytest.raises(StatusError, match="context deadline exceeded"):
        await cluster.validate(request(), [])


@pytest.mark.parametrize(
    ("effects", "called"),
    [
        pytest.param("None", True, id="none"),
        pytest.param("NoneOnDryRun", True, id="none on a dry run"),
        pytest.param("Some", False, id="some"),
        pytest.param("Unknown", False, id="unknown"),
    ],
)
async def test_a_webhook_with_side_effects_rejects_a_dry_run(effects: str, called: bool) -> None:
    """It is not called."""
    fake = FakeWebhooks()
    cluster = webhooks(fake, validating=(configuration("c", hook(sideEffects=effects)),))
    if called:
        await cluster.validate(request(dry_run=True), [])
        assert fake.reviews[0]["dryRun"] is True
        assert fake.reviews[0]["options"]["dryRun"] == ["All"]
        return
    with pytest.raises(StatusError, match="does not support dry run") as caught:
        await cluster.validate(request(dry_run=True), [])
    assert caught.value.code == 400
    assert fake.called == []


async def test_a_scale_is_reviewed_as_a_scale() -> None:
    """The kind is that of the body, the resource that of the workload."""
    fake = FakeWebhooks()
    about = request(SCALE, operation="UPDATE", subresource="scale", sent_kind=("autoscaling/v1", "Scale"))
    await webhooks(fake, validating=(configuration("c", hook(rules=[rule(resources=["*/scale"])])),)).validate(
        about, []
    )
    review = fake.reviews[0]
    assert review["kind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    assert review["resource"] == {"group": "apps", "version": "v1", "resource": "deployments"}
    assert review["subResource"] == review["requestSubResource"] == "scale"


# --- against a recording, over HTTPS ---------------------------------------------------------------------------------

STEPS: list[Tree] = record.recordings()["admission"]["steps"]
CREATIONS = [step for step in STEPS[4:] if step["request"]["method"] == "POST"]
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
RECORDED = {
    "configmaps": CONFIG_MAPS,
    "pods": PODS,
    "deployments": Resource("apps", "v1", "deployments", "Deployment"),
}
# What the server adds to an object before validating webhooks receive it.
SERVER_FIELDS = (
    ("metadata", "uid"),
    ("metadata", "creationTimestamp"),
    ("metadata", "generation"),
    ("spec", "serviceAccount"),
    ("spec", "serviceAccountName"),
    ("spec", "tolerations"),
    ("spec", "priority"),
    ("spec", "preemptionPolicy"),
)


@pytest.fixture
async def recorded() -> AsyncIterator[tuple[WebhookDispatcher, WebhookServer]]:
    """The webhooks of the recording."""
    async with WebhookServer() as server, WebhookClient() as caller:
        known = {"namespace": "recorded-admission", "webhook": server.url, "ca": server.ca}
        validating, mutating = (record.filled(copy.deepcopy(step["request"]["body"]), known) for step in STEPS[:2])
        cluster = WebhookDispatcher(
            caller, {"recorded-admission": {"kubernetes.io/metadata.name": "recorded-admission"}}.get
        )
        cluster.load([mutating], [validating])
        yield cluster, server


@pytest.mark.parametrize("step", CREATIONS, ids=lambda step: step["name"])
async def test_webhooks_are_called_and_applied_as_recorded(
    step: Tree, recorded: tuple[WebhookDispatcher, WebhookServer]
) -> None:
    """Their reviews, patches, warnings, denials and failures."""
    cluster, server = recorded
    about = sent(step)
    warnings: list[str] = []
    status: Tree = {}
    changed: Tree | None = None
    try:
        changed = await cluster.mutate(about, warnings, completing(about.object))
        await cluster.validate(ReviewRequest(**(fields(about) | {"object": changed or about.object})), warnings)
    except StatusError as refused:
        status = refused.status
    answer = step["response"]
    assert [text[7:-1].replace('\\"', '"') for text in answer["headers"].get("warning") or ()] == warnings
    assert [normalised_review(review) for review in server.taken()] == [
        normalised_review(review) for review in answer.get("reviews") or ()
    ]
    if answer["status"] == 201:
        assert status == {}
        result = changed or about.object or {}
        assert normalised_metadata(record.normalised(result)["metadata"]) == normalised_metadata(
            answer["body"]["metadata"]
        )
        assert len(result.get("spec", {}).get("containers", ())) == len(
            answer["body"].get("spec", {}).get("containers", ())
        )
    else:
        assert shortened(record.normalised(status)) == shortened(answer["body"])


def sent(step: Tree) -> ReviewRequest:
    """The request of a step, as the server had it before it called webhooks."""
    body = record.filled(copy.deepcopy(step["request"]["body"]), {"namespace": "recorded-admission"})
    kind = f"{body['apiVersion']} {body['kind']}"
    wiretypes.read(kind, body)
    defaults.apply_defaults(kind, body)
    body["metadata"]["namespace"] = "recorded-admission"
    if "generateName" in body["metadata"]:
        body["metadata"]["name"] = f"{body['metadata']['generateName']}abcde"
    dry_run = bool((step["request"].get("query") or {}).get("dryRun"))
    resource = RECORDED[step["request"]["path"].rpartition("/")[2]]
    name = body["metadata"]["name"]
    return ReviewRequest("CREATE", resource, body, namespace="recorded-admission", name=name, dry_run=dry_run)


def completing(tree: Tree | None) -> Any:
    """The function that completes an object of this kind after a patch."""
    kind = f"{(tree or {})['apiVersion']} {(tree or {})['kind']}"

    def settle(patched: Tree) -> None:
        try:
            wiretypes.read(kind, patched)
        except WrongTypeError as error:
            raise internal_error(str(error)) from None
        defaults.apply_defaults(kind, patched)

    return settle


def fields(about: ReviewRequest) -> Tree:
    """The fields of a request."""
    return {name: getattr(about, name) for name in about.__dataclass_fields__}


def normalised_review(review: Tree) -> Tree:
    """A review without what the server added to the object."""
    plain = copy.deepcopy(record.normalised(review))
    request = plain["review"]["request"]
    request.pop("userInfo", None)
    for part, name in SERVER_FIELDS:
        if request["object"] and part in request["object"]:
            request["object"][part].pop(name, None)
    if request["object"]:
        request["object"].pop("status", None)
    return {"path": plain["path"], "query": plain["query"], "request": request}


def normalised_metadata(metadata: Tree) -> Tree:
    """Metadata without what the server added."""
    system = ("uid", "creationTimestamp", "generation", "resourceVersion")
    return {key: value for key, value in metadata.items() if key not in system}


def shortened(status: Tree) -> str:
    """A Status without Go's messages about JSON."""
    return json.dumps(status, sort_keys=True).partition("json parse error")[0]
