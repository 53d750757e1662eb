"""Admission webhooks: who is asked about a request, in which order, and what becomes of the answers.

1. **Who is asked.** A webhook is asked if one of its rules fits (operation, group, version, resource, scope), and if
   its selectors fit the namespace and the object (the old or the new one). A rule that names another version of the
   same resource fits as well, unless the match policy is `Exact`. Webhook configurations are not reviewed: a bad one
   could then never be taken back.
2. **Mutating webhooks** are asked one after the other, by the name of their configuration and their place in it; each
   sees what those before it made of the object. If one changed it, those before it that say `IfNeeded` are asked once
   more, in a second round.
3. **Validating webhooks** are asked all at once, after everything else. Of several refusals the first is told.
4. **A webhook that cannot be asked** (no connection, no answer in time, an answer that is none) refuses the request if
   its failure policy is `Fail`, and is passed over if it is `Ignore`. A webhook with side effects is never asked about
   a dry run: the request is refused.

Nothing here does I/O: how a webhook is reached is the business of `call`.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import copy
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import jsonpatch
import msgspec

from trimtab.api import selectors
from trimtab.api.codec import convert
from trimtab.api.meta import LabelSelector
from trimtab_lab.apiserver.kinds.errors import Refusal, bad_request, refusal

Tree = dict[str, Any]
Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
Call = Callable[[Tree, bytes, float], Awaitable[bytes]]
"""Posts a review to the webhook with this `clientConfig`, within so many seconds. Raises CallError."""

_encode = msgspec.json.Encoder().encode
_REVIEW_VERSIONS = ("v1", "v1beta1")
_GRACE = 0.5  # seconds in which `call` can say itself that it waited too long
_OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


class CallError(Exception):
    """A webhook could not be asked, or did not answer with a review."""


@dataclass(frozen=True, slots=True)
class Resource:
    """What a request is about, in one version: `pods` of `/v1`, and the kind of its objects."""

    group: str
    version: str
    name: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Request:
    """A request as webhooks are told about it. `object` and `old` are whole: they say what kind they are.

    `sent_kind` is the type of what was sent, where that is not an object of the resource (`autoscaling/v1`, `Scale`).
    """

    operation: Operation
    resource: Resource
    object: Tree | None = None
    old: Tree | None = None
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    user: Tree = field(default_factory=dict)
    options: Tree | None = None
    dry_run: bool = False
    sent_kind: tuple[str, str] | None = None


def _everything(_: Tree) -> None:
    """Leaves an object as it is."""


def _alone(_resource: Resource, _subresource: str) -> Sequence[Resource]:
    """No resource has another version."""
    return ()


def _same(tree: Tree, resource: Resource) -> Tree:
    """Versions of one resource differ in `apiVersion` alone."""
    api_version = f"{resource.group}/{resource.version}" if resource.group else resource.version
    return {**tree, "apiVersion": api_version, "kind": resource.kind or tree.get("kind", "")}


class Webhooks:
    """The webhooks of a cluster, and how they are asked.

    `namespace_labels` gives the labels of a namespace, None if there is no such. `equivalents` gives the same resource
    in other versions, and `converted` an object as such a version has it.
    """

    def __init__(
        self,
        call: Call,
        namespace_labels: Callable[[str], Mapping[str, str] | None],
        equivalents: Callable[[Resource, str], Sequence[Resource]] = _alone,
        converted: Callable[[Tree, Resource], Tree] = _same,
    ) -> None:
        self._call = call
        self._namespace_labels = namespace_labels
        self._equivalents = equivalents
        self._converted = converted
        self._mutating: list[_Hook] = []
        self._validating: list[_Hook] = []
        self._wanted: dict[tuple[str, Resource, str], bool] = {}

    def load(self, mutating: Iterable[Tree], validating: Iterable[Tree]) -> None:
        """Take over the configurations that are stored now."""
        self._mutating = _hooks(mutating)
        self._validating = _hooks(validating)
        self._wanted.clear()

    def forget(self) -> None:
        """Look anew at which resources have other versions: kinds have come or gone."""
        self._wanted.clear()

    def watch(self, operation: Operation, resource: Resource, subresource: str = "") -> bool:
        """Whether any webhook may have to be asked about such requests; quick, so that most requests never get here."""
        key = operation, resource, subresource
        wanted = self._wanted.get(key)
        if wanted is None:
            request = Request(operation, resource, subresource=subresource, namespace="any")
            bare = Request(operation, resource, subresource=subresource)
            hooks = [*self._mutating, *self._validating]
            wanted = any(self._target(hook, about) for hook in hooks for about in (request, bare))
            self._wanted[key] = wanted
        return wanted

    async def mutate(
        self,
        request: Request,
        warnings: list[str],
        settle: Callable[[Tree], None] = _everything,
        between: Callable[[Tree], None] = _everything,
    ) -> Tree | None:
        """The object as the mutating webhooks want it; None if none of them changed it.

        `settle` completes an object, in place, after each patch; `between` does what the server itself does before a
        second round. Raises Refusal.
        """
        rounds = _Rounds()
        state = _State(request, settle)
        for hook in self._mutating:
            await self._ask_mutating(hook, state, rounds, warnings)
        if rounds.changed:
            self._prepare_second(state, rounds, between)
            for hook in self._mutating:
                if hook.identity in rounds.again:
                    await self._ask_mutating(hook, state, rounds, warnings)
        return state.request.object if state.changed else None

    async def validate(self, request: Request, warnings: list[str]) -> None:
        """Ask the validating webhooks. Raises Refusal."""
        asked = [(hook, target) for hook in self._validating if (target := self._match(hook, request)) is not None]
        if not asked:
            return
        answers = (self._ask(hook, request, target, mutating=False) for hook, target in asked)
        results = await asyncio.gather(*answers, return_exceptions=True)
        for (hook, _), result in zip(asked, results, strict=True):
            if isinstance(result, _Answer):
                warnings.extend(result.warnings)
            elif isinstance(result, BaseException):
                _pass_over(hook, result)
        _raise_first(result.refusal for result in results if isinstance(result, _Answer))

    @staticmethod
    def _prepare_second(state: _State, rounds: _Rounds, between: Callable[[Tree], None]) -> None:
        """If the server changes the object once more, everyone who asked for it is asked again."""
        tree = state.request.object
        if tree is None:
            return
        before = copy.deepcopy(tree)
        between(tree)
        if tree != before:
            rounds.note_change()

    async def _ask_mutating(self, hook: _Hook, state: _State, rounds: _Rounds, warnings: list[str]) -> None:
        target = self._match(hook, state.request)
        if target is None:
            return
        changed = False
        try:
            answer = await self._ask(hook, state.request, target, mutating=True)
        except CallError as error:
            _pass_over(hook, error)
        else:
            warnings.extend(answer.warnings)
            _raise_first([answer.refusal])
            changed = state.patch(hook, answer)
        if changed:
            rounds.note_change()
        if hook.reinvoked:
            rounds.seen.append(hook.identity)

    async def _ask(self, hook: _Hook, request: Request, target: Resource, *, mutating: bool) -> _Answer:
        """Send a review; what came back. Raises CallError or Refusal."""
        if request.dry_run and hook.side_effects not in ("None", "NoneOnDryRun"):
            raise bad_request(f'admission webhook "{hook.name}" does not support dry run')
        uid = str(uuid.uuid4())
        body = _encode(self._review(hook, request, target, uid))
        try:
            async with asyncio.timeout(hook.timeout + _GRACE):
                data = await self._call(hook.client, body, hook.timeout)
        except TimeoutError:
            raise CallError("failed to call webhook: context deadline exceeded") from None
        except CallError as error:
            raise CallError(f"failed to call webhook: {error}") from error
        return _read_answer(hook, data, uid, mutating=mutating)

    def _review(self, hook: _Hook, request: Request, target: Resource, uid: str) -> Tree:
        asked = request.resource
        own = target == asked
        group, version, kind = _kind_of(request, target)
        api_version, name = request.sent_kind or ("", "")
        sent = _type(*_split(api_version), name) if request.sent_kind else _type(asked.group, asked.version, asked.kind)
        tree: Tree = {
            "uid": uid,
            "kind": _type(group, version, kind),
            "resource": _resource(target),
            "subResource": request.subresource,
            "requestKind": sent,
            "requestResource": _resource(asked),
            "requestSubResource": request.subresource,
            "name": request.name,
            "namespace": request.namespace,
            "operation": request.operation,
            "userInfo": request.user,
            "object": request.object if own else self._in_version(request.object, target),
            "oldObject": request.old if own else self._in_version(request.old, target),
            "dryRun": request.dry_run,
            "options": request.options or _default_options(request),
        }
        shown = {key: value for key, value in tree.items() if value != "" or key not in _OPTIONAL}
        return {"kind": "AdmissionReview", "apiVersion": f"admission.k8s.io/{hook.review_version}", "request": shown}

    def _in_version(self, tree: Tree | None, target: Resource) -> Tree | None:
        return None if tree is None else self._converted(tree, target)

    def _match(self, hook: _Hook, request: Request) -> Resource | None:
        """The resource as the webhook wants it; None if it is not to be asked. Raises Refusal."""
        if not hook.objects.empty and not any(map(hook.objects.matches, _labels_of(request))):
            return None
        target = self._target(hook, request)
        return target if target is not None and self._namespace_matches(hook, request) else None

    def _target(self, hook: _Hook, request: Request) -> Resource | None:
        resource = request.resource
        if resource.group == "admissionregistration.k8s.io":
            return None
        if any(rule.matches(request, resource) for rule in hook.rules):
            return resource
        if hook.exact:
            return None
        others = [other for other in self._equivalents(resource, request.subresource) if other != resource]
        matching = (other for rule in hook.rules for other in others if rule.matches(request, other))
        return next(matching, None)

    def _namespace_matches(self, hook: _Hook, request: Request) -> bool:
        is_namespace = request.resource.name == "namespaces" and not request.resource.group
        if hook.namespaces.empty or (not request.namespace and not is_namespace):
            return True
        if is_namespace and not request.subresource and request.operation in ("CREATE", "UPDATE"):
            return hook.namespaces.matches(_labels(request.object))
        labels = self._namespace_labels(request.namespace)
        if labels is None:
            details = {"name": request.namespace, "kind": "namespaces"}
            raise refusal(404, f'namespaces "{request.namespace}" not found', details=details)
        return hook.namespaces.matches(labels)


# --- webhooks and rules, compiled ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Rule:
    operations: frozenset[str]
    groups: frozenset[str]
    versions: frozenset[str]
    resources: tuple[tuple[str, str], ...]
    scope: str

    def matches(self, request: Request, resource: Resource) -> bool:
        return (
            _fits(self.operations, request.operation)
            and _fits(self.groups, resource.group)
            and _fits(self.versions, resource.version)
            and self._fits_resource(resource.name, request.subresource)
            and self._fits_scope(request, resource)
        )

    def _fits_resource(self, name: str, part: str) -> bool:
        return any(wanted in ("*", name) and piece in ("*", part) for wanted, piece in self.resources)

    def _fits_scope(self, request: Request, resource: Resource) -> bool:
        if self.scope == "*":
            return True
        is_namespace = resource.name == "namespaces" and not resource.group
        inside = bool(request.namespace) and not is_namespace
        return inside == (self.scope == "Namespaced")


@dataclass(frozen=True, slots=True)
class _Hook:
    identity: str
    name: str
    client: Tree
    rules: tuple[_Rule, ...]
    namespaces: selectors.Selector
    objects: selectors.Selector
    exact: bool
    ignored: bool
    side_effects: str
    timeout: float
    reinvoked: bool
    review_version: str


def _hooks(configurations: Iterable[Tree]) -> list[_Hook]:
    ordered = sorted(configurations, key=lambda tree: str(tree["metadata"].get("name", "")))
    return [
        _hook(f"{tree['metadata'].get('name', '')}/{webhook.get('name', '')}/{index}", webhook)
        for tree in ordered
        for index, webhook in enumerate(tree.get("webhooks") or ())
    ]


def _hook(identity: str, webhook: Tree) -> _Hook:
    versions = webhook.get("admissionReviewVersions") or ()
    return _Hook(
        identity=identity,
        name=webhook.get("name", ""),
        client=webhook.get("clientConfig") or {},
        rules=tuple(_rule(rule) for rule in webhook.get("rules") or ()),
        namespaces=_selector(webhook.get("namespaceSelector")),
        objects=_selector(webhook.get("objectSelector")),
        exact=webhook.get("matchPolicy") == "Exact",
        ignored=webhook.get("failurePolicy") == "Ignore",
        side_effects=webhook.get("sideEffects", ""),
        timeout=float(webhook.get("timeoutSeconds", 10)),
        reinvoked=webhook.get("reinvocationPolicy") == "IfNeeded",
        review_version=next((version for version in versions if version in _REVIEW_VERSIONS), "v1"),
    )


def _rule(rule: Tree) -> _Rule:
    resources = tuple((text.partition("/")[0], text.partition("/")[2]) for text in rule.get("resources") or ())
    return _Rule(
        operations=frozenset(rule.get("operations") or ()),
        groups=frozenset(rule.get("apiGroups") or ()),
        versions=frozenset(rule.get("apiVersions") or ()),
        resources=resources,
        scope=rule.get("scope", "*"),
    )


def _selector(given: Tree | None) -> selectors.Selector:
    return selectors.compile(convert(given or {}, LabelSelector))


def _fits(items: frozenset[str], wanted: str) -> bool:
    return "*" in items or wanted in items


def _labels(tree: Tree | None) -> Mapping[str, str]:
    labels: Mapping[str, str] = ((tree or {}).get("metadata") or {}).get("labels") or {}
    return labels


def _labels_of(request: Request) -> list[Mapping[str, str]]:
    return [_labels(tree) for tree in (request.object, request.old) if tree is not None]


# --- rounds and patches ----------------------------------------------------------------------------------------------


class _Rounds:
    """Who has to be asked again: those that asked for it and were asked before something changed."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.again: set[str] = set()
        self.changed = False

    def note_change(self) -> None:
        self.changed = True
        self.again.update(self.seen)
        self.seen.clear()


