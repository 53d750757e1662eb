"""The definition of a lab: its processes, Trimtab's configuration in it, and its first objects.

An embedded lab runs the lab's own API server and controllers. A lab on real binaries (`--control-plane`) runs theirs,
and the lab's own where a binary is missing; Trimtab's processes then use the ServiceAccounts of an installation.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from trimtab_lab import controls, provisioning, supervisor
from trimtab_lab.controlplane import accounts, identities
from trimtab_lab.controlplane.binaries import Binaries
from trimtab_lab.controlplane.commands import COMPONENTS, Commands, Customization, Layout, Ports, listening_ports
from trimtab_lab.controlplane.versions import API_SERVER, CONTROLLER_MANAGER, ETCD, SCHEDULER
from trimtab_lab.supervisor import ProcessSpec, Supervisor
from trimtab_lab.workloads.options import FEATURE_GATES, STOCK

PRODUCT = ("scheduler", "webhooks", "controllers")
"""The components of Trimtab that run in a lab, each in a process of its own."""
CONFIGURATION = "trimtab.json"
"""The file with Trimtab's configuration, in the folder of the lab."""

_SCHEDULER: dict[str, Any] = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "leaderElection": {"leaderElect": False},
}
_CONTROLLER_GATES = {"LogarithmicScaleDown": "logarithmicScaleDown", "PodDeletionCost": "podDeletionCost"}
"""The fields of Trimtab's configuration that say which feature gates the controllers have."""
_CONFIGURATION: dict[str, Any] = {
    "apiVersion": "trimtab.dev/v1alpha1",
    "kind": "TrimtabConfiguration",
    "leaderElection": {"enabled": False},
    "scaleDown": {"defaultPolicies": [{"name": "level", "mode": "Enforce"}]},
    "serving": {"port": -1},
}


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """Real binaries, and what users pass through to them."""

    binaries: Binaries
    customization: Customization = field(default_factory=Customization)


@dataclass(frozen=True, slots=True)
class LabOptions:
    """The options of a lab."""

    state: Path
    port: int
    shape: Path | None = None
    """A file with the nodes; three zones of four nodes without it."""
    components: Sequence[str] = PRODUCT
    profiles: Sequence[Any] = ()
    """Profiles of Trimtab's scheduler beside its own."""
    control_plane: ControlPlane | None = None
    restarts_control_plane: bool = False
    """Whether etcd and the API server are restarted when they exit; otherwise the lab ends."""
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    """Feature gates of the lab's workload controllers; real binaries have theirs in `control_plane`."""
    metrics_port: int = 0
    """The port of the workload controllers' metrics; 0 for any free one."""
    dashboard: bool = False
    """Whether the dashboard is served, with the controls behind its buttons."""
    dashboard_port: int = 0
    """The port of the dashboard; 0 for any free one."""

    def has(self, binary: str) -> bool:
        """Whether the control plane has this binary."""
        return self.control_plane is not None and self.control_plane.binaries.has(binary)


def supervisor_for(options: LabOptions) -> Supervisor:
    """The supervisor of a lab."""
    if options.dashboard and not options.dashboard_port:
        options = replace(options, dashboard_port=supervisor.find_free_port())
    lab = _with_metrics(options)
    if options.dashboard:
        _add_dashboard(lab, options)
    return lab


def _add_dashboard(lab: Supervisor, options: LabOptions) -> None:
    """Add the dashboard, a process of the product, and the lab's controls behind its buttons."""
    port = supervisor.find_free_port()
    file = str(options.state / controls.FILE)
    kubeconfig = ("--kubeconfig", str(options.state / "kubeconfig"))
    shown = ("--config", str(options.state / CONFIGURATION), "--port", str(options.dashboard_port))
    lab.processes = [
        *lab.processes,
        ProcessSpec("controls", ("lab", "controls", *kubeconfig, "--file", file), ports=(port,)),
        ProcessSpec(
            "dashboard",
            ("dashboard", *kubeconfig, *shown, "--lab-controls", file),
            ports=(options.dashboard_port,),
        ),
    ]
    lab.dashboard_url = f"http://127.0.0.1:{options.dashboard_port}/"
    others = lab.prepare

    def prepare() -> None:
        others()
        controls.write_address(options.state, port)

    lab.prepare = prepare


