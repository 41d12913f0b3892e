"""Print the questions of the golden files: filters, property maps and texts read as numbers.

    python make_questions.py > /tmp/questions.json
    java -cp "$ROCKETMQ_HOME/lib/*" AnswerSql.java /tmp/questions.json .

The second line, run with the jars of RocketMQ 5.5.0, writes filters.json and numbers.json here.
"""

import itertools
import json
import random
import re
from collections.abc import Callable
from pathlib import Path

SEED = 92
GENERATED = 2_000
GENERATED_LENGTH_MAX = 120

PROPERTIES: list[dict[str, str]] = [
    {},
    {"a": "5", "b": "x", "c": "7", "t": "true", "s": "hello world", "A": "1"},
    {"a": "3.5", "b": "", "c": "3.50", "t": "TRUE", "s": "it's"},
    {"a": "abc", "b": "x", "c": "abd", "t": "false", "s": "héllo 😀 end"},
    {"a": "3000000000", "b": "X", "c": "2147483648", "t": "yes", "s": "%"},
    {"a": "-5", "b": "5", "c": "5", "t": "tRuE", "TAGS": "TagA", "KEYS": "k1 k2"},
    {"a": "NaN", "b": "NaN", "c": "-0.0", "t": "1"},
    {"a": " 1d ", "b": "y", "c": "0x1p3", "t": " true"},
    {"a": "+5", "b": "'", "c": "05", "s": "x"},
    {"a": "9223372036854775807", "b": "xy", "c": "9223372036854775808"},
    {"a": "٣", "b": "z", "c": "1e3", "_$": "1", "a_1": "2"},
    {"a": "Infinity", "b": "null", "c": "NaN", "s": "", "NOT": "1"},
    {"a": "0.0", "b": "-1", "c": "0", "t": "FALSE", "s": "hello"},
]

OPERANDS = [
    "a",
    "c",
    "missing",
    "'x'",
    "'5'",
    "''",
    "5",
    "3000000000",
    "1.5",
    "TRUE",
    "FALSE",
    "NULL",
    "-5",
    "-1.5",
    "-3000000000",
    "-a",
    "-'x'",
    "-TRUE",
    "(a>1)",
    "(t=TRUE)",
    "(NOT(a=5))",
]
"""Every type of operand, for the matrix of all pairs under all comparison operators."""

OPERATORS = ["=", "<>", ">", ">=", "<", "<="]

LONG_NUMBERS = [
    "",
    "0" * 5_000 + "7",
    "9" * 400,
    "0." + "0" * 330 + "1",
    "1" + "0" * 400 + "e-400",
    "\u0669" * 19,
    "\u0669" * 9,
]
"""Numbers that numbers.txt cannot show."""


def lines_of(name: str) -> list[str]:
    """The lines of a file beside this one, with their escapes resolved."""
    lines = Path(__file__).with_name(name).read_text("utf-8").splitlines()
    kept = [line for line in lines if line and not line.startswith("#")]
    return [line.encode("raw_unicode_escape").decode("unicode_escape") for line in kept]


def matrix() -> list[str]:
    """All pairs of operands under all operators, and as the ends of BETWEEN."""
    pairs = list(itertools.product(OPERANDS, OPERANDS))
    compared = [f"{x}{op}{y}" for op in OPERATORS for x, y in pairs]
    bounds = ["5", "7", "3000000000", "7.5", "-5", "c", "'5'", "TRUE", "NULL", "(a>1)"]
    ranges = [
        f"{value} {word} {low} AND {high}"
        for value in ("a", "6", "'x'")
        for word in ("BETWEEN", "NOT BETWEEN")
        for low, high in itertools.product(bounds, bounds)
    ]
    return compared + ranges


