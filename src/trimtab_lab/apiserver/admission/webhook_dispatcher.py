"""Admission webhooks: which are called for a request, in which order, and what their responses lead to.

1. **Matching.** A webhook is called if one of its rules matches (operation, group, version, resource, scope), and if
   its selectors match the namespace and the object (the old or the new one). A rule that names another version of the
   same resource matches as well, unless the match policy is `Exact`. Webhook configurations are never reviewed: a
   broken webhook could otherwise not be removed.
2. **Mutating webhooks** are called one after the other, by the name of their configuration and their index in it; each
   receives the object as the previous ones left it. If one changed it, earlier webhooks with `IfNeeded` are called
   once more, in a second round.
3. **Validating webhooks** are called concurrently, after everything else. Of several denials the first is returned.
4. **A webhook that cannot be called** (no connection, a timeout, an invalid response) fails the request if its failure
   policy is `Fail`, and is skipped if it is `Ignore`. A webhook with side effects is never called for a dry run: the
   request is rejected.

Nothing here does I/O: `call` reaches the webhook.
"""

from __future__ import annotations

import asyncio
import copy
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from trimtab_lab.apiserver.admission.admission_reviews import (
    CallError,
    Operation,
    Resource,
    ReviewRequest,
    ReviewResponse,
    build_review,
    read_response,
)
from trimtab_lab.apiserver.admission.webhook_matching import Webhook, compile_webhooks, labels_of, labels_to_match
from trimtab_lab.apiserver.admission.webhook_patches import PatchedRequest, Reinvocations
from trimtab_lab.apiserver.kinds.errors import StatusError, bad_request, internal_error, status_error
from trimtab_lab.apiserver.storage.store import Tree, encode

Call = Callable[[Tree, bytes, float], Awaitable[bytes]]
"""Posts a review to the webhook with this `clientConfig`, within so many seconds. Raises CallError."""

_GRACE = 0.5  # seconds in which `call` can report its own timeout


def _unchanged(_: Tree) -> None:
    """Leave an object as it is."""


def _no_equivalents(_resource: Resource, _subresource: str) -> Sequence[Resource]:
    """No resource has another version."""
    return ()


def _set_type(tree: Tree, resource: Resource) -> Tree:
    """Convert an object to a version that differs in `apiVersion` alone."""
    api_version = f"{resource.group}/{resource.version}" if resource.group else resource.version
    return {**tree, "apiVersion": api_version, "kind": resource.kind or tree.get("kind", "")}


