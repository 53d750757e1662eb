"""Puts a mutant into this process: the code of one function, or the value of one module's variable, is replaced."""

from __future__ import annotations

import ast
import gc
import sys
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType

from tools.mutants.operators import Mutant


class CannotApplyError(Exception):
    """The mutant has no function that can be replaced; it is not counted."""


def apply(mutant: Mutant) -> None:
    """Replace what a mutant changes, everywhere in this process."""
    tree = mutant.tree()
    if mutant.function:
        _replace_function(mutant, compile(tree, mutant.path, "exec", dont_inherit=True))
    else:
        _replace_variable(mutant, tree)


def _replace_function(mutant: Mutant, module: CodeType) -> None:
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


def _replace_variable(mutant: Mutant, tree: ast.Module) -> None:
    name = mutant.path.removeprefix("src/").removesuffix(".py").replace("/", ".").removesuffix(".__init__")
    module = sys.modules[name]
    for statement in tree.body:
        if statement.lineno not in mutant.lines or not isinstance(statement, (ast.Assign, ast.AnnAssign)):
            continue
        target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
        if not isinstance(target, ast.Name) or statement.value is None:
            break
        expression = ast.fix_missing_locations(ast.Expression(body=statement.value))
        value = eval(compile(expression, mutant.path, "eval"), vars(module))  # noqa: S307  # our own source
        _rebind(target.id, vars(module)[target.id], value)
        return
    raise CannotApplyError(mutant.before)


def _rebind(name: str, old: object, new: object) -> None:
    """Replace a variable in its module, and in each that imported it."""
    for module in list(sys.modules.values()):
        if isinstance(module, ModuleType) and vars(module).get(name) is old:
            setattr(module, name, new)