class _State:
    """The request on its way from webhook to webhook."""

    def __init__(self, request: Request, settle: Callable[[Tree], None]) -> None:
        self.request = request
        self.changed = False
        self._settle = settle

    def patch(self, hook: _Hook, answer: _Answer) -> bool:
        """Apply what a webhook wants; whether that changed anything. Raises Refusal."""
        if not answer.patch:
            return False
        tree = self.request.object
        if tree is None:
            problem = "attempted to modify the object, which is not supported for this operation"
            raise internal(f'admission webhook "{hook.name}" {problem}')
        patched = copy.deepcopy(tree)
        for operation in answer.patch:
            patched = _applied(operation, patched)
        self._settle(patched)
        changed = patched != tree
        self.changed = self.changed or changed
        self.request = replace(self.request, object=patched)
        return changed


def _applied(operation: Tree, tree: Tree) -> Tree:
    """The tree after one operation of a patch. Raises Refusal, worded as Kubernetes words it."""
    name, path = operation.get("op", ""), operation.get("path", "")
    try:
        parent, key = jsonpatch.JsonPointer(path).to_last(tree)
        if name == "replace" and isinstance(parent, dict) and key not in parent:
            operation = {**operation, "op": "add"}  # Kubernetes lets it pass
        patched: Tree = jsonpatch.JsonPatch([operation]).apply(tree, in_place=True)
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, AttributeError, TypeError, KeyError):
        raise internal(_patch_problem(str(name), str(path))) from None
    return patched


