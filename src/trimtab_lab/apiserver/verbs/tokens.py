"""The token subresource of ServiceAccounts: a TokenRequest is answered with a token, and never stored.

Tokens cannot be bound to a pod, a secret or a node: nothing in the lab would use that.
"""

from __future__ import annotations

from trimtab.api import times
from trimtab_lab.apiserver.admission.attributes import Attributes
from trimtab_lab.apiserver.admission.service_account_tokens import ISSUER
from trimtab_lab.apiserver.kinds import objects
from trimtab_lab.apiserver.kinds.errors import StatusError, invalid, not_found, status_error
from trimtab_lab.apiserver.kinds.validation import causes
from trimtab_lab.apiserver.storage.store import Entry, Tree, encode, key_of
from trimtab_lab.apiserver.verbs import access_reviews
from trimtab_lab.apiserver.verbs.cluster import Cluster
from trimtab_lab.apiserver.verbs.encoding import as_yaml
from trimtab_lab.apiserver.verbs.negotiation import YAML, negotiate
from trimtab_lab.apiserver.verbs.options import write_options
from trimtab_lab.apiserver.verbs.requests import Request, Response

_GROUP, _KIND = "authentication.k8s.io", "TokenRequest"
_TYPE = (f"{_GROUP}/v1", _KIND)
_DEFAULT_SECONDS = 3600
_SHORTEST_SECONDS = 600
_LONGEST_SECONDS = 2**32
_SECOND = 10**9


async def create(cluster: Cluster, request: Request) -> Response:
    """POST: issue a token."""
    output = negotiate(request.accept)
    options = write_options(request.query, "CreateOptions")
    sent = objects.read_subresource(*_TYPE, request.body, request.content_type, options.validation, request.warnings)
    objects.set_namespace(request.kind, sent, request.namespace)
    cluster.plugins.admit_create(request.kind, request.namespace, sent)
    attributes = _attributes(cluster, request, sent, dry_run=options.dry_run)
    if attributes is not None:
        sent = await cluster.webhooks.mutate(attributes, request.warnings) or sent
    account = _account(cluster, request, sent)
    issued = cluster.clock()
    filled = _filled(sent, account, cluster.now())
    _validate(filled["spec"])
    if attributes is not None:
        await cluster.webhooks.validate(attributes.with_object(filled), request.warnings)
    answer = {"kind": _KIND, "apiVersion": _TYPE[0], **filled, "status": _status(cluster, account, filled, issued)}
    body = encode(access_reviews.shape(answer, request.accept))
    return Response(201, as_yaml(body) if output.media_type == YAML else body, output.media_type)


def _attributes(cluster: Cluster, request: Request, sent: Tree, *, dry_run: bool) -> Attributes | None:
    kind = request.kind
    if not cluster.webhooks.is_needed(kind, "CREATE", "token"):
        return None
    return Attributes(
        "CREATE", kind, request.user, request.namespace, request.name, sent, None, "token", dry_run, type=_TYPE
    )


def _account(cluster: Cluster, request: Request, sent: Tree) -> Entry:
    """The ServiceAccount. Raises a StatusError if there is none, or if the request is about another one."""
    name, uid = sent["metadata"].get("name", request.name), sent["metadata"].get("uid", "")
    if name != request.name:
        problem = causes.invalid("metadata.name", name, "must match the service account name if specified")
        raise invalid(_GROUP, _KIND, request.name, [problem])
    entry = cluster.store.collection(request.kind.collection).entries.get(key_of(request.namespace, request.name))
    if entry is None:
        raise not_found(request.kind, request.name)
    if uid and uid != entry.uid:
        raise _other_account(request.name, uid, entry.uid)
    return entry


def _other_account(name: str, sent: str, present: str) -> StatusError:
    problem = f"the UID in the token request ({sent}) does not match the UID of the service account ({present})"
    message = f'Operation cannot be fulfilled on {_KIND}.{_GROUP} "{name}": {problem}'
    return status_error(409, message, details={"name": name, "group": _GROUP, "kind": _KIND})


def _filled(sent: Tree, account: Entry, now: str) -> Tree:
    """The request with everything that the server sets."""
    metadata = {
        **sent["metadata"],
        "name": account.name,
        "namespace": account.namespace,
        "uid": account.uid,
        "creationTimestamp": now,
    }
    spec = sent.get("spec") or {}
    seconds = spec.get("expirationSeconds")
    return {
        "metadata": metadata,
        "spec": {
            "audiences": spec.get("audiences") or [ISSUER],
            "expirationSeconds": _DEFAULT_SECONDS if seconds is None else seconds,
            "boundObjectRef": spec.get("boundObjectRef"),
        },
    }


def _validate(spec: Tree) -> None:
    seconds, problems = spec["expirationSeconds"], []
    path = "spec.expirationSeconds"
    if seconds < _SHORTEST_SECONDS:
        problems.append(causes.invalid(path, seconds, "may not specify a duration less than 10 minutes"))
    if seconds > _LONGEST_SECONDS:
        problems.append(causes.invalid(path, seconds, "may not specify a duration larger than 2^32 seconds"))
    if spec["boundObjectRef"] is not None:
        problems.append(
            causes.forbidden("spec.boundObjectRef", "the lab does not bind tokens to objects; leave it out")
        )
    if problems:
        raise invalid(_GROUP, _KIND, "", problems)


def _status(cluster: Cluster, account: Entry, filled: Tree, issued: int) -> Tree:
    spec = filled["spec"]
    token = cluster.tokens.issue(account, spec["audiences"], spec["expirationSeconds"])
    return {
        "token": token,
        "expirationTimestamp": times.format_time(issued + spec["expirationSeconds"] * _SECOND),
    }
