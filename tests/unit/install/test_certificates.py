"""The certificate of the webhooks, if cert-manager issues it."""

from __future__ import annotations

from typing import Any

import pytest

from trimtab.api import configuration
from trimtab.api.documents import JSON
from trimtab.api.errors import InvalidError
from trimtab.install import manifests
from trimtab.install.options import Options

SELF_SIGNED = {"source": "CertManager"}
ISSUER = {"name": "company", "kind": "ClusterIssuer"}


def printed(certificates: JSON, **options: Any) -> list[JSON]:
    """All objects of an installation with these settings."""
    return manifests.everything(Options(configuration={"webhooks": {"certificates": certificates}}, **options))


def of_kind(kind: str, objects: list[JSON]) -> list[JSON]:
    """Those of a kind."""
    return [each for each in objects if each["kind"] == kind]


@pytest.mark.parametrize(
    ("issuer", "installed", "reference"),
    [
        pytest.param({}, 1, {"name": "trimtab-self-signed", "kind": "Issuer"}, id="one that signs itself"),
        pytest.param({"issuer": ISSUER}, 0, ISSUER, id="one of the cluster"),
    ],
)
def test_a_certificate_names_its_issuer(issuer: JSON, installed: int, reference: JSON) -> None:
    """An issuer of the administrator's is not created."""
    made = printed(SELF_SIGNED | issuer, namespace="level")
    (certificate,) = of_kind("Certificate", made)
    assert len(of_kind("Issuer", made)) == installed
    assert certificate["spec"]["issuerRef"] == {"group": "cert-manager.io", **reference}
    assert certificate["spec"]["dnsNames"][0] == "trimtab-webhooks.level.svc"


def test_cert_manager_sets_the_ca_bundle_and_trimtab_may_not() -> None:
    """It looks for the annotation; the webhooks read, and write neither Secrets nor webhook configurations."""
    made = printed(SELF_SIGNED, namespace="level")
    (certificate,) = of_kind("Certificate", made)
    wanted = {"cert-manager.io/inject-ca-from": f"level/{certificate['metadata']['name']}"}
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        assert [each["metadata"]["annotations"] for each in of_kind(kind, made)] == [wanted]
    rules = [rule for each in made if each["kind"] in ("Role", "ClusterRole") for rule in each["rules"]]
    assert not any("secrets" in rule["resources"] for rule in rules)
    registration = [rule for rule in rules if rule["apiGroups"] == ["admissionregistration.k8s.io"]]
    assert [rule["verbs"] for rule in registration] == [["get"]]


def test_only_the_webhooks_mount_the_secret_of_cert_manager() -> None:
    """At the paths from which the process reads."""
    made = printed(SELF_SIGNED)
    (certificate,) = of_kind("Certificate", made)
    files = configuration.read({"webhooks": {"certificates": SELF_SIGNED}}).webhooks.certificates.files
    for each in of_kind("Deployment", made):
        pod = each["spec"]["template"]["spec"]
        volumes = [volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume]
        mounts = [mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]]
        is_webhooks = each["metadata"]["name"] == "trimtab-webhooks"
        assert volumes == ([certificate["spec"]["secretName"]] if is_webhooks else [])
        assert (files[0].removesuffix("/tls.crt") in mounts) == is_webhooks


def test_nothing_of_cert_manager_is_printed_without_webhooks_or_for_other_sources() -> None:
    """A cluster without cert-manager does not know these kinds."""
    files = {"source": "Files", "certificateFile": "/tls.crt", "keyFile": "/tls.key"}
    for made in (printed({}), printed(files), printed(SELF_SIGNED, components=("scheduler",))):
        assert not of_kind("Certificate", made) + of_kind("Issuer", made)
        assert not any("annotations" in each["metadata"] for each in of_kind("ValidatingWebhookConfiguration", made))


@pytest.mark.parametrize(
    ("certificates", "field"),
    [
        pytest.param({"source": "CertManager", "certificateFile": "/a"}, "certificateFile", id="a file has no effect"),
        pytest.param({"issuer": ISSUER}, "issuer", id="an issuer has no effect"),
        pytest.param({"source": "CertManager", "issuer": {"kind": "Issuer"}}, "issuer", id="an issuer without a name"),
    ],
)
def test_settings_without_effect_are_refused(certificates: JSON, field: str) -> None:
    """With the field."""
    with pytest.raises(InvalidError, match=rf"webhooks\.certificates\.{field}"):
        configuration.read({"webhooks": {"certificates": certificates}})
