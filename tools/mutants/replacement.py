"""Puts a mutant into this process: the code of one function is replaced.

Looking through all objects of a process takes longer than most tests do. It is done once, before processes are forked.
"""

from __future__ import annotations

import functools
import gc
import importlib
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import CodeType, FunctionType

from tools.mutants.operators import Mutant


class CannotApplyError(Exception):
    """The mutant has no function that can be replaced; it is not counted."""


def prepare(paths: Iterable[str]) -> None:
    """Import these files and find all functions, so that forked processes need not."""
    for path in paths:
        name = path.removeprefix("src/").removesuffix(".py").removesuffix("/__init__")
        importlib.import_module(name.replace("/", "."))
    clear_caches()
    gc.collect()
    _functions(len(sys.modules))  # which freezes them: a collection in a forked process then copies no memory


def clear_caches() -> None:
    """Forget what functions of the product have cached: their code runs again."""
    for each in _caches(len(sys.modules)):
        each.cache_clear()


def apply(mutant: Mutant) -> None:
    """Replace the function that a mutant changes, wherever this process has it."""
    module = compile(mutant.tree(), mutant.path, "exec", dont_inherit=True)
    codes = {each.co_firstlineno: each for each in _codes(module) if each.co_qualname == mutant.function}
    functions = [
        each
        for each in _functions(len(sys.modules)).get(mutant.function, ())
        if each.__code__.co_filename.endswith("/" + mutant.path)
    ]
    if not codes or not functions:
        raise CannotApplyError(mutant.function)
    for each in functions:
        changed = codes.get(each.__code__.co_firstlineno, next(iter(codes.values())))
        if changed.co_freevars != each.__code__.co_freevars:
            raise CannotApplyError(mutant.function)
        each.__code__ = changed.replace(co_filename=each.__code__.co_filename)


@functools.lru_cache(maxsize=1)
def _functions(_modules: int) -> Mapping[str, Sequence[FunctionType]]:
    """The functions of the product by qualified name; searched again when more modules are imported."""
    found: defaultdict[str, list[FunctionType]] = defaultdict(list)
    for each in _objects():
        if isinstance(each, FunctionType) and (each.__module__ or "").startswith("trimtab."):
            found[each.__code__.co_qualname].append(each)
    return found


@functools.lru_cache(maxsize=1)
def _caches(_modules: int) -> Sequence[functools._lru_cache_wrapper[object]]:
    """The cached functions of the product; searched again when more modules are imported."""
    caches = (each for each in _objects() if isinstance(each, functools._lru_cache_wrapper))  # noqa: SLF001
    return [each for each in caches if (each.__module__ or "").startswith("trimtab.")]


def _objects() -> list[object]:
    """The objects of this process: `gc.get_objects` leaves out those that are frozen."""
    gc.unfreeze()
    found: list[object] = gc.get_objects()
    gc.freeze()
    return found


def _codes(code: CodeType) -> Iterator[CodeType]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from _codes(each)