class Generator:
    """Random filters from the grammar; a third of them damaged by one token."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def filter(self) -> str:
        tokens = self.disjunction(self.random.randint(0, 3))
        if self.random.random() < 0.33:
            self.damage(tokens)
        blank = self.random.choice([" ", " ", " ", "\n", "\t", "/**/"])
        text = blank.join(tokens)
        return re.sub(r"\s?([=<>(),]+)\s?", r"\1", text) if self.random.random() < 0.3 else text

    def damage(self, tokens: list[str]) -> None:
        place = self.random.randrange(len(tokens))
        match self.random.randrange(3):
            case 0:
                del tokens[place]
            case 1:
                tokens.insert(
                    place, self.random.choice(["NOT", "(", ")", "AND", "=", "-", "x", "5", "#"])
                )
            case _:
                tokens[place] = self.random.choice([*OPERANDS, "IS", "IN", "OR", ",", "<>", "''"])

    def disjunction(self, depth: int) -> list[str]:
        return self.joined("OR", lambda: self.joined("AND", lambda: self.equality(depth)))

    def joined(self, word: str, operand: Callable[[], list[str]]) -> list[str]:
        tokens = operand()
        while self.random.random() < 0.25:
            tokens = [*tokens, self.word(word), *operand()]
        return tokens

    def equality(self, depth: int) -> list[str]:
        match self.random.randrange(6):
            case 0:
                return [*self.comparison(depth), "=", *self.value(depth)]
            case 1:
                return [*self.comparison(depth), "<>", *self.value(depth)]
            case 2:
                negation = self.random.choice([[], [self.word("NOT")]])
                return [*self.comparison(depth), self.word("IS"), *negation, self.word("NULL")]
            case _:
                return self.comparison(depth)

    def comparison(self, depth: int) -> list[str]:
        value = self.value(depth)
        negation = self.random.choice([[], [self.word("NOT")]])
        match self.random.randrange(8):
            case 0 | 1 | 2:
                return [*value, self.random.choice(OPERATORS[2:]), *self.value(depth)]
            case 3:
                ends = [*self.value(0), self.word("AND"), *self.value(0)]
                return [*value, *negation, self.word("BETWEEN"), *ends]
            case 4:
                texts = [self.text() for _ in range(self.random.randint(1, 6))]
                listed = [token for text in texts for token in (",", text)][1:]
                return [*value, *negation, self.word("IN"), "(", *listed, ")"]
            case 5:
                word = self.random.choice(["CONTAINS", "STARTSWITH", "ENDSWITH"])
                return [*value, *negation, self.word(word), self.text()]
            case _:
                return value

    def value(self, depth: int) -> list[str]:
        if depth and self.random.random() < 0.5:
            prefix = self.random.choice([[], [], [self.word("NOT")], ["-"], ["+"]])
            return [*prefix, "(", *self.disjunction(depth - 1), ")"]
        if self.random.random() < 0.6:
            return [self.random.choice(["a", "b", "c", "t", "s", "missing", "A", "TAGS"])]
        literals = [
            "5",
            "0",
            "7L",
            "3000000000",
            "1.5",
            "3.5",
            "5E0",
            "TRUE",
            "false",
            "NULL",
            "-5",
            self.text(),
        ]
        return [self.random.choice(literals)]

    def text(self) -> str:
        return self.random.choice(
            ["'x'", "'5'", "''", "'hello'", "'o'", "'it''s'", "'TagA'", "'true'", "'😀'"]
        )

    def word(self, word: str) -> str:
        return self.random.choice([word, word, word.lower(), word.capitalize()])


def main() -> None:
    generator = Generator(SEED)
    drawn = (generator.filter() for _ in itertools.count())
    short = (text for text in drawn if len(text) <= GENERATED_LENGTH_MAX)
    generated = itertools.islice(short, GENERATED)
    questions = {
        "properties": PROPERTIES,
        "filters": list(dict.fromkeys([*lines_of("filters.txt"), *matrix(), *generated])),
        "numbers": [*lines_of("numbers.txt"), *LONG_NUMBERS],
    }
    print(json.dumps(questions))


if __name__ == "__main__":
    main()
