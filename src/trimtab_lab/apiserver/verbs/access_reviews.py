"""SelfSubjectReview and SelfSubjectAccessReview: reviews that are answered when they are created, and never stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from trimtab_lab.apiserver.admission.users import User
from trimtab_lab.apiserver.kinds.errors import status_error
from trimtab_lab.apiserver.kinds.serialization import decoding, protobuf
from trimtab_lab.apiserver.storage.store import Tree
from trimtab_lab.apiserver.verbs.negotiation import JSON, YAML, negotiate

_ALLOWED = {"allowed": True, "reason": "every authenticated user of the lab may do everything"}


def _self_subject_review(_sent: Tree, user: User, now: str) -> Tree:
    review = {"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"}
    return {**review, "metadata": {"creationTimestamp": now}, "status": {"userInfo": user.tree()}}


def _self_subject_access_review(sent: Tree, _user: User, _now: str) -> Tree:
    question = {"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1"}
    return {**question, "metadata": {}, "spec": sent.get("spec") or {}, "status": _ALLOWED}


REVIEWS: Mapping[str, tuple[str, Callable[[Tree, User, str], Tree]]] = {
    "/apis/authentication.k8s.io/v1/selfsubjectreviews": ("SelfSubjectReview", _self_subject_review),
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews": ("SelfSubjectAccessReview", _self_subject_access_review),
}
"""By path: the kind of the body, and the function that answers it."""


def shape(review: Tree, accept: str) -> Tree:
    """The review as the client accepts it: itself or its metadata; it has no table. Raises a StatusError of 406."""
    match negotiate(accept).shape:
        case "object":
            return review
        case "metadata":
            return {
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": review["metadata"],
            }
        case _:
            raise status_error(406, f"only the following media types are accepted: {JSON}, {YAML}")


def respond(path: str, body: bytes, content_type: str, user: User, now: str) -> Tree | None:
    """The review with its status, None if the path is not one of these. Raises a StatusError of 400 or 415."""
    if path not in REVIEWS:
        return None
    kind, reply = REVIEWS[path]
    if decoding.media_type(content_type) == protobuf.MEDIA_TYPE:
        return reply({}, user, now)  # the response does not depend on the body
    return reply(decoding.read_object(body, content_type, kind), user, now)