def _with_metrics(options: LabOptions) -> Supervisor:
    if options.has(CONTROLLER_MANAGER):
        return _supervisor_for(options)
    options = replace(
        options,
        feature_gates=controller_gates(options.feature_gates),
        metrics_port=options.metrics_port or supervisor.find_free_port(),
    )
    lab = _supervisor_for(options)
    lab.metrics_url = f"http://127.0.0.1:{options.metrics_port}/metrics"
    lab.feature_gates = options.feature_gates
    return lab


def controller_gates(given: Mapping[str, bool]) -> dict[str, bool]:
    """All feature gates of the lab's workload controllers; of those given, the ones that are theirs."""
    return STOCK.gated({name: value for name, value in given.items() if name in FEATURE_GATES}).gates


def _supervisor_for(options: LabOptions) -> Supervisor:
    configuration = options.state / CONFIGURATION
    if options.control_plane is None:
        lab = Supervisor(options.state, options.port, [*_embedded(options), *_lab_parts(options), *_product(options)])
        lab.prepare = lambda: write_configuration(options)
        lab.provision = None if set(options.components) <= {"scheduler"} else _embedded_provisioning(configuration)
        return lab
    layout, ports = Layout(options.state.absolute()), _ports(options.port)
    url = f"https://127.0.0.1:{options.port}"
    real = _binaries(options.control_plane, layout, ports)
    foundation, managers = real[:2], real[2:]
    lab = Supervisor(options.state, options.port, [*foundation, *managers, *_lab_parts(options), *_product(options)])
    lab.control_plane = options.control_plane.binaries.summary
    lab.restarts_foundation = options.restarts_control_plane

    def prepare() -> None:
        write_configuration(options)
        identities.write(layout, url)

    lab.prepare = prepare
    lab.provision = _provisioning(options, configuration, layout, url)
    return lab


def _embedded(options: LabOptions) -> list[ProcessSpec]:
    arguments = ("lab", "apiserver", "--state", str(options.state), "--port", str(options.port))
    return [ProcessSpec(supervisor.API_SERVER, arguments, ports=(options.port,))]


def _binaries(control_plane: ControlPlane, layout: Layout, ports: Ports) -> list[ProcessSpec]:
    """The processes of the control plane: etcd, the API server, then those that are clients of it."""
    binaries = control_plane.binaries
    commands = Commands(layout, ports, binaries.versions, control_plane.customization)
    checks = {ETCD: lambda: _is_healthy(layout, ports.etcd_client)}
    names = {API_SERVER: supervisor.API_SERVER}
    lines = {name: commands.arguments(name) for name in COMPONENTS if binaries.has(name)}
    return [
        ProcessSpec(names.get(name, name), line, (binaries.path(name),), checks.get(name), listening_ports(line))
        for name, line in lines.items()
    ]


def _lab_parts(options: LabOptions) -> list[ProcessSpec]:
    """The lab's controllers, unless there is a controller manager, and the simulated nodes."""
    kubeconfig = ("--kubeconfig", str(options.state / "kubeconfig"))
    shape = ("--shape", str(options.shape)) if options.shape else ()
    if options.has(CONTROLLER_MANAGER):
        return [ProcessSpec("nodes", ("lab", "nodes", *kubeconfig, *shape))]
    gates = ",".join(f"{name}={str(value).lower()}" for name, value in options.feature_gates.items())
    settings = ("--feature-gates", gates, "--metrics-port", str(options.metrics_port))
    return [
        ProcessSpec("workloads", ("lab", "workloads", *kubeconfig, *settings), ports=(options.metrics_port,)),
        ProcessSpec("nodes", ("lab", "nodes", *kubeconfig, "--lifecycle", *shape)),
    ]


