"""Questions that are asked by creating something: who am I, and may I? Whoever may ask may do everything."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from trimtab_lab.apiserver.admission.users import User
from trimtab_lab.apiserver.kinds.serialization import decoding, protobuf
from trimtab_lab.apiserver.storage.store import Tree

_ALLOWED = {"allowed": True, "reason": "whoever is known to the lab may do everything"}


def _who(_sent: Tree, user: User) -> Tree:
    return {"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1", "status": {"userInfo": user.tree()}}


def _may(sent: Tree, _user: User) -> Tree:
    question = {"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1"}
    return {**question, "metadata": {}, "spec": sent.get("spec") or {}, "status": _ALLOWED}


QUESTIONS: Mapping[str, tuple[str, Callable[[Tree, User], Tree]]] = {
    "/apis/authentication.k8s.io/v1/selfsubjectreviews": ("SelfSubjectReview", _who),
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews": ("SelfSubjectAccessReview", _may),
}
"""By path: what is sent there, and who answers."""


def answer(path: str, body: bytes, content_type: str, user: User) -> Tree | None:
    """The answer, or None if the path is not one of these. Raises a Status of 400 or 415."""
    if path not in QUESTIONS:
        return None
    kind, reply = QUESTIONS[path]
    if decoding.media_type(content_type) == protobuf.MEDIA_TYPE:
        return reply({}, user)  # the answer does not depend on what is asked
    return reply(decoding.read_object(body, content_type, kind), user)
