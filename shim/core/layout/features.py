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
    value: bool | None = None  # of what was read so far; None: nothing
    operator = ""  # one that waits for its right side
    outer: list[tuple[bool | None, str]] = []  # the same two, for each parenthesis that is open
    tokens = _tokens(expression)
    for token in tokens:
        if token in "&|":
            if value is None or operator:
                raise FeatureError(expression)
            operator = token
            continue
        if token == ")":
            if value is None or operator or not outer:
                raise FeatureError(expression)
            right = value
            value, operator = outer.pop()
        elif value is not None and not operator:
            raise FeatureError(expression)
        elif token == "(":
            outer.append((value, operator))
            value, operator = None, ""
            continue
        else:
            right = token in features
        value = right if value is None else (value and right) if operator == "&" else (value or right)
        operator = ""
    if outer or operator or (value is None and tokens):
        raise FeatureError(expression)
    return value is not False


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
