"""All objects of an installation, in an order in which they can be applied."""

from __future__ import annotations

from collections.abc import Sequence

from trimtab.api.documents import JSON
from trimtab.install import access, certificates, deployments, monitoring, privileges, protection, reviews
from trimtab.install.options import Options


def everything(options: Options, definitions: Sequence[JSON] = ()) -> list[JSON]:
    """All objects; `definitions` are the CustomResourceDefinitions to install (see `definitions`).

    Raises InvalidError for an invalid configuration.
    """
    return [each for part in parts(options, definitions).values() for each in part]


def parts(options: Options, definitions: Sequence[JSON] = ()) -> dict[str, list[JSON]]:
    """The same objects, by what they are for."""
    options.read()
    return {
        "namespace": [] if options.shared else [deployments.namespace(options)],
        "definitions": list(definitions),
        "access": list(access.manifests(options)),
        "certificates": list(certificates.manifests(options)),
        "workloads": list(deployments.manifests(options)),
        "webhooks": list(reviews.manifests(options)),
        "costs": list(protection.manifests(options)),
        "privileges": list(privileges.manifests(options)),
        "monitoring": list(monitoring.manifests(options)),
    }
