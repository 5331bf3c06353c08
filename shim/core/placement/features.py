"""``--constraint``: which nodes have the features a job wants, and how many must have which.

fast              fast&cpu            fast|slow            (fast|slow)&cpu
[rack1|rack2]     all nodes of the job have the same one of these; also with more around it: [rack1|rack2]&fast
fast*2&slow*1     at least two fast nodes and one slow one; the others may be any
"""

from __future__ import annotations

from shim.core.formats.integers import strtol
from shim.core.value import Value

_MOST = 2**31  # of a count


class FeatureError(ValueError):
    """A constraint that cannot be read."""


class BracketError(FeatureError):
    """A constraint whose brackets close nothing, or hold what they cannot."""


class Constraint(Value):
    """A constraint read from its text. ``choices`` are tried one after the other; each is a constraint for all nodes.

    ``names``: every feature named, so that a caller can refuse unknown ones.
    """

    choices: tuple[str, ...] = ("",)
    counts: tuple[tuple[str, int], ...] = ()
    names: tuple[str, ...] = ()


class _Wanted:
    """A feature as it stands in the text: inside what, and by which operator it is followed."""

    __slots__ = ("bracket", "count", "depth", "name", "operator")

    def __init__(self, name: str, bracket: bool, depth: bool) -> None:
        self.name = name
        self.bracket = bracket
        self.depth = depth
        self.count = 0
        self.operator = ""


def parse(text: str | None) -> Constraint:
    """Reads ``text`` (None or empty: no constraint) as slurmctld does. Raises FeatureError."""
    text = text or ""
    if text[:1] == text[-1:] == '"' and len(text) > 1:
        text = text[1:-1]
    if not text:
        return Constraint()
    reader = _Reader(text)
    wanted = reader.wanted
    _check_bracket(text, wanted)
    names = tuple(one.name for one in wanted)
    if not any(one.count for one in wanted):
        return Constraint(choices=_choices(reader.pieces), names=names)
    counts = tuple((one.name, one.count or 1) for one in wanted if not one.depth)
    # In brackets every node must be of a counted kind (``[rack1*2&rack2*2]``).
    own = [one.name for one in wanted if one.bracket]
    return Constraint(choices=("|".join(own),), counts=counts, names=names)


class _Reader:
    """One pass over the text: the features, and the text in pieces without counts, a bracket and all in it one piece.

    What stands between the end of a feature (its count, a closing bracket) and the next operator is lost, as in Slurm.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.wanted: list[_Wanted] = []
        self.pieces: list[str] = [""]
        self._current: _Wanted | None = None  # the feature that is being read
        self._ended = False  # its name goes on no more
        self._bracket = self._depth = self._had_bracket = False
        at = 0
        while at < len(text):
            at = self._take("&" if text[at] == "," else text[at], at + 1)
        if self._bracket or self._depth:
            raise FeatureError(text)

    def _take(self, char: str, after: int) -> int:
        """Reads a character; where to go on."""
        if char == "*":
            return self._count(after)
        if char in "&|":
            self._operator(char)
        elif char in "[(":
            self._open(char)
        elif char in "])":
            self._close(char)
        else:
            self._letter(char)
        return after

    def _count(self, after: int) -> int:
        count, rest = strtol(self.text[after:])
        if self._current is None or not 0 < count < _MOST or self._depth:
            raise FeatureError(self.text)
        self._current.count = count
        self._ended = True
        return len(self.text) - len(rest)

    def _operator(self, char: str) -> None:
        if self._current is None:
            raise FeatureError(self.text)
        self._current.operator = char
        self._current, self._ended = None, False
        self.pieces[-1] += char

    def _open(self, char: str) -> None:
        if self._current is not None or (self._had_bracket if char == "[" else self._depth):
            raise FeatureError(self.text)
        if char == "[":
            self._bracket = self._had_bracket = True
            self.pieces.append("")
        else:
            self._depth = True
            self.pieces[-1] += char

    def _close(self, char: str) -> None:
        if self._current is None or not (self._bracket if char == "]" else self._depth):
            raise (BracketError if char == "]" else FeatureError)(self.text)
        self._ended = True
        if char == "]":
            self._bracket = False
            self.pieces.append("")
        else:
            self._depth = False
            self.pieces[-1] += char

    def _letter(self, char: str) -> None:
        if self._current is None:
            self._current = _Wanted("", self._bracket, self._depth)
            self.wanted.append(self._current)
        elif self._ended:
            return
        self._current.name += char
        self.pieces[-1] += char


def _check_bracket(text: str, wanted: list[_Wanted]) -> None:
    """Inside a bracket there are either choices, none of them counted, or counted features that are all wanted."""
    inside = [one for one in wanted if one.bracket]
    operators = {one.operator for one in inside[:-1] if not one.depth}
    counted = [one for one in inside if one.count]
    if (counted and "|" in operators) or ("&" in operators and len(counted) < len(inside)):
        raise BracketError(text)


def _choices(pieces: list[str]) -> tuple[str, ...]:
    """The expressions that a bracket (the second of three pieces) stands for, one for each of its words."""
    pieces = [*pieces[:-1], pieces[-1].rstrip("&|")]  # Slurm takes an operator without a right side
    if len(pieces) < 3:
        return ("".join(pieces),)
    before, inside, behind = pieces[0], pieces[1], pieces[2]
    found: list[str] = []
    word = ""
    open_words = 0
    for char in inside + "|":
        open_words += (char == "(") - (char == ")")
        if char == "|" and not open_words:
            found.append(word)
            word = ""
        else:
            word += char
    if not before.strip("(") and not behind.strip(")"):
        return tuple(found)
    return tuple(f"{before}({word}){behind}" for word in found)


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


def alternatives(expression: str, most: int) -> tuple[tuple[str, ...], ...] | None:
    """``a&b|c`` as the sets of features of which a node needs one whole; () for any node, None for more than ``most`` sets.

    What ``matches`` says of a node it is: that it has all features of one of the sets.
    """
    sets: list[frozenset[str]] | None = None  # of what was read so far
    operator = ""
    outer: list[tuple[list[frozenset[str]] | None, str]] = []
    for token in _tokens(expression):
        if token in "&|":
            operator = token
            continue
        if token == "(":
            outer.append((sets, operator))
            sets, operator = None, ""
            continue
        right = [frozenset((token,))]
        if token == ")":
            right = sets or []
            sets, operator = outer.pop()
        if sets is None:
            sets = right
        elif operator == "&":
            sets = [one | other for one in sets for other in right]
        else:
            sets = sets + right
        operator = ""
        sets = [one for one in dict.fromkeys(sets) if not any(other < one for other in sets)]
        if len(sets) > most:
            return None
    return tuple(tuple(sorted(one)) for one in sets or ())


def _tokens(expression: str) -> list[str]:
    tokens: list[str] = []
    word = ""
    for char in expression:
        if char in "&|(),":
            if word:
                tokens.append(word)
            tokens.append("&" if char == "," else char)
            word = ""
        else:
            word += char
    return [*tokens, word] if word else tokens
