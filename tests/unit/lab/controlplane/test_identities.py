"""The files of a control plane."""

from __future__ import annotations

from pathlib import Path

import yaml
from cryptography import x509

from trimtab_lab.controlplane import identities
from trimtab_lab.controlplane.commands import Layout


def test_everything_that_the_binaries_read_is_written(tmp_path: Path) -> None:
    """Certificates of one authority, keys and kubeconfigs that only their owner can read, the audit policy."""
    layout = Layout(tmp_path)
    identities.write(layout, "https://127.0.0.1:1")
    authority = x509.load_pem_x509_certificate((layout.pki / "ca.crt").read_bytes())
    for name in ("server", "etcd", "service-accounts", "front-proxy-client"):
        certificate, key = map(Path, layout.certificate(name))
        x509.load_pem_x509_certificate(certificate.read_bytes()).verify_directly_issued_by(authority)
        assert key.stat().st_mode & 0o077 == 0
    for name in ("kube-controller-manager", "kube-scheduler"):
        config = yaml.safe_load(layout.kubeconfig(name).read_text())
        assert config["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:1"
        assert layout.kubeconfig(name).stat().st_mode & 0o077 == 0
    assert layout.audit_policy.exists()


def test_the_data_of_an_earlier_lab_is_removed(tmp_path: Path) -> None:
    """A lab starts empty, and keeps its authority: a kubeconfig stays valid."""
    layout = Layout(tmp_path)
    identities.write(layout, "https://127.0.0.1:1")
    authority = (layout.pki / "ca.crt").read_bytes()
    (layout.data / "member").mkdir()
    identities.write(layout, "https://127.0.0.1:1")
    assert list(layout.data.iterdir()) == []
    assert (layout.pki / "ca.crt").read_bytes() == authority
