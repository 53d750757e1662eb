"""DeleteOptions, from the body or the query of a DELETE."""

from __future__ import annotations

from dataclasses import dataclass

from trimtab_lab.apiserver.kinds.errors import (
    bad_request,
    invalid_options,
)
from trimtab_lab.apiserver.kinds.serialization import decoding, wiretypes
from trimtab_lab.apiserver.kinds.serialization.wirevalues import WrongTypeError
from trimtab_lab.apiserver.kinds.validation import causes
from trimtab_lab.apiserver.storage.store import Tree
from trimtab_lab.apiserver.verbs.options import Query, dry_run_causes, first, flag, integer
from trimtab_lab.apiserver.verbs.requests import Request

_POLICIES = ("Foreground", "Background", "Orphan")


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """How to delete: grace period, preconditions, propagation policy."""

    grace: int | None = None
    uid: str | None = None
    version: str | None = None
    propagation: str = ""
    orphan: bool | None = None
    dry_run: bool = False
    tree: Tree | None = None


def delete_options(request: Request) -> DeleteOptions:
    """The options in the body, or in the query where there is no body. Raises a StatusError of 400 or 422."""
    return options_of(_read_options(request) if request.body else _from_query(request.query))


def options_of(tree: Tree) -> DeleteOptions:
    """Read and validate a DeleteOptions object. Raises a StatusError of 422."""
    preconditions = tree.get("preconditions") or {}
    options = DeleteOptions(
        grace=tree.get("gracePeriodSeconds"),
        uid=preconditions.get("uid"),
        version=preconditions.get("resourceVersion"),
        propagation=tree.get("propagationPolicy", ""),
        orphan=tree.get("orphanDependents"),
        dry_run=bool(tree.get("dryRun")),
        tree=tree,
    )
    problems = [*_policy_causes(options), *dry_run_causes(tuple(tree.get("dryRun") or ()))]
    if problems:
        raise invalid_options("DeleteOptions", problems)
    return options


def _read_options(request: Request) -> Tree:
    try:
        tree = decoding.read_object(request.body, request.content_type, "DeleteOptions")
        wiretypes.read("v1 DeleteOptions", tree)
    except WrongTypeError as error:
        raise bad_request(str(error)) from None
    return tree


def _from_query(query: Query) -> Tree:
    tree: Tree = {}
    grace = integer(query, "gracePeriodSeconds")
    if grace is not None:
        tree["gracePeriodSeconds"] = grace
    if "orphanDependents" in query:
        tree["orphanDependents"] = flag(query, "orphanDependents")
    if first(query, "propagationPolicy"):
        tree["propagationPolicy"] = first(query, "propagationPolicy")
    if "dryRun" in query:
        tree["dryRun"] = list(query["dryRun"])
    return tree


def _policy_causes(options: DeleteOptions) -> list[causes.Cause]:
    policy = options.propagation
    if policy and options.orphan is not None:
        return [
            causes.invalid("propagationPolicy", policy, "orphanDependents and deletionPropagation cannot be both set")
        ]
    if policy and policy not in _POLICIES:
        return [causes.unsupported("propagationPolicy", policy, (*_POLICIES, "nil"))]
    return []
