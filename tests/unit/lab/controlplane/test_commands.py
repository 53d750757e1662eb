"""The command lines of a control plane."""

from __future__ import annotations

from pathlib import Path

import pytest

from trimtab_lab.controlplane import commands
from trimtab_lab.controlplane.commands import Commands, Customization, Layout, Ports
from trimtab_lab.controlplane.versions import API_SERVER, CONTROLLER_MANAGER, ETCD, SCHEDULER, Version

LAYOUT = Layout(Path("/lab"))
PORTS = Ports(api_server=1, etcd_client=2, etcd_peer=3, controller_manager=4, scheduler=5)
KUBERNETES = Version(1, 36, 4)
ALL = {ETCD: Version(3, 6, 8), API_SERVER: KUBERNETES, CONTROLLER_MANAGER: KUBERNETES, SCHEDULER: KUBERNETES}


def line(name: str, customization: Customization | None = None, **versions: Version) -> list[str]:
    """The arguments of a binary."""
    known = {**ALL, **versions}
    return list(Commands(LAYOUT, PORTS, known, customization or Customization()).arguments(name))


@pytest.mark.parametrize("name", [API_SERVER, CONTROLLER_MANAGER, SCHEDULER])
def test_every_binary_listens_on_loopback(name: str) -> None:
    """On the port that was chosen for it."""
    assert "--bind-address=127.0.0.1" in line(name)
    assert f"--secure-port={ {API_SERVER: 1, CONTROLLER_MANAGER: 4, SCHEDULER: 5}[name] }" in line(name)


def test_etcd_listens_on_loopback_for_clients_with_a_certificate() -> None:
    """Whoever can write to etcd can do everything."""
    found = line(ETCD)
    assert "--listen-client-urls=https://127.0.0.1:2" in found
    assert "--listen-peer-urls=https://127.0.0.1:3" in found
    assert {"--client-cert-auth=true", "--peer-client-cert-auth=true"} <= set(found)


def test_the_api_server_has_rbac_and_an_audit_log() -> None:
    """As an ordinary cluster has them."""
    assert "--authorization-mode=Node,RBAC" in line(API_SERVER)
    assert "--audit-log-path=/lab/logs/audit.log" in line(API_SERVER)


@pytest.mark.parametrize(
    ("etcd", "flag"),
    [
        pytest.param(Version(3, 5, 1), "--experimental-watch-progress-notify-interval=5s", id="3.5"),
        pytest.param(Version(3, 6, 8), "--watch-progress-notify-interval=5s", id="3.6"),
    ],
)
def test_etcd_reports_the_progress_of_watches(etcd: Version, flag: str) -> None:
    """With the flag that its version has."""
    assert flag in line(ETCD, etcd=etcd)


@pytest.mark.parametrize(
    ("etcd", "expected"),
    [
        pytest.param(Version(3, 5, 12), ["--feature-gates=WatchList=false"], id="3.5.12"),
        pytest.param(Version(3, 5, 13), [], id="3.5.13"),
    ],
)
def test_streaming_lists_are_off_if_etcd_does_not_support_them(etcd: Version, expected: list[str]) -> None:
    """kube-apiserver would answer them with an error."""
    assert [each for each in line(API_SERVER, etcd=etcd) if each.startswith("--feature-gates")] == expected


def test_service_accounts_are_not_required_without_a_controller_manager() -> None:
    """No other process creates them."""
    without = {ETCD: ALL[ETCD], API_SERVER: KUBERNETES}
    assert "--disable-admission-plugins=ServiceAccount" in Commands(LAYOUT, PORTS, without).arguments(API_SERVER)
    assert "--disable-admission-plugins=ServiceAccount" not in line(API_SERVER)


def test_feature_gates_versions_and_arguments_are_passed_through() -> None:
    """Gates are merged with the lab's; further arguments come last."""
    customization = Customization({"A": True, "B": False}, "1.35", {API_SERVER: ("--v=4",)})
    found = line(API_SERVER, customization, etcd=Version(3, 5, 1))
    assert found[-3:] == ["--feature-gates=WatchList=false,A=true,B=false", "--emulated-version=1.35", "--v=4"]
    assert line(SCHEDULER, customization)[-2:] == ["--feature-gates=A=true,B=false", "--emulated-version=1.35"]
    assert not any("gates" in each or "emulated" in each for each in line(ETCD, customization))


def test_the_ports_of_a_binary_follow_from_its_arguments() -> None:
    """Those that the lab has chosen, unless the user sets others."""
    assert commands.listening_ports(line(ETCD)) == (2, 3)
    assert [commands.listening_ports(line(name)) for name in (API_SERVER, CONTROLLER_MANAGER, SCHEDULER)] == [
        (1,),
        (4,),
        (5,),
    ]
    other = Customization(extra={SCHEDULER: ("--secure-port=7",), ETCD: ("--listen-peer-urls=https://[::1]:8",)})
    assert commands.listening_ports(line(SCHEDULER, other)) == (7,)
    assert commands.listening_ports(line(ETCD, other)) == (2, 8)


def test_feature_gates_and_arguments_are_parsed() -> None:
    """As Kubernetes writes gates; arguments by binary."""
    assert commands.parse_gates(("A=true,B=false", "C=true")) == {"A": True, "B": False, "C": True}
    assert commands.parse_extra(("etcd=--log-level=info", "etcd=--a=b")) == {"etcd": ("--log-level=info", "--a=b")}


@pytest.mark.parametrize("text", ["A", "A=yes", "=", "A=True"])
def test_a_bad_feature_gate_is_explained(text: str) -> None:
    """With what to write."""
    with pytest.raises(ValueError, match="write Name=true or Name=false"):
        commands.parse_gates((text,))


@pytest.mark.parametrize("text", ["--v=4", "kubelet=--v=4", "etcd", "etcd=v"])
def test_a_bad_argument_is_explained(text: str) -> None:
    """With the names of the binaries."""
    with pytest.raises(ValueError, match="where NAME is one of etcd, kube-apiserver"):
        commands.parse_extra((text,))
