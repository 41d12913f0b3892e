"""Grammar of the SQL92 filter language: a filter's text to one checked, evaluable condition.

    or          = and { OR and }
    and         = equality { AND equality }
    equality    = comparison { ("=" | "<>") comparison | IS [NOT] NULL }
    comparison  = unary { (">" | ">=" | "<" | "<=") unary
                        | [NOT] BETWEEN unary AND unary
                        | [NOT] IN "(" string { "," string } ")"
                        | [NOT] (CONTAINS | STARTSWITH | ENDSWITH) string }
    unary       = { "+" | "-" | NOT } primary
    primary     = string | integer | float | TRUE | FALSE | NULL | property | "(" or ")"

NOT binds tighter than a comparison, so ``NOT a > 3`` is an error. An expression ends where no rule
continues it; like Java, we ignore what follows: ``a > 3 garbage`` is ``a > 3``. Time is linear in
the text. Recursion happens at "(" alone and is bounded before it is entered.
"""

import operator
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

from roketto.protocol import sql_nodes
from roketto.protocol.errors import FilterError
from roketto.protocol.limits import FILTER_BYTES_MAX, FILTER_DEPTH_MAX, FILTER_HEIGHT_MAX
from roketto.protocol.sql_nodes import Comparison, Condition, Literal, MeaningError, Node
from roketto.protocol.sql_tokens import Kind, Token, Tokens

_PREFIXES: Final = (Kind.PLUS, Kind.MINUS, Kind.NOT)
_ORDERS: Final[dict[str, Comparison]] = {
    Kind.GREATER: operator.gt,
    Kind.GREATER_EQUAL: operator.ge,
    Kind.LESS: operator.lt,
    Kind.LESS_EQUAL: operator.le,
}
_SEARCHES: Final[dict[str, Callable[[str, str], bool]]] = {
    Kind.CONTAINS: operator.contains,
    Kind.STARTSWITH: str.startswith,
    Kind.ENDSWITH: str.endswith,
}
_TESTS: Final = (Kind.BETWEEN, Kind.IN, *_SEARCHES)
_CONSTANTS: Final = {Kind.TRUE: Literal(True), Kind.FALSE: Literal(False), Kind.NULL: Literal(None)}
_FOUND_CHARACTERS_MAX: Final = 40

_Operands = ParamSpec("_Operands")
_Made = TypeVar("_Made", bound=Node)


