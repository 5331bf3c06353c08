"""``--constraint``: which nodes have the features a job wants, and how many must have which.

fast              fast&cpu            fast|slow            (fast|slow)&cpu
[rack1|rack2]     all nodes of the job have the same one of these
fast*2&slow*1     at least two fast nodes and one slow one; the others may be any
"""

from __future__ import annotations

from shim.core.value import Value

_OPERATORS = "&|()[],* "


class FeatureError(ValueError):
    """A constraint that cannot be read."""


class Constraint(Value):
    """A constraint read from its text. ``choices`` are tried one after the other; each is a constraint for all nodes.

    ``names``: every feature named, so that a caller can refuse unknown ones.
    """

    choices: tuple[str, ...] = ("",)
    counts: tuple[tuple[str, int], ...] = ()
    names: tuple[str, ...] = ()


def parse(text: str | None) -> Constraint:
    """Reads ``text`` (None or empty: no constraint). Raises FeatureError."""
    text = (text or "").strip().strip("\"'")
    if text[:-1].strip() and text[-1] in "&|,":
        text = text[:-1]  # Slurm takes an operator without a right side
    counts: list[tuple[str, int]] = []
    if "*" in text:
        for word in text.strip("[]").replace("|", "&").split("&"):
            name, star, number = word.strip().partition("*")
            plain = name and not any(char in _OPERATORS for char in name)
            if not plain or (star and not (number.isascii() and number.isdigit() and int(number))):
                raise FeatureError(text)
            counts.append((name, int(number) if star else 1))
        names = tuple(name for name, _ in counts)
        # In brackets every node must be of a counted kind (``[rack1*2&rack2*2]``).
        choices: tuple[str, ...] = ("|".join(names),) if text.startswith("[") else ("",)
        return Constraint(choices=choices, counts=tuple(counts), names=names)
    if text.startswith("[") and text.endswith("]"):
        choices = tuple(part.strip() for part in text[1:-1].split("|"))
    else:
        choices = (text,)
    found: list[str] = []
    for choice in choices:
        found.extend(_names(choice))
        matches(choice, frozenset())
    return Constraint(choices=choices, names=tuple(found))


def matches(expression: str, features: frozenset[str]) -> bool:
    """Whether a node with these features satisfies ``a&b|(c&d)``. Operators bind alike, from the left, as in Slurm."""
    tokens = _tokens(expression)
    if not tokens:
        return True
    value, rest = _expression(tokens, features, expression)
    if rest:
        raise FeatureError(expression)
    return value


def _tokens(expression: str) -> list[str]:
    tokens: list[str] = []
    word = ""
    for char in expression:
        if char in "&|(),":
            if word.strip():
                tokens.append(word.strip())
            tokens.append("&" if char == "," else char)
            word = ""
        else:
            word += char
    return [*tokens, word.strip()] if word.strip() else tokens


def _names(expression: str) -> list[str]:
    return [token for token in _tokens(expression) if token not in "&|()"]


def _expression(tokens: list[str], features: frozenset[str], text: str) -> tuple[bool, list[str]]:
    value, tokens = _term(tokens, features, text)
    while tokens and tokens[0] in "&|":
        operator = tokens[0]
        right, tokens = _term(tokens[1:], features, text)
        value = (value and right) if operator == "&" else (value or right)
    return value, tokens


def _term(tokens: list[str], features: frozenset[str], text: str) -> tuple[bool, list[str]]:
    if not tokens or tokens[0] in "&|)":
        raise FeatureError(text)
    if tokens[0] == "(":
        value, rest = _expression(tokens[1:], features, text)
        if not rest or rest[0] != ")":
            raise FeatureError(text)
        return value, rest[1:]
    return tokens[0] in features, tokens[1:]
