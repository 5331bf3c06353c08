"""Lists with commas, as users write them."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Optional, Tuple


def comma_list(text: Optional[str]) -> Tuple[str, ...]:
    """The words between the commas; empty ones, and None, are nothing."""
    return tuple([word for word in text.split(",") if word]) if text else ()


def split_outside_brackets(text: str, separators: str = ",") -> List[str]:
    """The words between separators that stand in no brackets: ``5_[1,3],n[1-2]`` is two. Empty ones are nothing."""
    words: List[str] = []
    word = ""
    depth = 0
    for char in text:
        if char in separators and depth == 0:
            words.append(word)
            word = ""
            continue
        depth += (char == "[") - (char == "]")
        word += char
    return [word for word in [*words, word] if word]