def _patch_problem(name: str, path: str) -> str:
    if name == "test":
        return f"testing value {path} failed: test failed"
    shown = path if name == "replace" else f'"{path}"'
    return f"{name} operation does not apply: doc is missing path: {shown}: missing value"


def _pass_over(hook: _Hook, error: BaseException) -> None:
    """A webhook that could not be asked: refuse the request, or go on without it."""
    if not isinstance(error, CallError):
        raise error
    if not hook.ignored:
        raise internal(f'failed calling webhook "{hook.name}": {error}')


def internal(message: str) -> Refusal:
    """A fault of the server's own, or of a webhook that it depends on."""
    details = {"causes": [{"message": message}]}
    return refusal(500, f"Internal error occurred: {message}", reason="InternalError", details=details)


def _raise_first(refusals: Iterable[Refusal | None]) -> None:
    for found in refusals:
        if found is not None:
            raise found


# --- reviews and answers ---------------------------------------------------------------------------------------------

_OPTIONAL = ("subResource", "requestSubResource", "name", "namespace")


def _type(group: str, version: str, kind: str) -> Tree:
    return {"group": group, "version": version, "kind": kind}


def _resource(resource: Resource) -> Tree:
    return {"group": resource.group, "version": resource.version, "resource": resource.name}


def _split(api_version: str) -> tuple[str, str]:
    group, _, version = api_version.rpartition("/")
    return group, version


