"""Which changes are made to a module: a table of rules on its syntax tree.

Left out is what no user depends on: texts, log calls, annotations, assertions, and checks that hold for any input
(`strict=True` of `zip`). So are the values of variables of modules and classes: how long a limit is, is a decision and
not behaviour, and a test that repeats it says nothing.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Add,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
NAMES = {
    "min": "max",
    "max": "min",
    "any": "all",
    "all": "any",
    "minimum": "maximum",
    "maximum": "minimum",
    "argmin": "argmax",
    "argmax": "argmin",
}
LOGGERS = ("log", "logger", "_log")


class Identity(NamedTuple):
    """What tells one mutant from another, whatever line it is on."""

    path: str
    function: str
    before: str
    after: str


@dataclass(frozen=True)
class Mutant:
    """One change of one module: where it is, and the statement before and after it."""

    path: str
    function: str
    """The outermost function that has it, as `Class.method`."""
    line: int
    lines: range
    """The lines of the statement, without the statements in it."""
    before: str
    after: str
    tree: Callable[[], ast.Module]
    """Makes the changed module."""

    @property
    def identity(self) -> Identity:
        """What stays the same when lines move."""
        return Identity(self.path, self.function, self.before, self.after)

    def __str__(self) -> str:
        """As a report shows it."""
        return f"{self.path}:{self.line} {self.function}\n    - {self.before}\n    + {self.after}"


def mutants(path: str, root: Path) -> list[Mutant]:
    """All mutants of one file, in the order of its lines."""
    module = ast.parse((root / path).read_text(encoding="utf-8"))
    found = [
        _mutant(path, module, site, number)
        for site in _sites(module)
        for number, _ in enumerate(_changes(site.node, site.parent))
    ]
    seen: dict[tuple[int, str, str], Mutant] = {}
    for each in found:
        if each.before != each.after:
            seen.setdefault((each.line, each.before, each.after), each)
    return sorted(seen.values(), key=lambda each: each.line)


@dataclass(frozen=True)
class _Site:
    """A node that may be changed: the numbers of its children lead to it."""

    node: ast.AST
    parent: ast.AST
    way: tuple[tuple[str, int | None], ...]
    statement: tuple[tuple[str, int | None], ...]
    function: str


def _sites(module: ast.Module) -> Iterator[_Site]:
    yield from _walk(module, module, (), (), "", inside=False)


def _walk(
    node: ast.AST,
    parent: ast.AST,
    way: tuple[tuple[str, int | None], ...],
    statement: tuple[tuple[str, int | None], ...],
    function: str,
    *,
    inside: bool,
) -> Iterator[_Site]:
    if _is_left_out(node, parent, inside):
        return
    if isinstance(node, ast.stmt):
        statement = way
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and not inside:
        function = f"{function}.{node.name}" if function else node.name
        inside = not isinstance(node, ast.ClassDef)
    elif way:
        yield _Site(node, parent, way, statement, function)
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "bases", "type_params"):
            continue
        if isinstance(value, ast.arguments):  # defaults are not part of a function's code
            continue
        for index, child in enumerate(value) if isinstance(value, list) else ((None, value),):
            if isinstance(child, ast.AST):
                yield from _walk(child, node, (*way, (name, index)), statement, function, inside=inside)


def _is_left_out(node: ast.AST, parent: ast.AST, inside: bool) -> bool:
    """Whether no part of this can be changed usefully."""
    match node:
        case ast.JoinedStr() | ast.Assert() | ast.Import() | ast.ImportFrom() | ast.Pass() | ast.Global():
            return True
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name))) if name in LOGGERS:
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.If(orelse=[]) if all(map(_is_log_call, node.body)):
            return True
        case ast.FunctionDef(name="__repr__" | "__str__") | ast.keyword(arg="strict"):
            return True
        case ast.expr() if isinstance(parent, ast.Raise):
            return True
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return False
        case ast.stmt():
            return isinstance(parent, (ast.Module, ast.ClassDef)) and not inside
    return False


def _is_log_call(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name)))):
            return name in LOGGERS
    return False


def _mutant(path: str, module: ast.Module, site: _Site, number: int) -> Mutant:
    def tree() -> ast.Module:
        changed = copy.deepcopy(module)
        _replace(changed, site.way, list(_changes(_at(changed, site.way), _at(changed, site.way[:-1])))[number])
        return ast.fix_missing_locations(changed)

    statement = _at(module, site.statement)
    inner = site.way[len(site.statement) :]
    if inner:
        after = copy.deepcopy(statement)
        _replace(after, inner, list(_changes(_at(after, inner), _at(after, inner[:-1])))[number])
    else:
        after = list(_changes(statement, site.parent))[number]
    return Mutant(
        path=path,
        function=site.function,
        line=getattr(site.node, "lineno", getattr(statement, "lineno", 0)),
        lines=_lines(statement),
        before=_header(statement),
        after=_header(after),
        tree=tree,
    )


def _lines(statement: Any) -> range:
    body = getattr(statement, "body", None)
    end = body[0].lineno if isinstance(body, list) and body else statement.end_lineno + 1
    return range(statement.lineno, max(end, statement.lineno + 1))


def _header(node: ast.AST) -> str:
    """The text of a statement without the statements in it."""
    text = ast.unparse(node)
    if hasattr(node, "body") and isinstance(node.body, list):
        return text.splitlines()[0]
    return " ".join(text.split())


def _at(tree: ast.AST, way: tuple[tuple[str, int | None], ...]) -> ast.AST:
    for name, index in way:
        value = getattr(tree, name)
        tree = value if index is None else value[index]
    return tree


def _replace(tree: ast.AST, way: tuple[tuple[str, int | None], ...], node: ast.AST) -> None:
    parent, (name, index) = _at(tree, way[:-1]), way[-1]
    if index is None:
        setattr(parent, name, node)
    else:
        getattr(parent, name)[index] = node


def _changes(node: ast.AST, parent: ast.AST) -> Iterator[ast.AST]:
    """Every replacement of a node."""
    for rule in _RULES:
        yield from rule(node, parent)


def _comparisons(node: ast.AST, _: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        for other in COMPARISONS[type(node.ops[0])]:
            yield ast.Compare(left=node.left, ops=[other()], comparators=node.comparators)
    elif isinstance(node, ast.Compare):
        for number, each in enumerate(node.ops):
            ops = [*node.ops[:number], COMPARISONS[type(each)][0](), *node.ops[number + 1 :]]
            yield ast.Compare(left=node.left, ops=ops, comparators=node.comparators)


def _logic(node: ast.AST, _: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.BoolOp(op=ast.And()):
            yield ast.BoolOp(op=ast.Or(), values=node.values)
        case ast.BoolOp(op=ast.Or()):
            yield ast.BoolOp(op=ast.And(), values=node.values)
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert(), operand=operand):
            yield operand


def _conditions(node: ast.AST, parent: ast.AST) -> Iterator[ast.AST]:
    if not isinstance(node, ast.expr) or isinstance(node, (ast.Compare, ast.BoolOp, ast.Constant)):
        return
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return
    if isinstance(parent, (ast.If, ast.While, ast.IfExp)) and parent.test is node:
        yield ast.UnaryOp(op=ast.Not(), operand=node)


def _filters(node: ast.AST, _: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.comprehension):
        for number, _each in enumerate(node.ifs):
            kept = [*node.ifs[:number], *node.ifs[number + 1 :]]
            yield ast.comprehension(target=node.target, iter=node.iter, ifs=kept, is_async=node.is_async)


def _arithmetic(node: ast.AST, _: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        yield ast.BinOp(left=node.left, op=ARITHMETIC[type(node.op)](), right=node.right)
    if isinstance(node, ast.AugAssign) and type(node.op) in ARITHMETIC:
        yield ast.AugAssign(target=node.target, op=ARITHMETIC[type(node.op)](), value=node.value)


def _constants(node: ast.AST, _: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Constant(value=bool() as value):
            yield ast.Constant(value=not value)
        case ast.Constant(value=int() | float() as number):
            yield ast.Constant(value=number + 1)
            if number:
                yield ast.Constant(value=number - 1)


def _calls(node: ast.AST, _: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Call(func=ast.Name(id=name)) if name in NAMES:
            yield ast.Call(func=ast.Name(id=NAMES[name], ctx=ast.Load()), args=node.args, keywords=node.keywords)
        case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in NAMES:
            function = ast.Attribute(value=value, attr=NAMES[name], ctx=ast.Load())
            yield ast.Call(func=function, args=node.args, keywords=node.keywords)
        case ast.Call(func=ast.Name(id="sorted")):
            keywords = [each for each in node.keywords if each.arg != "reverse"]
            if len(keywords) == len(node.keywords):
                keywords.append(ast.keyword(arg="reverse", value=ast.Constant(value=True)))
            yield ast.Call(func=node.func, args=node.args, keywords=keywords)


def _returns(node: ast.AST, _: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Return(value=ast.Constant() | ast.Compare() | ast.BoolOp() | ast.UnaryOp() | None):
            return  # other rules change these
        case ast.Return():
            yield ast.Return(value=ast.Constant(value=None))


def _deletions(node: ast.AST, parent: ast.AST) -> Iterator[ast.AST]:
    if isinstance(parent, (ast.Module, ast.ClassDef)):
        return
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name)))) if name in LOGGERS:
            return
        case ast.Expr(value=ast.Yield() | ast.YieldFrom()):
            return
        case ast.Expr() | ast.AugAssign() | ast.Raise() | ast.Continue() | ast.Break() | ast.Delete():
            yield ast.Pass()
        case ast.Return(value=None):
            yield ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield ast.Pass()


_RULES = (
    _comparisons,
    _logic,
    _conditions,
    _filters,
    _arithmetic,
    _constants,
    _calls,
    _returns,
    _deletions,
)
