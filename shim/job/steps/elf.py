"""Which shared libraries a program is linked with: the DT_NEEDED entries of an ELF file. Pure: bytes come from ``read``."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Read = Callable[[int, int], bytes]  # offset and size; fewer bytes where the file ends

_LOAD, _DYNAMIC = 1, 2  # kinds of segments
_END, _NEEDED, _NAMES = 0, 1, 5  # tags of dynamic entries
_MOST_SEGMENTS, _MOST_DYNAMIC, _MOST_NEEDED, _LONGEST = 256, 1 << 16, 256, 256


def needed(read: Read) -> list[str]:
    """The libraries by name, in the file's order; none of a file that is no ELF program, is linked statically, or is damaged."""
    head = read(0, 64)
    if head[:4] != b"\x7fELF" or len(head) < 52 or head[4] not in (1, 2) or head[5] not in (1, 2):
        return []
    file = _File(read, wide=head[4] == 2, little=head[5] == 1)
    segments = file.segments(head)
    names = None
    places: list[int] = []
    for kind, offset, _address, size in segments:
        if kind != _DYNAMIC:
            continue
        for tag, value in file.pairs(offset, size):
            if tag == _END:
                break
            if tag == _NEEDED:
                places.append(value)
            elif tag == _NAMES:
                names = _offset_of(value, segments)
    if names is None:
        return []
    found = [read(names + place, _LONGEST).partition(b"\0")[0] for place in places[:_MOST_NEEDED]]
    return [name.decode("utf-8", "replace") for name in found]


class _File:
    """An ELF file's numbers, by its word size and byte order."""

    def __init__(self, read: Read, wide: bool, little: bool) -> None:
        self._read = read
        self._wide = wide
        self._word = 8 if wide else 4
        self._order = "little" if little else "big"

    def segments(self, head: bytes) -> list[tuple[int, int, int, int]]:
        """Kind, offset, address and size in the file of each segment."""
        start, each, count = (32, 54, 56) if self._wide else (28, 42, 44)
        table = self._number(head, start, self._word)
        size = self._number(head, each, 2)
        number = min(self._number(head, count, 2), _MOST_SEGMENTS)
        fields = (8, 16, 32) if self._wide else (4, 8, 16)
        found = []
        for index in range(number):
            entry = self._read(table + index * size, size)
            if len(entry) < fields[-1] + self._word:
                break
            offset, address, length = (self._number(entry, place, self._word) for place in fields)
            found.append((self._number(entry, 0, 4), offset, address, length))
        return found

    def pairs(self, offset: int, size: int) -> list[tuple[int, int]]:
        """The entries of a dynamic segment."""
        data = self._read(offset, min(size, _MOST_DYNAMIC))
        word = self._word
        return [
            (self._number(data, place, word), self._number(data, place + word, word))
            for place in range(0, len(data) - 2 * word + 1, 2 * word)
        ]

    def _number(self, data: bytes, place: int, size: int) -> int:
        return int.from_bytes(data[place : place + size], self._order)  # type: ignore[arg-type]


def _offset_of(address: int, segments: list[tuple[int, int, int, int]]) -> int | None:
    """Where in the file that is what a running program finds at ``address``."""
    for kind, offset, start, size in segments:
        if kind == _LOAD and start <= address < start + size:
            return offset + address - start
    return None
