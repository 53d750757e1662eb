"""Decoding of JSON into typed objects, and encoding; errors name the path.

Decoding has a fast path and a slow path. The fast path is msgspec alone. If it fails, the bytes are decoded into plain
values, nulls are dropped (in Kubernetes a null is an absent field), and the values are converted. If that fails too,
the values are compared with the type piece by piece, to name the wrong element of a list.

**Limits.** An object may be anyone's, and large: `decode_object` refuses text of too many values before it is decoded
(see `complexity`), and takes the slow path only for text of few.

Text that is nested too deep to be decoded loses its deepest levels first, which no type declares (see `complexity`).

**Threads.** msgspec analyses a type when it is first decoded, and stores the result on the type before it is complete:
a second thread that decodes the type meanwhile crashes the process (msgspec 0.22). So types are decoded by this module
alone, where one thread at a time analyses a type.
"""

from __future__ import annotations

import contextlib
import functools
import re
import threading
from collections.abc import Hashable, Iterable, Iterator
from typing import Annotated, Any, TypeVar, cast, get_args, get_origin

import msgspec
from msgspec import inspect

from trimtab.api import complexity
from trimtab.api.documents import Document, kept
from trimtab.api.errors import InvalidError
from trimtab.api.model import Model
from trimtab.api.pods import PodList
from trimtab.api.pooling import share

T = TypeVar("T")

_LIMITS = ("gt", "ge", "lt", "le", "multiple_of", "pattern", "min_length", "max_length")

_NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError)

_TOO_MANY = re.compile(r"Expected `(?:array|object)` of length <= (\d+)")
_SEARCHED = 1000
"""How many parts of an object are tried to find the wrong one."""
_SEARCHED_VALUES = 10_000
"""Values of an object up to which nulls are dropped and the wrong part is found: about 25 milliseconds."""
_ANALYSING = threading.Lock()


def decode(data: bytes | str, kind: type[T]) -> T:
    """Decode JSON into a type. Raises InvalidError with the path of the wrong value."""
    try:
        return _decode(data, kind)
    except RecursionError:
        if not is_partial(kind):
            raise InvalidError("", complexity.TOO_DEEP) from None
    return _decode(complexity.cut(data.encode() if isinstance(data, str) else data), kind)


def decode_object(data: bytes, kind: type[T]) -> T:
    """Decode an object that anyone may have written, as `decode` does, in limited time."""
    if has_free_form(cast("Hashable", kind)) and complexity.has_more_values(data):
        raise InvalidError("", complexity.TOO_MANY_VALUES)
    try:
        return decode_exactly(data, kind)
    except msgspec.ValidationError as error:
        _raise_if_exact(error)
        if complexity.has_more_values(data, _SEARCHED_VALUES):
            text, place = _parts(error)
            raise InvalidError(place, text.replace("Expected `", "expected `")) from error
    except (RecursionError, *_NOT_JSON):
        pass
    return decode(data, kind)


def decode_exactly(data: bytes | msgspec.Raw, kind: type[T]) -> T:
    """Decode JSON that fits the type as it is: the fast path alone. Raises an error without a path otherwise."""
    value: T = _decoder(cast("Hashable", kind)).decode(data)
    return value


def decode_lines_exactly(data: bytes, kind: type[T]) -> list[T]:
    """Decode lines of JSON as `decode_exactly` does each."""
    values: list[T] = _decoder(cast("Hashable", kind)).decode_lines(data)
    return values


def _decode(data: bytes | str, kind: type[T]) -> T:
    try:
        value: T = _decoder(cast("Hashable", kind)).decode(data)
    except msgspec.ValidationError as error:
        _raise_if_exact(error)
        return convert(_plain(data), kind)
    except _NOT_JSON as error:
        raise InvalidError("", f"is not JSON: {error}") from error
    return value


def _raise_if_exact(error: msgspec.ValidationError) -> None:
    """Raise the error if it is about too many entries: no null causes that, and counting them again takes long."""
    text, path = _parts(error)
    limit = _TOO_MANY.fullmatch(text)
    if limit is not None and "[...]" not in path:
        raise InvalidError(path, f"has too many entries; write at most {limit[1]}") from error


def _parts(error: msgspec.ValidationError) -> tuple[str, str]:
    """What msgspec found wrong, and the path; in that, `[...]` is any element of a list."""
    text, _, place = str(error).partition(" - at `$")
    return text, place.rstrip("`").removeprefix(".")


