"""The settings of a strategy: a policy's `args`, read into a type.

A strategy declares its settings as a `Model`. The description of each field completes the sentence "write …", so that
an error says what to write instead; the documentation shows the same words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from msgspec import inspect

from trimtab.api import codec
from trimtab.api.errors import InvalidError
from trimtab.api.model import Model
from trimtab.api.selectors import is_key

S = TypeVar("S", bound=Model)


class NoSettings(Model):
    """For strategies that have nothing to set."""


def read_settings(kind: type[S], args: Mapping[str, Any], strategy: str) -> S:
    """The settings that `args` mean. Raises InvalidError with a path such as `args.topologyKey`."""
    if not isinstance(args, Mapping):
        raise InvalidError("args", "must be settings by name, such as {topologyKey: topology.kubernetes.io/zone}")
    known = descriptions(kind)
    for name in args:
        if name not in known:
            raise InvalidError(f"args.{name}", _unknown(strategy, known))
    try:
        return codec.convert(dict(args), kind)
    except InvalidError as error:
        wanted = next((text for name, text in known.items() if _is_about(error.path, name)), "")
        reason = f"{error.reason}; write {wanted}" if wanted else error.reason
        raise InvalidError(error.path, reason).under("args") from None


def descriptions(kind: type[Model]) -> dict[str, str]:
    """What to write for each setting, by its name in a policy."""
    info = inspect.type_info(kind)
    fields = info.fields if isinstance(info, inspect.StructType) else ()
    return {field.encode_name: _description(field.type) for field in fields}


def check_key(name: str, key: str, example: str) -> None:
    """Refuse what cannot be the key of a label or annotation."""
    if not is_key(key):
        raise InvalidError(f"args.{name}", f'"{key}" is not a key; write one such as {example}')


def _is_about(path: str, name: str) -> bool:
    return path == name or path.startswith((f"{name}.", f"{name}["))


def _description(info: inspect.Type) -> str:
    schema = info.extra_json_schema if isinstance(info, inspect.Metadata) else None
    return str((schema or {}).get("description", ""))


def _unknown(strategy: str, known: Mapping[str, str]) -> str:
    if not known:
        return f"is not a setting of {strategy}, which has none"
    return f"is not a setting of {strategy}; write one of {', '.join(known)}"
