"""The causes for which a value is invalid by a schema, with the messages of Kubernetes' validator.

Whether a value is valid, the compiled validator decides much faster (`validator`). Only an invalid value is walked
again here, to find the causes. Both read the schema in the same way, which a test checks.

The walk has the order of the original: type, combinations (`anyOf`, `oneOf`, `allOf`, `not`), text, format, numbers,
lists, `enum`, objects. Of the alternatives of a combination the one with the most applicable checks is reported
(`Result.matches`).

Of an update only the changed values are checked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from trimtab_lab.apiserver.kinds.schemas import formats, patterns
from trimtab_lab.apiserver.kinds.schemas.validator import types, whole_range
from trimtab_lab.apiserver.kinds.validation.causes import (
    Cause,
    invalid,
    printed,
    required,
    too_long,
    too_many,
    unsupported,
    wrong_type,
)
from trimtab_lab.apiserver.storage.store import Tree

MISSING: Any = object()
"""Stands for the old value where there is none."""


class Result:
    """The causes of a value, and how many checks applied to it."""

    __slots__ = ("causes", "matches")

    def __init__(self, causes: Sequence[Cause] = (), matches: int = 0) -> None:
        self.causes = list(causes)
        self.matches = matches

    def add(self, other: Result) -> None:
        self.causes += other.causes
        self.matches += other.matches


def faults(value: Any, schema: Tree, path: str = "", old: Any = MISSING) -> list[Cause]:
    """The causes for which a value is invalid; `old` is its old value, if there is one."""
    return _check(value, schema, path, old).causes


def _check(value: Any, schema: Tree, path: str, old: Any) -> Result:
    result = Result()
    if value is None:
        result.add(_check_type(value, schema, path))
        result.add(_check_enum(value, schema, path))
        return result
    for applies, check in _CHECKS:
        if applies(value, schema):
            result.add(check(value, schema, path, old))
            result.matches += 1
    result.matches += 1
    return result


def _type_of(value: Any) -> tuple[str, str]:
    """The type of a JSON value, and the default format of a number."""
    match value:
        case bool():
            return "boolean", ""
        case str():
            return "string", ""
        case int():
            return "integer", "int64"
        case float():
            return "number", "float64"
        case list():
            return "array", ""
        case dict():
            return "object", ""
        case _:
            return "null", ""


def _check_type(value: Any, schema: Tree, path: str, _old: Any = MISSING) -> Result:
    wanted, format_ = types(schema), formats.supported(schema.get("format", ""), schema.get("type", ""))
    if value is None:
        good = not wanted or bool(schema.get("nullable"))
        return Result([] if good else [_wrong_type(path, ",".join(wanted), "null")], matches=1)
    type_, natural = _type_of(value)
    fits = type_ in wanted or (type_ == "integer" and "number" in wanted)
    fits = fits or (type_ == "number" and "integer" in wanted and float(value).is_integer())
    if format_ and type_ not in ("string", "array") and not fits and natural != format_:
        return Result([_wrong_type(path, format_, natural)])
    if format_ and type_ in ("string", "array") and not {"number", "integer"} & set(wanted):
        return Result(matches=1)
    return Result(matches=1) if fits or not wanted else Result([_wrong_type(path, ",".join(wanted), type_)])


def _wrong_type(path: str, wanted: str, given: str) -> Cause:
    return wrong_type(_field(path), given, f'{path} in body must be of type {wanted}: "{given}"')


def _field(path: str) -> str:
    return path.removeprefix(".") or "<nil>"


def _bad(path: str, value: Any, rule: str) -> Cause:
    return invalid(_field(path), value, f"{path} in body {rule}")


def _check_combinations(value: Any, schema: Tree, path: str, _old: Any) -> Result:
    result = Result(matches=1)
    if schema.get("anyOf"):
        result.add(_any_of(value, schema["anyOf"], path))
    if schema.get("oneOf"):
        result.add(_one_of(value, schema["oneOf"], path))
    if schema.get("allOf"):
        result.add(_all_of(value, schema["allOf"], path))
    if "not" in schema and not _check(value, schema["not"], path, MISSING).causes:
        result.causes.append(_combination(path, "must not validate the schema (not)"))
    return result


def _combination(path: str, rule: str) -> Cause:
    return invalid("<nil>", "", f'"{path}" {rule}')


def _best(results: Sequence[Result]) -> Result:
    """The alternative with the most matches; of several, the first."""
    return max(results, key=lambda result: result.matches)


def _any_of(value: Any, alternatives: Sequence[Tree], path: str) -> Result:
    failed: list[Result] = []
    for alternative in alternatives:
        result = _check(value, alternative, path, MISSING)
        if not result.causes:
            return result
        failed.append(result)
    reported = Result([_combination(path, "must validate at least one schema (anyOf)")])
    reported.add(_best(failed))
    return reported


def _one_of(value: Any, alternatives: Sequence[Tree], path: str) -> Result:
    results = [_check(value, alternative, path, MISSING) for alternative in alternatives]
    good = [result for result in results if not result.causes]
    if len(good) == 1:
        return good[0]
    rule = "must validate one and only one schema (oneOf)"
    found = f"Found {len(good)} valid alternatives" if good else "Found none valid"
    reported = Result([_combination(path, f"{rule}. {found}")])
    if not good:
        reported.add(_best(results))
    return reported


def _all_of(value: Any, parts: Sequence[Tree], path: str) -> Result:
    reported = Result()
    good = 0
    for part in parts:
        result = _check(value, part, path, MISSING)
        good += not result.causes
        reported.add(result)
    if good != len(parts):
        none = "" if good else ". None validated"
        reported.causes.append(_combination(path, f"must validate all the schemas (allOf){none}"))
    return reported


def _check_text(value: Any, schema: Tree, path: str, _old: Any) -> Result:
    """Only the first cause is reported."""
    if "maxLength" in schema and len(value) > schema["maxLength"]:
        return Result([too_long(_field(path), schema["maxLength"])])
    if "minLength" in schema and len(value) < schema["minLength"]:
        return Result([_bad(path, value, f"should be at least {schema['minLength']} chars long")])
    if schema.get("pattern") and not patterns.matcher(schema["pattern"])(value):
        return Result([_bad(path, value, f"should match '{schema['pattern']}'")])
    return Result()


def _check_format(value: Any, schema: Tree, path: str, _old: Any) -> Result:
    check = formats.checker(schema["format"], schema.get("type", ""))
    if check is None or check(value):
        return Result()
    rule = f'{path} in body must be of type {schema["format"]}: "{value}"'
    return Result([wrong_type(_field(path), value, rule)])


def _check_number(value: Any, schema: Tree, path: str, _old: Any) -> Result:
    result = Result(matches=1)
    whole = whole_range(schema)
    if whole is not None and int(value) not in whole:
        form = f"with format {schema['format']}" if schema.get("format") in ("int32", "int64") else "(default format)"
        rule = f"Checked value must be of type integer {form} in {path}"
        result.causes.append(invalid("<nil>", "", rule))
    if schema.get("multipleOf") and not _divides(value, schema["multipleOf"]):
        result.causes.append(_bad(path, value, f"should be a multiple of {_number(schema['multipleOf'])}"))
    if "minimum" in schema:
        rule = "greater than" if schema.get("exclusiveMinimum") else "greater than or equal to"
        if value < schema["minimum"] or (schema.get("exclusiveMinimum") and value == schema["minimum"]):
            result.causes.append(_bad(path, value, f"should be {rule} {_number(schema['minimum'])}"))
    if "maximum" in schema:
        rule = "less than" if schema.get("exclusiveMaximum") else "less than or equal to"
        if value > schema["maximum"] or (schema.get("exclusiveMaximum") and value == schema["maximum"]):
            result.causes.append(_bad(path, value, f"should be {rule} {_number(schema['maximum'])}"))
    return result


def _divides(value: float, factor: float) -> bool:
    return math.isclose(math.remainder(value, factor), 0, abs_tol=1e-9)


def _number(number: float) -> str:
    """A number as Go prints it: integers without a fraction."""
    return str(int(number)) if float(number).is_integer() and abs(number) < 1e21 else str(number)


def _check_enum(value: Any, schema: Tree, path: str, _old: Any = MISSING) -> Result:
    supported = schema.get("enum")
    if not supported or any(_same(value, item) for item in supported):
        return Result()
    shown = [item if isinstance(item, str) else printed(item) for item in supported]
    return Result([unsupported(_field(path), value, shown)])


def _same(left: Any, right: Any) -> bool:
    return type(left) is type(right) and bool(left == right)


def _check_list(value: Any, schema: Tree, path: str, old: Any) -> Result:
    result = Result(matches=1)
    items = schema.get("items")
    if isinstance(items, dict):
        for index, item in enumerate(value):
            before = _before(item, schema, old)
            if before is MISSING or before != item:
                result.add(_check(item, items, f"{path}[{index}]", before))
    count = len(value)
    if count < schema.get("minItems", 0):
        result.causes.append(_bad(path, count, f"should have at least {schema['minItems']} items"))
    if count > schema.get("maxItems", count):
        result.causes.append(too_many(_field(path), count, schema["maxItems"]))
    return result


def _before(item: Any, schema: Tree, old: Any) -> Any:
    """The element of the old list with the same keys; only lists with keys have one."""
    keys = schema.get("x-kubernetes-list-map-keys")
    if not keys or not isinstance(old, list) or not isinstance(item, dict):
        return MISSING
    for other in old:
        if isinstance(other, dict) and all(other.get(key) == item.get(key) for key in keys):
            return other
    return MISSING


def _check_object(value: Any, schema: Tree, path: str, old: Any) -> Result:
    result = Result([*_sizes(value, schema, path)])
    before = old if isinstance(old, dict) else {}
    properties, additional = schema.get("properties") or {}, schema.get("additionalProperties")
    for name, item in value.items():
        known = properties.get(name, additional)
        if known is False:
            result.causes.append(invalid(_field(path), name, f"{path}.{name} in body is a forbidden property"))
        elif isinstance(known, dict) and (name not in before or before[name] != item):
            result.add(_check(item, known, f"{path}.{name}" if path else name, before.get(name, MISSING)))
    for name in schema.get("required") or ():
        if name not in value:
            result.causes.append(required(_field(f"{path}.{name}")))
    return result


def _sizes(value: Tree, schema: Tree, path: str) -> Iterator[Cause]:
    count = len(value)
    if count < schema.get("minProperties", 0):
        yield _bad(path, count, f"should have at least {schema['minProperties']} properties")
    if count > schema.get("maxProperties", count):
        yield too_many(_field(path), count, schema["maxProperties"])


Applies = Callable[[Any, Tree], bool]
Check = Callable[[Any, Tree, str, Any], Result]


def _is_number(value: Any, _schema: Tree) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


_CHECKS: Sequence[tuple[Applies, Check]] = (
    (lambda _, schema: bool(types(schema) or schema.get("format")), _check_type),
    (lambda _, __: True, _check_combinations),
    (lambda value, _: isinstance(value, str), _check_text),
    (lambda value, schema: isinstance(value, str) and bool(schema.get("format")), _check_format),
    (_is_number, _check_number),
    (lambda value, _: isinstance(value, list), _check_list),
    (lambda _, schema: bool(schema.get("enum")), _check_enum),
    (lambda value, _: isinstance(value, dict), _check_object),
)