@functools.lru_cache(maxsize=256)
def has_free_form(kind: Any) -> bool:
    """Whether objects of a type have parts of any shape: documents, or plain JSON."""
    seen: set[type] = set()

    def is_found(info: inspect.Type) -> bool:
        info = _unwrapped(info)
        if isinstance(info, inspect.StructType):
            if info.cls in seen:
                return False
            seen.add(info.cls)
            return any(is_found(field.type) for field in info.fields)
        if isinstance(info, inspect.UnionType):
            return any(map(is_found, info.types))
        if isinstance(info, inspect.DictType):
            return is_found(info.value_type)
        if isinstance(info, (inspect.ListType, inspect.VarTupleType)):
            return is_found(info.item_type)
        return isinstance(info, (inspect.AnyType, inspect.CustomType))

    return is_found(_type_info(kind))


def is_partial(kind: Any) -> bool:
    """Whether a type declares every field that it keeps, so that nothing of the text is kept whole."""
    origin = get_origin(kind) or kind
    return isinstance(origin, type) and issubclass(origin, Model) and all(map(is_partial, get_args(kind)))


def convert(tree: Any, kind: type[T]) -> T:
    """The typed view of plain values, as `decode` returns it."""
    _decoder(cast("Hashable", kind))  # which analyses the type
    try:
        return msgspec.convert(tree, kind, dec_hook=_read_hook)
    except msgspec.ValidationError:
        tree = _without_nulls(tree, _type_info(cast("Hashable", kind)))
    try:
        return msgspec.convert(tree, kind, dec_hook=_read_hook)
    except msgspec.ValidationError as error:
        raise _located(tree, kind, error) from error


@kept
def view(document: Document, kind: type[T]) -> T:
    """The typed view of a document, kept: templates are read many times."""
    return decode_object(document.text, kind)


def decode_pods(data: bytes | str) -> PodList:
    """Decode a list of pods; equal parts share memory."""
    page = decode(data, PodList)
    share(page.items)
    return page


def encode(value: Any) -> bytes:
    """Encode a value as JSON. Types of Kubernetes objects are partial: encode only types with every field."""
    return msgspec.json.encode(value, enc_hook=_write_hook)


def to_tree(value: Any) -> Any:
    """The plain values that `encode` writes."""
    return msgspec.json.decode(encode(value))


@functools.lru_cache(maxsize=256)
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    with _ANALYSING:
        return msgspec.json.Decoder(kind, dec_hook=_read_hook)


@functools.lru_cache(maxsize=256)
def _type_info(kind: Any) -> inspect.Type:
    """A type as msgspec sees it, cached: inspecting a large one takes milliseconds."""
    return inspect.type_info(kind)


def _read_hook(kind: type[Any], value: Any) -> Any:
    if kind is Document:
        if not isinstance(value, dict):
            raise ValueError(f"Expected `object`, got `{_kind_of(value)}`")
        return Document(value)
    raise NotImplementedError(kind)


def _write_hook(value: Any) -> Any:
    if isinstance(value, Document):
        return msgspec.Raw(value.text)
    raise NotImplementedError(f"{type(value).__name__} has no JSON form")


def _plain(data: bytes | str) -> Any:
    try:
        return msgspec.json.decode(data)
    except _NOT_JSON as error:
        raise InvalidError("", f"is not JSON: {error}") from error


def _without_nulls(tree: Any, info: inspect.Type) -> Any:
    """The tree without nulls in fields of the type, which mean absent fields.

    Nulls in raw documents are kept: there they are content, and in a patch they delete.
    """
    info = _select_type(info, tree)
    if isinstance(info, inspect.StructType) and isinstance(tree, dict):
        kinds = {field.encode_name: field.type for field in info.fields}
        return {k: _without_nulls(v, kinds[k]) if k in kinds else v for k, v in tree.items() if v is not None}
    if isinstance(info, inspect.DictType) and isinstance(tree, dict):
        return {k: _without_nulls(v, info.value_type) for k, v in tree.items() if v is not None}
    if isinstance(info, (inspect.ListType, inspect.VarTupleType)) and isinstance(tree, list):
        return [_without_nulls(value, info.item_type) for value in tree]
    return tree


def _located(tree: Any, kind: Any, error: msgspec.ValidationError) -> InvalidError:
    """The error with its exact path: msgspec writes `[...]` for any element of a list."""
    with contextlib.suppress(_SearchEnded):
        found = _search(tree, _type_info(kind), "", iter(range(_SEARCHED)))
        if found is not None:
            return found
    return InvalidError("", str(error).replace("Expected `", "expected `"))


class _SearchEnded(Exception):  # noqa: N818 - not an error: the search has a limit
    """The wrong part was not found within the limit."""


