"""All objects of an installation, in an order in which they can be applied."""

from __future__ import annotations

from collections.abc import Sequence

from trimtab.api.documents import JSON
from trimtab.install import access, deployments, monitoring, privileges, protection, reviews
from trimtab.install.options import Options


def everything(options: Options, definitions: Sequence[JSON] = ()) -> list[JSON]:
    """All objects; `definitions` are the CustomResourceDefinitions to install (see `definitions`).

    Raises InvalidError for an invalid configuration.
    """
    options.read()
    return [
        *([] if options.shared else [deployments.namespace(options)]),
        *definitions,
        *access.manifests(options),
        *deployments.manifests(options),
        *reviews.manifests(options),
        *protection.manifests(options),
        *privileges.manifests(options),
        *monitoring.manifests(options),
    ]
