"""Puts a mutant into this process: the code of one function is replaced."""

from __future__ import annotations

import functools
import gc
from collections.abc import Iterator
from types import CodeType, FunctionType

from tools.mutants.operators import Mutant


class CannotApplyError(Exception):
    """The mutant has no function that can be replaced; it is not counted."""


def clear_caches() -> None:
    """Forget what functions of the product have cached: their code runs again."""
    for each in gc.get_objects():
        if isinstance(each, functools._lru_cache_wrapper) and (each.__module__ or "").startswith("trimtab."):  # noqa: SLF001
            each.cache_clear()


def apply(mutant: Mutant) -> None:
    """Replace the function that a mutant changes, wherever this process has it."""
    module = compile(mutant.tree(), mutant.path, "exec", dont_inherit=True)
    code = next((each for each in _codes(module) if each.co_qualname == mutant.function), None)
    if code is None:
        raise CannotApplyError(mutant.function)
    functions = [
        each
        for each in gc.get_objects()
        if isinstance(each, FunctionType)
        and each.__code__.co_qualname == mutant.function
        and each.__code__.co_filename.endswith("/" + mutant.path)
    ]
    codes = {each.co_firstlineno: each for each in _codes(module) if each.co_qualname == mutant.function}
    if not functions:
        raise CannotApplyError(mutant.function)
    for each in functions:
        changed = codes.get(each.__code__.co_firstlineno, code)
        if changed.co_freevars != each.__code__.co_freevars:
            raise CannotApplyError(mutant.function)
        each.__code__ = changed.replace(co_filename=each.__code__.co_filename)


def _codes(code: CodeType) -> Iterator[CodeType]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from _codes(each)
