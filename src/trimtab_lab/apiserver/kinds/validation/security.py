"""Validation of security contexts of pods and containers."""

from __future__ import annotations

from trimtab_lab.apiserver.kinds.validation import names
from trimtab_lab.apiserver.kinds.validation.causes import Causes, each, invalid, required, too_long, unsupported
from trimtab_lab.apiserver.kinds.validation.field_references import descending
from trimtab_lab.apiserver.storage.store import Tree

_MOST = 2**31 - 1
_PROFILE_TYPES = ("Localhost", "RuntimeDefault", "Unconfined")


def pod(context: Tree, spec: Tree, causes: Causes, path: str) -> None:
    for field in ("fsGroup", "runAsUser", "runAsGroup"):
        _identity(context.get(field), causes, f"{path}.{field}")
    for index, group in enumerate(context.get("supplementalGroups") or ()):
        _identity(group, causes, f"{path}.supplementalGroups[{index}]")
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        fault = "ShareProcessNamespace and HostPID cannot both be enabled"
        causes.append(invalid(f"{path}.shareProcessNamespace", True, fault))
    for field, supported in _POD_CHOICES.items():
        if context.get(field, supported[0]) not in supported:
            causes.append(unsupported(f"{path}.{field}", context[field], supported))
    _profiles(context, causes, path)


_POD_CHOICES = {
    "fsGroupChangePolicy": ("Always", "OnRootMismatch"),
    "supplementalGroupsPolicy": ("Merge", "Strict"),
    "seLinuxChangePolicy": ("MountOption", "Recursive"),
}


def container(context: Tree, causes: Causes, path: str, *, host_users: bool) -> None:
    for field in ("runAsUser", "runAsGroup"):
        _identity(context.get(field), causes, f"{path}.{field}")
    mount = context.get("procMount")
    if mount is not None and mount not in ("Default", "Unmasked"):
        causes.append(unsupported(f"{path}.procMount", mount, ("Default", "Unmasked")))
    if mount == "Unmasked" and host_users:
        causes.append(invalid(f"{path}.procMount", mount, "`hostUsers` must be false to use `Unmasked`"))
    if context.get("allowPrivilegeEscalation") is False:
        _no_escalation(context, causes, path)
    _profiles(context, causes, path)


def _no_escalation(context: Tree, causes: Causes, path: str) -> None:
    if context.get("privileged"):
        fault = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        causes.append(invalid(path, _go_struct(context), fault))
    if "CAP_SYS_ADMIN" in ((context.get("capabilities") or {}).get("add") or ()):
        fault = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
        causes.append(invalid(path, _go_struct(context), fault))


_SHOWN_FIELDS = (
    "capabilities",
    "privileged",
    "seLinuxOptions",
    "windowsOptions",
    "runAsUser",
    "runAsGroup",
    "runAsNonRoot",
    "readOnlyRootFilesystem",
    "allowPrivilegeEscalation",
    "procMount",
    "seccompProfile",
    "appArmorProfile",
)


def _go_struct(context: Tree) -> Tree:
    """A value as Go prints its struct: all fields, with capitalized names."""
    fields = {f"{field[0].upper()}{field[1:]}": context.get(field) for field in _SHOWN_FIELDS}
    if fields["Capabilities"] is not None:
        held = fields["Capabilities"]
        fields["Capabilities"] = {"Add": held.get("add"), "Drop": held.get("drop")}
    return {("SELinuxOptions" if name == "SeLinuxOptions" else name): value for name, value in fields.items()}


def _identity(number: int | None, causes: Causes, path: str) -> None:
    if number is not None and not 0 <= number <= _MOST:
        causes += each(path, number, [names.between(0, _MOST)])


def _profiles(context: Tree, causes: Causes, path: str) -> None:
    if "seccompProfile" in context:
        _seccomp(context["seccompProfile"], causes, f"{path}.seccompProfile")
    if "appArmorProfile" in context:
        _app_armor(context["appArmorProfile"], causes, f"{path}.appArmorProfile")


def _seccomp(profile: Tree, causes: Causes, path: str) -> None:
    kind = profile.get("type", "")
    if not kind:
        causes.append(required(f"{path}.type", "type is required when seccompProfile is set"))
    elif kind not in _PROFILE_TYPES:
        causes.append(unsupported(f"{path}.type", kind, _PROFILE_TYPES))
    local = profile.get("localhostProfile")
    if kind == "Localhost":
        if local is None:
            causes.append(required(f"{path}.localhostProfile", "must be set when seccomp type is Localhost"))
        else:
            descending(local, causes, f"{path}.localhostProfile")
    elif local is not None:
        shown = {"Type": kind, "LocalhostProfile": local}
        fault = "can only be set when seccomp type is Localhost"
        causes.append(invalid(f"{path}.localhostProfile", shown, fault))


def _app_armor(profile: Tree, causes: Causes, path: str) -> None:
    kind, local = profile.get("type", ""), profile.get("localhostProfile")
    if kind == "Localhost":
        if local is not None and local != local.strip():
            fault = "must not be padded with whitespace"
            causes.append(invalid(f"{path}.localhostProfile", local, fault))
        elif not local:
            causes.append(required(f"{path}.localhostProfile", "must be set when AppArmor type is Localhost"))
        if local is not None and len(local) > 4095:
            causes.append(too_long(f"{path}.localhostProfile", 4095))
    elif kind in _PROFILE_TYPES:
        if local is not None:
            fault = "can only be set when AppArmor type is Localhost"
            causes.append(invalid(f"{path}.localhostProfile", local, fault))
    elif not kind:
        causes.append(required(f"{path}.type", "type is required when appArmorProfile is set"))
    else:
        causes.append(unsupported(f"{path}.type", kind, _PROFILE_TYPES))
