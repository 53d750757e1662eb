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


def manifests(configuration: TrimtabConfiguration, *, conditions: bool = True) -> list[JSON]:
    """All objects, in an order in which they can be applied. Raises InvalidError where no URL is configured.

    Without `conditions`, webhooks have no match conditions, and Trimtab itself admits what these would exclude.
    """
    if not configuration.webhooks.url:
        raise InvalidError("webhooks.url", "must be set, so that the API server can call webhooks outside the cluster")
    where = reviews.by_url(configuration.webhooks.url)
    made = list(reviews.configurations(configuration, where, labels=crds.MANAGED_BY_LABELS))
    if not conditions:
        for webhook in (each for tree in made for each in tree["webhooks"]):
            webhook.pop("matchConditions", None)
    return [*crds.manifests(), *made]