def _product(options: LabOptions) -> list[ProcessSpec]:
    config = ("--config", str(options.state / CONFIGURATION))

    def kubeconfig(name: str) -> Path:
        return options.state / "kubeconfig" if options.control_plane is None else _own_kubeconfig(options.state, name)

    return [
        ProcessSpec(name, ("run", "--kubeconfig", str(kubeconfig(name)), *config, "--component", name))
        for name in options.components
    ]


def _own_kubeconfig(state: Path, component: str) -> Path:
    return state / f"trimtab-{component}.kubeconfig"


def write_configuration(options: LabOptions) -> None:
    """Write Trimtab's configuration: a default policy for all workloads, and the default scheduler if there is none."""
    port = supervisor.find_free_port()
    webhooks = {"host": "127.0.0.1", "port": port, "url": f"https://127.0.0.1:{port}"}
    names = ["trimtab"] if options.has(SCHEDULER) else ["default-scheduler", "trimtab"]
    profiles = [*({"schedulerName": name} for name in names), *options.profiles]
    tree = {**_CONFIGURATION, "webhooks": webhooks, "scheduler": {**_SCHEDULER, "profiles": profiles}}
    if not all(options.feature_gates.get(name, True) for name in FEATURE_GATES):
        gates = {_CONTROLLER_GATES[name]: value for name, value in controller_gates(options.feature_gates).items()}
        tree["scaleDown"] = {**_CONFIGURATION["scaleDown"], "controllerGates": gates}
    if options.control_plane is not None:
        tree["namespace"] = accounts.NAMESPACE
    (options.state / CONFIGURATION).write_text(json.dumps(tree, indent=2))


Provisioning = Callable[[Path, Awaitable[None]], Awaitable[None]]


def _embedded_provisioning(configuration: Path) -> Provisioning:
    """A function that creates what `trimtab install --local` prints, once the API server is ready."""

    async def provision(kubeconfig: Path, ready: Awaitable[None]) -> None:
        objects, _ = await asyncio.gather(provisioning.render_local(configuration), ready)
        async with provisioning.connect(kubeconfig) as client:
            await provisioning.create_missing(client, objects)

    return provision


def _provisioning(options: LabOptions, configuration: Path, layout: Layout, url: str) -> Provisioning:
    """A function that also creates Trimtab's ServiceAccounts and roles, and kubeconfigs with their tokens."""

    async def provision(kubeconfig: Path, ready: Awaitable[None]) -> None:
        local = [] if set(options.components) <= {"scheduler"} else await provisioning.render_local(configuration)
        await ready
        if not options.components:
            return
        objects = await provisioning.render_accounts(_as_installed(configuration), kubeconfig)
        paths = {f"trimtab-{name}": _own_kubeconfig(options.state, name) for name in options.components}
        async with provisioning.connect(kubeconfig) as client:
            await provisioning.create_missing(client, [*local, *objects], has_cel=True)
            await accounts.write_kubeconfigs(client, url, (layout.pki / "ca.crt").read_bytes(), paths)

    return provision


def _as_installed(configuration: Path) -> Path:
    """The configuration with leader election, which `trimtab install` insists on; its roles are the same without."""
    tree = json.loads(configuration.read_text())
    scheduler = {**tree["scheduler"], "leaderElection": {"leaderElect": True}}
    path = configuration.with_name("trimtab-installed.json")
    path.write_text(json.dumps({**tree, "leaderElection": {"enabled": True}, "scheduler": scheduler}, indent=2))
    return path


def _ports(api_server: int) -> Ports:
    taken = [api_server]
    while len(taken) < len(Ports.__dataclass_fields__):
        port = supervisor.find_free_port()
        if port not in taken:
            taken.append(port)
    return Ports(*taken)


def _is_healthy(layout: Layout, port: int) -> bool:
    """Whether etcd reports that it is healthy; it answers clients with a certificate only."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(layout.pki / "ca.crt")
    context.load_cert_chain(*layout.certificate("etcd"))
    return supervisor.answers(f"https://127.0.0.1:{port}/health", context)
