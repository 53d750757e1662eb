"""What a cluster needs for Trimtab processes outside it: our kinds, and webhook configurations by URL.

No ServiceAccount, role or Deployment is needed: the processes use a kubeconfig, and the API server calls the webhooks
at `webhooks.url`.
"""

from __future__ import annotations

from trimtab.api import crds
from trimtab.api.configuration import TrimtabConfiguration
from trimtab.api.documents import JSON
from trimtab.api.errors import InvalidError
from trimtab.install import reviews


def manifests(configuration: TrimtabConfiguration) -> list[JSON]:
    """All objects, in an order in which they can be applied. Raises InvalidError where no URL is configured."""
    if not configuration.webhooks.url:
        raise InvalidError("webhooks.url", "must be set, so that the API server can call webhooks outside the cluster")
    where = reviews.by_url(configuration.webhooks.url)
    return [*crds.manifests(), *reviews.configurations(configuration, where, labels=crds.MANAGED_BY_LABELS)]