def _kind_of(request: Request, target: Resource) -> tuple[str, str, str]:
    if request.sent_kind is not None:
        api_version, kind = request.sent_kind
        return (*_split(api_version), kind)
    return target.group, target.version, target.kind


def _default_options(request: Request) -> Tree | None:
    kind = _OPTIONS.get(request.operation)
    if kind is None:
        return None
    options: Tree = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
    return options | {"dryRun": ["All"]} if request.dry_run else options


@dataclass(frozen=True, slots=True)
class _Answer:
    refusal: Refusal | None
    patch: list[Tree]
    warnings: list[str]


def _read_answer(hook: _Hook, data: bytes, uid: str, *, mutating: bool) -> _Answer:
    """What a webhook said. Raises CallError for what is no answer to this review."""
    try:
        review = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CallError(f"failed to call webhook: couldn't get version/kind; json parse error: {error}") from None
    response = review.get("response") if isinstance(review, dict) else None
    if not isinstance(response, dict):
        raise _invalid("webhook response was absent")
    if hook.review_version == "v1":
        _check_answer(review, response, uid, mutating=mutating)
    patch = _read_patch(response) if mutating else []
    warnings = [str(text) for text in response.get("warnings") or ()]
    refused = None if response.get("allowed") is True else _denial(hook.name, response.get("status"))
    return _Answer(refused, patch, warnings)


