"""Reads an installation. What may not be read becomes a gap; only an API server that is not reached is an error.

Permissions are asked about with SelfSubjectAccessReviews in the name of each component's ServiceAccount, which needs
the permission to impersonate it. Whether the API server calls the webhooks is tried with a ScaleDownPolicy that the
webhooks refuse: it is created as a dry run, so that nothing is stored whatever the answer is.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar, get_args

import yaml

from trimtab.admission.certificates import CONFIGURATIONS, SECRETS
from trimtab.api.configuration import ComponentName, TrimtabConfiguration
from trimtab.api.core import Event
from trimtab.api.documents import JSON
from trimtab.api.errors import InvalidError
from trimtab.api.extensions import CustomResourceDefinition
from trimtab.api.scaledown import ScaleDownPolicy
from trimtab.doctor import permissions
from trimtab.doctor.facts import COMPONENT, REPORTED, Denial, Facts
from trimtab.doctor.leaders import lease_names
from trimtab.inspection import reading
from trimtab.install.deployments import CONFIGURATION, CONFIGURATION_FILE
from trimtab.install.options import NAME, Options, account
from trimtab.kube.client import Client
from trimtab.kube.clocks import SECOND
from trimtab.kube.errors import ApiError, Invalid, NotFound, Unreachable
from trimtab.kube.leases import LEASES
from trimtab.kube.resources import Resource, untyped

T = TypeVar("T")
Impersonate = Callable[[str], AbstractAsyncContextManager[Client]]
"""A client that acts in the name of a user."""

_DEPLOYMENTS = untyped("apps/v1", "Deployment", "deployments")
_CONFIG_MAPS = untyped("v1", "ConfigMap", "configmaps")
_SLICES = untyped("discovery.k8s.io/v1", "EndpointSlice", "endpointslices")
_RECENT = timedelta(hours=1)
_PROBE = "trimtab-doctor"
_WEBHOOK = "validation.trimtab.dev"


async def read(client: Client, *, namespace: str, impersonate: Impersonate, local: Options | None = None) -> Facts:
    """The installation in a namespace; with `local`, that of processes outside the cluster. Raises Unreachable."""
    reader = _Reader(client, namespace, impersonate, {}, local)
    facts = await reader.installation()
    return replace(await reader.surroundings(facts), gaps=reader.gaps)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the facts one by one, and keeps what could not be read."""

    client: Client
    namespace: str
    impersonate: Impersonate
    gaps: dict[str, str]
    local: Options | None

    async def installation(self) -> Facts:
        """What is installed, as far as the namespace shows it."""
        version = await self._try("server_version", self._version())
        configured = await self._try("configuration_text", self._configuration())
        deployments = await self._try("deployments", self._deployments())
        definitions = await self._try("definitions", self._listed(Resource.of(CustomResourceDefinition).raw))
        facts = Facts(
            namespace=self.namespace,
            now=datetime.fromtimestamp(self.client.server_time.now() / SECOND, UTC),
            clock_offset=self.client.server_time.offset,
            is_local=self.local is not None,
            server_version=version,
            configuration_text=configured,
            deployments=deployments,
            definitions=definitions,
        )
        options, error = self._options(configured or "", deployments or ())
        name = "trimtab" if options is None else options.read().webhooks.registered_as
        webhooks = await self._try("webhooks", self._registrations(name))
        return replace(facts, options=options, configuration_error=error, webhooks=webhooks)

    async def surroundings(self, facts: Facts) -> Facts:
        """What the installation needs of the cluster, and what it finds there."""
        cluster = await reading.read(self.client, namespace="")
        events = await self._try("events", self._events(facts.now))
        facts = replace(facts, cluster=cluster, events=events)
        if facts.options is None or facts.configuration is None or not facts.components:
            return facts
        settings = facts.configuration
        leases = lease_names(settings, facts.components).values()
        return replace(
            facts,
            slices=await self._try("slices", self._slices(settings.webhooks.service)),
            secrets=await self._try("secrets", self._named(SECRETS, [settings.webhooks.certificates.stored_in])),
            leases=await self._try("leases", self._named(LEASES, leases)),
            denials=await self._try("denials", self._denials(facts.options)),
            is_called=await self._try("is_called", self._is_called(settings))
            if "webhooks" in facts.components
            else True,
        )

    async def _try(self, fact: str, work: Awaitable[T]) -> T | None:
        try:
            return await work
        except Unreachable:
            raise
        except ApiError as error:
            self.gaps[fact] = str(error)
            return None

    async def _version(self) -> str:
        answer: Mapping[str, Any] = json.loads((await self.client.call("GET", "/version")).body)
        return str(answer.get("gitVersion", ""))

    async def _listed(self, resource: Resource[JSON], **selectors: str) -> Sequence[JSON]:
        found = (await self.client.list(resource, **selectors)).items  # type: ignore[arg-type]
        return [{"apiVersion": resource.api_version, "kind": resource.kind, **each} for each in found]

    async def _deployments(self) -> Sequence[JSON]:
        if self.local is not None:
            return ()
        selector = f"app.kubernetes.io/name={NAME}"
        return await self._listed(_DEPLOYMENTS, namespace=self.namespace, label_selector=selector)

    async def _configuration(self) -> str:
        if self.local is not None:
            return ""
        stored = await self._named(_CONFIG_MAPS, [CONFIGURATION])
        return str(((stored[0].get("data") or {}) if stored else {}).get(CONFIGURATION_FILE, ""))

    async def _named(self, resource: Resource[JSON], names: Iterable[str]) -> Sequence[JSON]:
        found = []
        for name in names:
            try:
                found.append(await self.client.get(resource, name, namespace=self.namespace))
            except NotFound:
                continue
        return [{"apiVersion": resource.api_version, "kind": resource.kind, **each} for each in found]

    def _options(self, text: str, deployments: Sequence[JSON]) -> tuple[Options | None, str]:
        """The installation that the configuration describes, or why it cannot be read."""
        if self.local is not None:
            return self.local, ""
        if not text:
            return None, ""
        present = {(each["metadata"].get("labels") or {}).get(COMPONENT) for each in deployments}
        components = tuple(each for each in get_args(ComponentName) if each in present)
        try:
            tree = yaml.safe_load(text)
            if not isinstance(tree, dict):
                return None, f"{CONFIGURATION_FILE} is not an object"
            options = Options(namespace=self.namespace, configuration=tree, components=components)
            options.read()
        except (InvalidError, yaml.YAMLError) as error:
            return None, f"{CONFIGURATION_FILE}: {error}"
        return options, ""

    async def _registrations(self, name: str) -> Sequence[JSON]:
        found = []
        for kind, resource in CONFIGURATIONS.items():
            try:
                found.append({"kind": kind, **await self.client.get(resource, name)})
            except NotFound:
                continue
        return found

    async def _slices(self, service: str) -> Sequence[JSON]:
        if self.local is not None:
            return ()
        selector = f"kubernetes.io/service-name={service}"
        return await self._listed(_SLICES, namespace=self.namespace, label_selector=selector)

    async def _events(self, now: datetime) -> Sequence[Event]:
        found: list[Event] = []
        for reason in REPORTED:
            found += (await self.client.list(Event, field_selector=f"reason={reason}")).items
        recent = [(each.last_timestamp or each.event_time or now, each) for each in found]
        return [each for when, each in sorted(recent, key=lambda pair: pair[0]) if now - when <= _RECENT]

    async def _is_called(self, configuration: TrimtabConfiguration) -> bool:
        """Whether the webhooks refuse a ScaleDownPolicy with a strategy that does not exist."""
        namespace = next(iter(configuration.namespaces), "default")
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": _PROBE}
        body = {
            "apiVersion": Resource.of(ScaleDownPolicy).api_version,
            "kind": "ScaleDownPolicy",
            "metadata": {"name": _PROBE},
            "spec": {"targetRef": target, "strategies": [{"name": "DoesNotExist"}]},
        }
        try:
            await self.client.create(Resource.of(ScaleDownPolicy).raw, body, namespace=namespace, dry_run=True)
        except Invalid as error:
            if _WEBHOOK in str(error):
                return True
            raise
        return False

    async def _denials(self, options: Options) -> Sequence[Denial]:
        if self.local is not None:
            return await permissions.denials(
                self.client, "this user", permissions.requests(options, *options.components)
            )
        found: list[Denial] = []
        for component in options.components:
            user = f"system:serviceaccount:{options.namespace}:{account(component)}"
            async with self.impersonate(user) as client:
                found += await permissions.denials(client, user, permissions.requests(options, component))
        return found
