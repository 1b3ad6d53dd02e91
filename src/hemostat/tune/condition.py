"""Condition: one comparison over parameters, such as "optimizer == 'sgd'"; parsed, never evaluated as Python."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

from hemostat.errors import FieldError

_Value = Callable[[Mapping[str, Any]], Any]
_FIX: Final = "Write names, numbers, texts, + - * / // %, comparisons, in, and, or, not."
_COMPARE: Final[dict[type[ast.cmpop], Callable[[Any, Any], bool]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
}
_ARITHMETIC: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


class Condition:
    """A comparison that holds for a configuration or not.

    Args:
        text: names of parameters, literals, arithmetic, comparisons, "in", "and", "or", "not".
        field: what the user calls it, for messages.

    Attributes:
        text: as it was written.
        names: of the parameters in it.

    Raises:
        FieldError: anything else stands in the text; it calls something, or is no comparison.

    Examples:
        >>> condition = Condition("micro_batch * accumulation <= 1024")
        >>> condition.holds({"micro_batch": 64, "accumulation": 32})
        False
        >>> sorted(condition.names)
        ['accumulation', 'micro_batch']
        >>> Condition("open('x')")
        Traceback (most recent call last):
        hemostat.errors.FieldError: constraints="open('x')": is no comparison of parameters. Write names, numbers, \
texts, + - * / // %, comparisons, in, and, or, not.
    """

    def __init__(self, text: str, field: str = "constraints") -> None:
        self.text = text
        self.names: set[str] = set()
        self._field = field
        try:
            tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise self._error("cannot be read") from None
        if not isinstance(tree, ast.Compare | ast.BoolOp) and not (
            isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.Not)
        ):
            raise self._error("is no comparison of parameters")
        self._value = self._built(tree)
        if not self.names:
            raise self._error("names no parameter")

    def holds(self, config: Mapping[str, Any]) -> bool:
        """Tell whether it is true; every one of its names is in the configuration.

        Raises:
            FieldError: it compares a text with a number, or divides by zero.
        """
        try:
            return bool(self._value(config))
        except (TypeError, ArithmeticError) as error:
            raise self._error(f"has no meaning for {dict(config)} ({error})") from None

    def _error(self, rule: str) -> FieldError:
        return FieldError(self._field, self.text, rule, _FIX)

    def _built(self, node: ast.expr) -> _Value:
        match node:
            case ast.Constant(value=bool() | int() | float() | str() as constant):
                return lambda config: constant
            case ast.Name() | ast.Attribute():
                name = self._dotted(node)
                self.names.add(name)
                return lambda config: config[name]
            case ast.Tuple(elts=nodes) | ast.List(elts=nodes) | ast.Set(elts=nodes):
                items = [self._built(item) for item in nodes]
                return lambda config: tuple(item(config) for item in items)
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                truth = self._built(inner)
                return lambda config: not truth(config)
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                number = self._built(inner)
                return lambda config: -number(config)
            case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _ARITHMETIC:
                apply, one, other = _ARITHMETIC[type(sign)], self._built(left), self._built(right)
                return lambda config: apply(one(config), other(config))
            case ast.BoolOp(op=join, values=nodes):
                parts = [self._built(part) for part in nodes]
                combine = all if isinstance(join, ast.And) else any
                return lambda config: combine(part(config) for part in parts)
            case ast.Compare():
                return self._comparison(node)
        raise self._error("is no comparison of parameters")

    def _comparison(self, node: ast.Compare) -> _Value:
        if any(type(sign) not in _COMPARE for sign in node.ops):
            raise self._error("is no comparison of parameters")
        signs = [_COMPARE[type(sign)] for sign in node.ops]
        sides = [self._built(side) for side in (node.left, *node.comparators)]

        def holds(config: Mapping[str, Any]) -> bool:
            values = [side(config) for side in sides]
            return all(sign(values[place], values[place + 1]) for place, sign in enumerate(signs))

        return holds

    def _dotted(self, node: ast.expr) -> str:
        if isinstance(node, ast.Name):
            return node.id
        if isinstance(node, ast.Attribute):
            return f"{self._dotted(node.value)}.{node.attr}"
        raise self._error("is no comparison of parameters")