def _search(tree: Any, info: inspect.Type, path: str, left: Iterator[int]) -> InvalidError | None:
    """The error of the deepest part that does not convert, in the order of the type's fields.

    Only so many parts are tried: whoever wrote the object chose how many there are.
    """
    if next(left, None) is None:
        raise _SearchEnded
    info = _select_type(info, tree)
    most = getattr(info, "max_length", None)
    if most is not None and isinstance(tree, (dict, list)) and len(tree) > most:
        return InvalidError(path, f"has too many entries; write at most {most}")
    for piece, piece_info, piece_path in _pieces(tree, info, path):
        found = _search(piece, piece_info, piece_path, left)
        if found is not None:
            return found
    try:
        msgspec.convert(tree, _python_type(info), dec_hook=_read_hook)
    except msgspec.ValidationError as error:
        return InvalidError(path, _reason(error, tree))
    return None


def _pieces(tree: Any, info: inspect.Type, path: str) -> Iterable[tuple[Any, inspect.Type, str]]:
    if isinstance(info, inspect.StructType) and isinstance(tree, dict):
        for field in info.fields:
            if field.encode_name in tree:
                yield (
                    tree[field.encode_name],
                    field.type,
                    f"{path}.{field.encode_name}" if path else field.encode_name,
                )
    elif isinstance(info, (inspect.ListType, inspect.VarTupleType)) and isinstance(tree, list):
        for index, item in enumerate(tree):
            yield item, info.item_type, f"{path}[{index}]"
    elif isinstance(info, inspect.DictType) and isinstance(tree, dict):
        for key, value in tree.items():
            yield value, info.value_type, f"{path}[{key}]"


def _unwrapped(info: inspect.Type) -> inspect.Type:
    while isinstance(info, inspect.Metadata):
        info = info.type
    return info


def _select_type(info: inspect.Type, tree: Any) -> inspect.Type:
    """The type itself, or the member of a union that fits the JSON type of the value."""
    info = _unwrapped(info)
    if isinstance(info, inspect.UnionType):
        fitting = [member for member in map(_unwrapped, info.types) if _fits(member, tree)]
        return fitting[0] if len(fitting) == 1 else info
    return info


def _fits(info: inspect.Type, tree: Any) -> bool:
    """Whether a member of a union fits the JSON type of the value."""
    if isinstance(tree, dict):
        return isinstance(info, (inspect.StructType, inspect.DictType))
    if isinstance(tree, list):
        return isinstance(info, (inspect.ListType, inspect.VarTupleType))
    return False


def _python_type(info: inspect.Type) -> Any:
    """The annotation of an inspected type, for those that our models use."""
    if isinstance(info, inspect.Metadata):
        return _python_type(info.type)
    if isinstance(info, (inspect.StructType, inspect.CustomType)):
        return info.cls
    if isinstance(info, (inspect.ListType, inspect.VarTupleType)):
        return _bounded(list[_python_type(info.item_type)], info)  # type: ignore[misc]
    if isinstance(info, inspect.DictType):
        return dict[_python_type(info.key_type), _python_type(info.value_type)]  # type: ignore[misc]
    if isinstance(info, inspect.UnionType):
        return functools.reduce(lambda a, b: a | b, (_python_type(member) for member in info.types))
    return _scalar_type(info)


def _scalar_type(info: inspect.Type) -> Any:
    from datetime import datetime
    from typing import Literal

    scalars: dict[type[inspect.Type], Any] = {
        inspect.AnyType: Any,
        inspect.NoneType: None,
        inspect.BoolType: bool,
        inspect.IntType: int,
        inspect.FloatType: float,
        inspect.StrType: str,
        inspect.BytesType: bytes,
        inspect.DateTimeType: datetime,
    }
    if isinstance(info, inspect.LiteralType):
        return Literal[tuple(info.values)]
    return _bounded(scalars[type(info)], info)


def _bounded(kind: Any, info: inspect.Type) -> Any:
    """The annotation with its limits, so that a number out of range is found too."""
    limits = {name: getattr(info, name) for name in _LIMITS if getattr(info, name, None) is not None}
    return Annotated[kind, msgspec.Meta(**limits)] if limits else kind


def _reason(error: msgspec.ValidationError, tree: Any) -> str:
    """msgspec's message without its path, with the value if it is a scalar."""
    text = str(error).partition(" - at `")[0]
    text = text.replace("Expected `", "expected `").replace("Object missing required field", "is missing the field")
    if isinstance(tree, (str, int, float)) and not isinstance(tree, bool):
        return f"{msgspec.json.encode(tree).decode()}: {text}"
    return text


def _kind_of(value: Any) -> str:
    names = {
        dict: "object",
        list: "array",
        str: "str",
        bool: "bool",
        int: "int",
        float: "float",
        type(None): "null",
    }
    return names.get(type(value), type(value).__name__)
