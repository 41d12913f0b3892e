"""Proves that filters fall into the tokens that Java's lexer finds, lazily and in linear time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roketto.protocol.errors import FilterError
from roketto.protocol.sql_tokens import Kind, Token, Tokens


def tokens_of(text: str) -> list[Token]:
    tokens = Tokens(text)
    found = []
    while tokens.current.kind != Kind.END:
        found.append(tokens.advance())
    return found


def texts_of(text: str) -> list[str]:
    return [token.text for token in tokens_of(text)]


def kinds_of(text: str) -> list[str]:
    return [token.kind for token in tokens_of(text)]


def test_every_keyword_and_symbol_has_its_kind_in_any_case() -> None:
    """Words that are keywords are recognised whole, in upper, lower and mixed case."""
    kinds = [value for name, value in vars(Kind).items() if name.isupper()]
    keywords = [kind for kind in kinds if kind.isupper()]
    symbols = [kind for kind in kinds if not kind[0].isalpha()]
    assert len(keywords) == 12
    assert len(symbols) == 11
    for kind in keywords:
        assert kinds_of(f"{kind} {kind.lower()} {kind.title()}") == [kind] * 3
        assert kinds_of(f"{kind}_ $ _1") == [Kind.IDENTIFIER] * 3
    for kind in symbols:
        assert kinds_of(kind) == [kind]


def test_tokens_carry_their_text_and_start() -> None:
    """The text is as written; the start counts characters from zero."""
    assert tokens_of(" Ab>='x''y'") == [
        Token(Kind.IDENTIFIER, "Ab", 1),
        Token(Kind.GREATER_EQUAL, ">=", 3),
        Token(Kind.STRING, "'x''y'", 5),
    ]


@pytest.mark.parametrize(
    ("text", "texts"),
    [
        ("007", ["0", "0", "7"]),
        ("007.5", ["007.5"]),
        ("12Lx", ["12L", "x"]),
        ("0L", ["0", "L"]),
        ("1.5L", ["1.5", "L"]),
        ("1..5", ["1.", ".5"]),
        ("1E5 1e+5 1.E-5", ["1E5", "1e+5", "1.E-5"]),
        ("1E+", ["1", "E", "+"]),
        ("0x10", ["0", "x10"]),
        ("a<>b<=c>=d=<", ["a", "<>", "b", "<=", "c", ">=", "d", "=", "<"]),
        ("''''''", ["''''''"]),
        ("'a' 'b'", ["'a'", "'b'"]),
    ],
)
def test_the_longest_token_wins(text: str, texts: list[str]) -> None:
    """Numbers, operators and strings reach as far as they can and no farther."""
    assert texts_of(text) == texts


@pytest.mark.parametrize(
    ("text", "texts"),
    [
        (" \t\n\r\fa", ["a"]),
        ("a--b\nc", ["a", "c"]),
        ("a--b\rc", ["a", "c"]),
        ("a--b\r\n--d\nc", ["a", "c"]),
        ("a --b", ["a", "-", "-", "b"]),
        ("--a\n--b", ["-", "-", "b"]),
        ("a/**/b/***/c/* * / -- */d", ["a", "b", "c", "d"]),
        ("/* /* */ a", ["a"]),
        ("", []),
    ],
)
def test_blanks_and_comments_separate_tokens(text: str, texts: list[str]) -> None:
    """A line comment needs its line end, a block comment does not nest."""
    assert texts_of(text) == texts


@pytest.mark.parametrize(
    ("text", "place", "problem"),
    [
        ("a = 'x", 5, "never closed; write ''"),
        ("'x''", 1, "never closed"),
        ("a /* b", 3, "a comment that is never closed"),
        ("/*/", 1, "a comment that is never closed"),
        ("a # b", 3, r"'#', which starts no token"),
        ("\u212a = 1", 1, r"'\\u212a', which starts no token"),
        ("a\u00a0= 1", 2, r"'\\xa0', which starts no token"),
        ("a . b", 3, "'.', which starts no token"),
    ],
)
def test_unreadable_text_is_named_with_its_place(text: str, place: int, problem: str) -> None:
    """The error says at which character, counted from one, and what stands there."""
    with pytest.raises(FilterError, match=f"character {place}: found .*{problem}"):
        tokens_of(text)


def test_nothing_behind_the_current_token_is_read() -> None:
    """An unreadable character is an error only once it is next."""
    tokens = Tokens("a b #")
    assert tokens.advance().text == "a"
    with pytest.raises(FilterError):
        tokens.advance()


@pytest.mark.timeout(30)
def test_time_is_linear_where_a_naive_lexer_is_quadratic() -> None:
    """Endless minus signs, digits, quotes and comment openings cost no second look at the rest."""
    for text in ("-" * 200_000, "1e" * 100_000, "/**/" * 50_000, "'" * 200_000, "--\n" * 60_000):
        tokens_of(text)
    for text in ("/*" * 100_000, "'" * 199_999):
        with pytest.raises(FilterError):
            tokens_of(text)


@given(st.text(alphabet=st.sampled_from("aN_$0159.eEL'<>=(),+-/* \n#é"), max_size=60))
def test_any_text_gives_tokens_or_a_filter_error(text: str) -> None:
    """Tokens never overlap, never go back, and are substrings of the text."""
    try:
        found = tokens_of(text)
    except FilterError:
        return
    end = 0
    for token in found:
        assert token.start >= end
        end = token.start + len(token.text)
        assert text[token.start : end] == token.text