class WebhookDispatcher:
    """The webhooks of a cluster, and the order in which they are called.

    `namespace_labels` returns the labels of a namespace, None if it does not exist. `equivalents` returns the same
    resource in other versions, and `convert` an object in such a version.
    """

    def __init__(
        self,
        call: Call,
        namespace_labels: Callable[[str], Mapping[str, str] | None],
        equivalents: Callable[[Resource, str], Sequence[Resource]] = _no_equivalents,
        convert: Callable[[Tree, Resource], Tree] = _set_type,
    ) -> None:
        self._call = call
        self._namespace_labels = namespace_labels
        self._equivalents = equivalents
        self._convert = convert
        self._mutating: list[Webhook] = []
        self._validating: list[Webhook] = []
        self._needed: dict[tuple[str, Resource, str], bool] = {}

    def load(self, mutating: Iterable[Tree], validating: Iterable[Tree]) -> None:
        """Replace the webhooks by those of these configurations."""
        self._mutating = compile_webhooks(mutating)
        self._validating = compile_webhooks(validating)
        self._needed.clear()

    def forget(self) -> None:
        """Drop what is remembered about resources and their versions: the served kinds have changed."""
        self._needed.clear()

    def is_needed(self, operation: Operation, resource: Resource, subresource: str = "") -> bool:
        """Whether any webhook may match such requests; fast, since it runs for every write."""
        key = operation, resource, subresource
        needed = self._needed.get(key)
        if needed is None:
            request = ReviewRequest(operation, resource, subresource=subresource, namespace="any")
            bare = ReviewRequest(operation, resource, subresource=subresource)
            hooks = [*self._mutating, *self._validating]
            needed = any(self._target(hook, one) for hook in hooks for one in (request, bare))
            self._needed[key] = needed
        return needed

    async def mutate(
        self,
        request: ReviewRequest,
        warnings: list[str],
        complete: Callable[[Tree], None] = _unchanged,
        reinvoke: Callable[[Tree], None] = _unchanged,
    ) -> Tree | None:
        """Call the mutating webhooks; the object if they changed it, else None.

        `complete` decodes and defaults an object, in place, after each patch; `reinvoke` runs the built-in plugins
        before the second round. Raises StatusError.
        """
        reinvocations = Reinvocations()
        patched = PatchedRequest(request, complete)
        for hook in self._mutating:
            await self._call_mutating(hook, patched, reinvocations, warnings)
        if reinvocations.changed:
            self._start_second_round(patched, reinvocations, reinvoke)
            for hook in self._mutating:
                if hook.identity in reinvocations.again:
                    await self._call_mutating(hook, patched, reinvocations, warnings)
        return patched.request.object if patched.changed else None

    async def validate(self, request: ReviewRequest, warnings: list[str]) -> None:
        """Call the validating webhooks. Raises StatusError."""
        matching = [(hook, target) for hook in self._validating if (target := self._match(hook, request)) is not None]
        if not matching:
            return
        calls = (self._send(hook, request, target, mutating=False) for hook, target in matching)
        results = await asyncio.gather(*calls, return_exceptions=True)
        for (hook, _), result in zip(matching, results, strict=True):
            if isinstance(result, ReviewResponse):
                warnings.extend(result.warnings)
            elif isinstance(result, BaseException):
                _skip_or_fail(hook, result)
        _raise_first(result.denial for result in results if isinstance(result, ReviewResponse))

    @staticmethod
    def _start_second_round(
        patched: PatchedRequest, reinvocations: Reinvocations, reinvoke: Callable[[Tree], None]
    ) -> None:
        """Run the built-in plugins again; if they change the object, every webhook with `IfNeeded` is called again."""
        tree = patched.request.object
        if tree is None:
            return
        before = copy.deepcopy(tree)
        reinvoke(tree)
        if tree != before:
            reinvocations.note_change()

    async def _call_mutating(
        self, hook: Webhook, patched: PatchedRequest, reinvocations: Reinvocations, warnings: list[str]
    ) -> None:
        target = self._match(hook, patched.request)
        if target is None:
            return
        changed = False
        try:
            response = await self._send(hook, patched.request, target, mutating=True)
        except CallError as error:
            _skip_or_fail(hook, error)
        else:
            warnings.extend(response.warnings)
            _raise_first([response.denial])
            changed = patched.apply(hook.name, response)
        if changed:
            reinvocations.note_change()
        if hook.reinvoked:
            reinvocations.called.append(hook.identity)

    async def _send(self, hook: Webhook, request: ReviewRequest, target: Resource, *, mutating: bool) -> ReviewResponse:
        """Send a review, and read the response. Raises CallError or StatusError."""
        if request.dry_run and hook.side_effects not in ("None", "NoneOnDryRun"):
            raise bad_request(f'admission webhook "{hook.name}" does not support dry run')
        uid = str(uuid.uuid4())
        body = encode(build_review(hook.review_version, uid, self._in_version(request, target), target))
        try:
            async with asyncio.timeout(hook.timeout + _GRACE):
                data = await self._call(hook.client, body, hook.timeout)
        except TimeoutError:
            raise CallError("failed to call webhook: context deadline exceeded") from None
        except CallError as error:
            raise CallError(f"failed to call webhook: {error}") from error
        return read_response(data, uid, hook.name, hook.review_version, mutating=mutating)

    def _in_version(self, request: ReviewRequest, target: Resource) -> ReviewRequest:
        """The request with its objects in the version that a webhook's rule names."""
        if target == request.resource:
            return request
        return replace(
            request, object=self._convert_to(request.object, target), old=self._convert_to(request.old, target)
        )

    def _convert_to(self, tree: Tree | None, target: Resource) -> Tree | None:
        return None if tree is None else self._convert(tree, target)

    def _match(self, hook: Webhook, request: ReviewRequest) -> Resource | None:
        """The resource in the version that the webhook receives; None if it is not called. Raises StatusError."""
        if not hook.objects.empty and not any(map(hook.objects.matches, labels_to_match(request))):
            return None
        target = self._target(hook, request)
        return target if target is not None and self._namespace_matches(hook, request) else None

    def _target(self, hook: Webhook, request: ReviewRequest) -> Resource | None:
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

    def _namespace_matches(self, hook: Webhook, request: ReviewRequest) -> bool:
        is_namespace = request.resource.name == "namespaces" and not request.resource.group
        if hook.namespaces.empty or (not request.namespace and not is_namespace):
            return True
        if is_namespace and not request.subresource and request.operation in ("CREATE", "UPDATE"):
            return hook.namespaces.matches(labels_of(request.object))
        labels = self._namespace_labels(request.namespace)
        if labels is None:
            details = {"name": request.namespace, "kind": "namespaces"}
            raise status_error(404, f'namespaces "{request.namespace}" not found', details=details)
        return hook.namespaces.matches(labels)


def _skip_or_fail(hook: Webhook, error: BaseException) -> None:
    """Handle a webhook that could not be called: fail the request, or skip the webhook."""
    if not isinstance(error, CallError):
        raise error
    if not hook.ignored:
        raise internal_error(f'failed calling webhook "{hook.name}": {error}')


def _raise_first(denials: Iterable[StatusError | None]) -> None:
    for denial in denials:
        if denial is not None:
            raise denial