def _invalid(problem: str) -> CallError:
    return CallError(f"received invalid webhook response: {problem}")


def _check_answer(review: Tree, response: Tree, uid: str, *, mutating: bool) -> None:
    if response.get("uid") != uid:
        raise _invalid(f'expected response.uid="{uid}", got "{response.get("uid", "")}"')
    api_version, kind = review.get("apiVersion", ""), review.get("kind", "")
    if (api_version, kind) != ("admission.k8s.io/v1", "AdmissionReview"):
        raise _invalid(
            f"expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {api_version}, Kind={kind}"
        )
    patch, patch_type = response.get("patch"), response.get("patchType")
    if not mutating and (patch or patch_type is not None):
        raise _invalid(f"validating webhook may not return response.{'patch' if patch else 'patchType'}")
    if mutating and bool(patch) != (patch_type is not None):
        given, missing = ("patch", "patchType") if patch else ("patchType", "patch")
        raise _invalid(f"webhook returned response.{given} but not response.{missing}")
    if patch_type not in (None, "JSONPatch"):
        raise CallError(f'unsupported patch type "{patch_type}"')


def _read_patch(response: Tree) -> list[Tree]:
    encoded = response.get("patch")
    if not encoded:
        return []
    try:
        patch = msgspec.json.decode(base64.b64decode(encoded))
    except (msgspec.DecodeError, UnicodeDecodeError, binascii.Error, TypeError, ValueError) as error:
        raise CallError(f"received undecodable patch in webhook response: {error}") from None
    if not isinstance(patch, list):
        raise CallError("received undecodable patch in webhook response: it is no list of operations")
    return patch


def _denial(name: str, result: Any) -> Refusal:
    """The Status of a refusal: the webhook's own, with a word about who refused."""
    status: Tree = dict(result) if isinstance(result, dict) else {}
    denied = f'admission webhook "{name}" denied the request'
    reason = status.get("message") or status.get("reason")
    status["message"] = f"{denied}: {reason}" if reason else f"{denied} without explanation"
    code = status.get("code")
    status["code"] = code if isinstance(code, int) and code >= 400 else 400
    if status.get("status") in (None, "", "Success"):
        status["status"] = "Failure"
    return Refusal({"kind": "Status", "apiVersion": "v1", "metadata": {}} | status)