def parse(text: str) -> Condition:
    """Return the condition that ``text`` states; raise FilterError with place and reason."""
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > FILTER_BYTES_MAX:
        raise FilterError(f"SQL92 filter has {size} bytes (limit {FILTER_BYTES_MAX}); shorten it")
    return _Parser(text).parse()


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = Tokens(text)
        self._depth = 0

    def parse(self) -> Condition:
        start = self._tokens.current
        return self._condition(start, self._or())

    def _or(self) -> Node:
        return self._list(Kind.OR, self._and, decisive=True)

    def _and(self) -> Node:
        return self._list(Kind.AND, self._equality, decisive=False)

    def _list(self, separator: str, parse_operand: Callable[[], Node], decisive: bool) -> Node:
        start = self._tokens.current
        node = parse_operand()
        if self._tokens.current.kind != separator:
            return node
        operands = [self._condition(start, node)]
        while self._tokens.current.kind == separator:
            self._tokens.advance()
            start = self._tokens.current
            operands.append(self._condition(start, parse_operand()))
        return _built(start, sql_nodes.combine(operands, decisive))

    def _equality(self) -> Node:
        node = self._comparison()
        while True:
            token = self._tokens.current
            if token.kind == Kind.EQUAL or token.kind == Kind.NOT_EQUAL:
                self._tokens.advance()
                condition = _make(token, sql_nodes.equal, node, self._comparison())
                negated = token.kind == Kind.NOT_EQUAL
            elif token.kind == Kind.IS:
                self._tokens.advance()
                negated = self._expect(Kind.NULL, Kind.NOT).kind == Kind.NOT
                if negated:
                    self._expect(Kind.NULL)
                condition = sql_nodes.is_null(node)
            else:
                return node
            node = _built(token, sql_nodes.inverse(condition) if negated else condition)

    def _comparison(self) -> Node:
        node = self._unary()
        while True:
            token = self._tokens.current
            if (comparison := _ORDERS.get(token.kind)) is not None:
                self._tokens.advance()
                node = _make(token, sql_nodes.order, node, self._unary(), comparison)
            elif token.kind in _TESTS or token.kind == Kind.NOT:
                node = self._test(node)
            else:
                return node

    def _test(self, operand: Node) -> Condition:
        token = self._expect(*_TESTS, Kind.NOT)
        plain = token.kind != Kind.NOT
        kind = token.kind if plain else self._expect(*_TESTS).kind
        if kind == Kind.BETWEEN:
            low = self._unary()
            self._expect(Kind.AND)
            make = sql_nodes.between if plain else sql_nodes.not_between
            return _make(token, make, operand, low, self._unary())
        if kind == Kind.IN:
            return _make(token, sql_nodes.member, operand, self._strings(), plain)
        return _make(token, sql_nodes.search, operand, self._string(), _SEARCHES[kind], plain)

    def _unary(self) -> Node:
        prefixes: list[Token] = []
        while self._tokens.current.kind in _PREFIXES:
            prefixes.append(self._nest())
        start = self._tokens.current
        node = self._primary()
        for prefix in reversed(prefixes):
            if prefix.kind == Kind.MINUS:
                node = _built(prefix, sql_nodes.negative(node))
            elif prefix.kind == Kind.NOT:
                node = _built(prefix, sql_nodes.inverse(self._condition(start, node)))
        self._depth -= len(prefixes)
        return node

    def _primary(self) -> Node:
        token = self._tokens.current
        if token.kind == Kind.OPEN:
            self._nest()
            node = self._or()
            self._expect(Kind.CLOSE)
            self._depth -= 1
            return node
        if token.kind == Kind.STRING:
            return Literal(self._string())
        if token.kind in _CONSTANTS:
            return _CONSTANTS[self._tokens.advance().kind]
        if token.kind == Kind.INTEGER:
            return _make(self._tokens.advance(), sql_nodes.integer, token.text)
        if token.kind == Kind.FLOAT:
            return _make(self._tokens.advance(), sql_nodes.number, token.text)
        if token.kind == Kind.IDENTIFIER:
            return sql_nodes.Property(self._tokens.advance().text)
        raise _unexpected(token, "a literal, a property, NOT, a sign or '('")

    def _strings(self) -> list[str]:
        self._expect(Kind.OPEN)
        strings = [self._string()]
        while self._expect(Kind.COMMA, Kind.CLOSE).kind == Kind.COMMA:
            strings.append(self._string())
        return strings

    def _string(self) -> str:
        return self._expect(Kind.STRING).text[1:-1].replace("''", "'")

    def _expect(self, *kinds: str) -> Token:
        if self._tokens.current.kind not in kinds:
            raise _unexpected(self._tokens.current, " or ".join(kinds))
        return self._tokens.advance()

    def _nest(self) -> Token:
        self._depth += 1
        if self._depth > FILTER_DEPTH_MAX:
            raise _error(
                self._tokens.current,
                f"parentheses, signs and NOT nest deeper than {FILTER_DEPTH_MAX}; flatten them",
            )
        return self._tokens.advance()

    def _condition(self, token: Token, node: Node) -> Condition:
        return node if isinstance(node, Condition) else _make(token, sql_nodes.as_condition, node)


def _make(
    token: Token,
    make: Callable[_Operands, _Made],
    *args: _Operands.args,
    **kwargs: _Operands.kwargs,
) -> _Made:
    """Build a node; what the operator itself refuses is an error at ``token``."""
    try:
        return _built(token, make(*args, **kwargs))
    except MeaningError as error:
        raise _error(token, str(error)) from None


def _built(token: Token, node: _Made) -> _Made:
    """Pass ``node`` on unless it stands too high to be evaluated by recursion."""
    if node.height > FILTER_HEIGHT_MAX:
        raise _error(token, f"more than {FILTER_HEIGHT_MAX} operators stacked; use AND and OR")
    return node


def _unexpected(token: Token, expected: str) -> FilterError:
    found = "the end" if token.kind == Kind.END else repr(token.text[:_FOUND_CHARACTERS_MAX])
    return _error(token, f"found {found}, expected {expected}")


def _error(token: Token, reason: str) -> FilterError:
    return FilterError(f"SQL92 filter, character {token.start + 1}: {reason}")
