"""Whether a loop of a kernel ends, as far as its source shows.

A loop ends for certain if it raises InternalError beyond a bound; if on every way through it a counter moves, by a
constant, towards a limit that stays where it is (or at least halves or doubles); or if it searches by halves.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from itertools import pairwise

UPWARDS = (ast.Lt, ast.LtE)
DOWNWARDS = (ast.Gt, ast.GtE, ast.NotEq)
LEAVES = (ast.Return, ast.Raise, ast.Break)


def endless_loops(tree: ast.AST) -> Iterator[tuple[str, ast.While]]:
    """Loops that may go on for ever, each with the name of its function."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and function.decorator_list:
            for loop in ast.walk(function):
                if isinstance(loop, ast.While) and not ends(loop, _behind(loop, function)):
                    yield function.name, loop


def ends(loop: ast.While, behind: ast.stmt | None = None) -> bool:
    """Whether it does, given the statement behind it."""
    return _is_guarded(loop, behind) or _halves(loop) or any(map(_is_limit_of(loop), _terms(loop)))


def _behind(loop: ast.While, function: ast.FunctionDef) -> ast.stmt | None:
    for node in ast.walk(function):
        for _, block in ast.iter_fields(node):
            if isinstance(block, list):
                for one, after in pairwise(block):
                    if one is loop:
                        return after
    return None


def _terms(loop: ast.While) -> list[ast.expr]:
    """What must all be true for it to go on: in its condition, or as it leaves from its body otherwise."""
    inside = [
        ast.Compare(one.test.left, [ast.Lt()], one.test.comparators)
        for one in loop.body
        if isinstance(one, ast.If)
        and isinstance(one.test, ast.Compare)
        and isinstance(one.test.ops[0], ast.Eq)
        and isinstance(one.body[-1], LEAVES)
    ]
    if isinstance(loop.test, ast.BoolOp) and isinstance(loop.test.op, ast.And):
        return [*loop.test.values, *inside]
    return [loop.test, *inside]


# --- guards ----------------------------------------------------------------------------------------------------------


def _is_guarded(loop: ast.While, behind: ast.stmt | None) -> bool:
    beside = [*_own(loop.body), *loop.orelse, *([behind] if behind else [])]
    return any(
        isinstance(one, ast.Raise) and "InternalError(" in ast.unparse(one) for one in beside
    )


def _own(statements: list[ast.stmt]) -> Iterator[ast.stmt]:
    """These and those in their branches; loops inside have bounds of their own."""
    for one in statements:
        yield one
        if isinstance(one, ast.If):
            yield from _own([*one.body, *one.orelse])


# --- counters --------------------------------------------------------------------------------------------------------


def _is_limit_of(loop: ast.While) -> Callable[[ast.expr], bool]:
    """Whether a term of its condition compares a counter, which always moves there, with a limit that stays."""

    def is_limit(term: ast.expr) -> bool:
        if not isinstance(term, ast.Compare) or len(term.ops) > 1:
            return False
        if isinstance(term.ops[0], UPWARDS):
            return _counts(loop, term.left, term.comparators[0], up=True)
        if isinstance(term.ops[0], DOWNWARDS):
            return _counts(loop, term.left, term.comparators[0], up=False)
        return False

    return is_limit


def _counts(loop: ast.While, counting: ast.expr, limit: ast.expr, up: bool) -> bool:
    stays = not _names(limit) & _changed(loop, lambda one, name: _steps(loop, one, name, not up))
    return stays and any(
        _always(loop.body, lambda one, name=name: _steps(loop, one, name, up))
        and name not in _changed(loop, lambda one, name: _steps(loop, one, name, up))
        for name in _names(counting)
    )


def _always(body: list[ast.stmt], is_step: Callable[[ast.stmt], bool]) -> bool:
    """Whether every way through the body leaves the loop or takes such a step."""
    return bool(_way(body, is_step))


def _way(body: list[ast.stmt], is_step: Callable[[ast.stmt], bool]) -> bool | None:
    """Whether all ways through do; or None if some end behind the body and have not yet."""
    for one in body:
        if is_step(one) or isinstance(one, LEAVES):
            return True
        if isinstance(one, ast.Continue):
            return False
        if isinstance(one, ast.If):
            both = {_way(one.body, is_step), _way(one.orelse, is_step)}
            if both == {True}:
                return True
            if False in both:
                return False
    return None


def _steps(loop: ast.While, one: ast.AST, name: str, up: bool) -> bool:
    """Whether a statement moves a name on: by a constant, to half or double as much, or as an entry leaves a heap."""
    if not isinstance(one, (ast.Assign, ast.AugAssign)) or name not in _targets(one):
        return False
    if isinstance(one, ast.AugAssign):
        value = ast.BinOp(one.target, one.op, one.value)
    else:
        value = _resolved(loop, one.value, name)
    text = ast.unparse(value).removesuffix(" & INDEX")
    if isinstance(value, ast.Call):
        return not up and text.startswith(("pop(", "pop_key(")) and text.endswith(f", {name})")
    if up:
        return text in (f"{name} + 1", f"{name} + 4", f"2 * {name} + 1")
    less = (f"{name} - 1", f"{name} - 1 >> 1", f"{name} // 2", f"{name} >> np.uint64(7)")
    return text in (*less, f"{name} & {name} - np.uint64(1)")


def _resolved(loop: ast.While, value: ast.expr, name: str, depth: int = 2) -> ast.expr:
    """A value, with what is assigned in the loop in the place of names other than one."""
    if isinstance(value, ast.BinOp):
        left = _resolved(loop, value.left, name, depth)
        right = _resolved(loop, value.right, name, depth)
        return ast.BinOp(left, value.op, right)
    if isinstance(value, ast.Name) and value.id != name and depth:
        for one in ast.walk(loop):
            if isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == value.id:
                return _resolved(loop, one.value, name, depth - 1)
    return value


def _changed(loop: ast.While, is_step: Callable[[ast.AST, str], bool]) -> set[str]:
    """Names that something in the loop gives other values, but by such steps."""
    return {
        name
        for one in ast.walk(loop)
        if isinstance(one, (ast.Assign, ast.AugAssign))
        for name in _targets(one)
        if not is_step(one, name) and ast.unparse(one) != f"{name} &= INDEX"
    }


def _targets(one: ast.AST) -> set[str]:
    """What a statement assigns to, and arrays that it writes to."""
    targets = one.targets if isinstance(one, ast.Assign) else [one.target]
    several = [part for one in targets for part in getattr(one, "elts", [one])]
    arrays = [one.value if isinstance(one, ast.Subscript) else one for one in several]
    return set().union(*map(_names, arrays))


def _names(value: ast.expr) -> set[str]:
    return {node.id for node in ast.walk(value) if isinstance(node, ast.Name)} - {"len", "np"}


# --- searches by halves ----------------------------------------------------------------------------------------------


def _halves(loop: ast.While) -> bool:
    lines = [ast.unparse(one).removesuffix(" & INDEX") for one in loop.body]

    def is_step(one: ast.stmt) -> bool:
        return ast.unparse(one) in ("high = middle", "low = middle + 1")

    is_search = ast.unparse(loop.test) == "low < high" and lines[0] == "middle = low + high >> 1"
    return is_search and _always(loop.body, is_step)
