"""Checks of the webhooks: their registration, their certificates, and whether the API server calls them."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from urllib.parse import urlsplit

from cryptography import x509

from trimtab.admission.certificate_authority import invalid_reason, is_current, names_of
from trimtab.admission.certificates import keyring_in
from trimtab.api import crds
from trimtab.api.documents import JSON
from trimtab.doctor.facts import Facts
from trimtab.doctor.findings import Problem, name_of
from trimtab.inspection.lint.findings import Severity
from trimtab.install import reviews

_COMPARED = ("rules", "failurePolicy", "timeoutSeconds", "sideEffects", "reinvocationPolicy")
"""The fields of a webhook that only an installation writes; a cluster's owner may narrow the selectors."""
_NEAR_END = timedelta(days=30)
_TENTH = 10


def _expected(facts: Facts) -> Mapping[tuple[str, str], JSON]:
    """The webhooks that should be registered, by the kind of their configuration and their name."""
    configuration = facts.configuration
    if configuration is None or "webhooks" not in facts.components:
        return {}
    made = reviews.configurations(
        configuration,
        reviews.by_url(configuration.webhooks.url),
        labels=crds.MANAGED_BY_LABELS,
        clonesets=facts.has_clonesets,
    )
    return {(each["kind"], hook["name"]): hook for each in made for hook in each["webhooks"]}


def missing_webhooks(facts: Facts) -> Iterator[Problem]:
    """Webhooks that are not registered: their requests never reach Trimtab."""
    found = {(each["kind"], hook["name"]) for each, hook in facts.hooks()}
    name = "" if facts.configuration is None else facts.configuration.webhooks.registered_as
    missing = sorted(key for key in _expected(facts) if key not in found)
    for kind, group in groupby(missing, key=lambda key: key[0]):
        hooks = [hook for _, hook in group]
        yield Problem(f"{kind} {name}", f"{_listed(hooks)} {'is' if len(hooks) == 1 else 'are'} not registered")


def changed_webhooks(facts: Facts) -> Iterator[Problem]:
    """Webhooks that are registered otherwise than this version does."""
    expected = _expected(facts)
    for each, hook in facts.hooks():
        wanted = expected.get((each["kind"], hook["name"]))
        if wanted is None:
            continue
        changed = [field for field in _COMPARED if field in wanted and hook.get(field) != wanted[field]]
        if changed:
            yield Problem(name_of(each), f"{hook['name']} was changed: {_listed(changed)}", severity=_severity(hook))


def _severity(hook: JSON) -> Severity | None:
    """An error where requests fail while Trimtab is down."""
    return Severity.ERROR if hook.get("failurePolicy") != "Ignore" else None


def no_endpoints(facts: Facts) -> Iterator[Problem]:
    """A Service without a ready address: every call of the API server fails."""
    services = {
        (hook["clientConfig"]["service"]["namespace"], hook["clientConfig"]["service"]["name"])
        for _, hook in facts.hooks()
        if (hook.get("clientConfig") or {}).get("service")
    }
    endpoints = [endpoint for each in facts.slices or () for endpoint in each.get("endpoints") or ()]
    if not any(map(_is_ready, endpoints)):
        for namespace, name in sorted(services):
            yield Problem(f"Service {namespace}/{name}", "it has no ready address")


def _is_ready(endpoint: JSON) -> bool:
    return (endpoint.get("conditions") or {}).get("ready") is not False


def not_called(facts: Facts) -> Iterator[Problem]:
    """An API server that does not reach the webhooks, whatever the reason."""
    if facts.is_called is False and any(facts.hooks()):
        yield Problem(
            "the API server",
            "it does not get an answer from the webhooks: an invalid ScaleDownPolicy was admitted (as a dry run)",
        )


def untrusted_certificates(facts: Facts) -> Iterator[Problem]:
    """CA bundles with which an API server trusts no webhook."""
    managed = _managed_bundle(facts)
    for each in facts.webhooks or ():
        problems = {_bundle_problem(hook, facts.now, managed) for hook in each.get("webhooks") or ()} - {""}
        for problem in sorted(problems):
            yield Problem(name_of(each), problem)


def _managed_bundle(facts: Facts) -> bytes:
    """The CA bundle that Trimtab publishes; empty if it is not known, or an administrator's."""
    keyring = next((keyring_in(each) for each in facts.secrets or ()), None)
    return b"" if keyring is None else keyring.bundle


def _bundle_problem(hook: JSON, now: datetime, managed: bytes) -> str:
    """Why an API server trusts nothing with the CA bundle of a webhook. An administrator's may be empty."""
    try:
        bundle = base64.b64decode((hook.get("clientConfig") or {}).get("caBundle") or "", validate=True)
        known = x509.load_pem_x509_certificates(bundle) if bundle else []
    except (binascii.Error, ValueError) as error:
        return f"caBundle cannot be read: {error}"
    if not bundle:
        return "caBundle is empty" if managed else ""
    if not any(is_current(each, now) for each in known):
        return "no certificate in caBundle is valid now"
    return "caBundle is not that of the webhooks' certificate" if managed and bundle != managed else ""


def certificates(facts: Facts) -> Iterator[Problem]:
    """A serving certificate that is missing, not valid, near its end, or of another name."""
    configuration = facts.configuration
    if configuration is None or "webhooks" not in facts.components:
        return
    settings = configuration.webhooks.certificates
    if settings.source != "Managed":
        return
    what = f"Secret {facts.namespace}/{settings.stored_in}"
    keyring = next((keyring_in(each) for each in facts.secrets or ()), None)
    if keyring is None:
        state = "is incomplete" if facts.secrets else "does not exist"
        yield Problem(what, f"it {state}: the webhooks serve no certificate until their leader has created one")
        return
    invalid = invalid_reason(keyring.serving.certificate, facts.now)
    if invalid:
        yield Problem(what, invalid)
        return
    left = keyring.serving.expires - facts.now
    if left < min(_NEAR_END, (keyring.serving.expires - keyring.serving.valid_from) / _TENTH):
        message = f"the certificate expires in {left.days} days and has not been renewed"
        yield Problem(what, message, severity=Severity.WARNING)
    yield from _wrong_names(what, names_of(keyring.serving), facts)


def _wrong_names(what: str, names: set[str], facts: Facts) -> Iterator[Problem]:
    called = {_called_name(hook.get("clientConfig") or {}) for _, hook in facts.hooks()} - {""}
    for name in sorted(called - names):
        yield Problem(
            what, f"API servers call the webhooks as {name}, and the certificate is for {_listed(sorted(names))}"
        )


def _called_name(client_config: JSON) -> str:
    service = client_config.get("service")
    if service:
        return f"{service['name']}.{service['namespace']}.svc"
    return urlsplit(client_config.get("url", "")).hostname or ""


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)
