"""Bytes from a pipe to lines, in bounded memory ([frame.1] to [frame.7])."""

from __future__ import annotations

from collections.abc import Iterator

MIN_MAX_LINE = 1024 * 1024
MAX_LINE = 16 * 1024 * 1024
FIRST = 4096
BOM = b"\xef\xbb\xbf"


class TooLong:
    """A line over the limit: its length in bytes, and its first bytes, which may name its session."""

    __slots__ = ("first", "bytes")

    def __init__(self, first: bytes, size: int) -> None:
        self.first, self.bytes = first, size


class Lines:
    """Splits at LF and nowhere else; a line over `max_line` bytes is skipped, and told by a `TooLong`."""

    def __init__(self, max_line: int = MAX_LINE) -> None:
        self._max = max(max_line, MIN_MAX_LINE)
        self._parts: list[bytes] = []  # of the line whose end has not come
        self._size = 0
        self._skipping = 0  # bytes of a line that is skipped, 0 when none is
        self._first = b""
        self._begun = False

    @property
    def is_skipping(self) -> bool:
        """Whether the line whose end has not come is over the limit already."""
        return self._skipping > 0

    def feed(self, chunk: bytes) -> Iterator[bytes | TooLong]:
        """Gives the lines that end in this chunk, without their LF."""
        *ended, rest = chunk.split(b"\n")
        for line in ended:
            if self._parts or self._skipping:
                self._keep(line)
                whole = self._take()
                if whole is not None:
                    yield whole
            elif len(line) > self._max:
                yield TooLong(line[:FIRST], len(line))
            else:
                yield self._without_bom(line)
        if rest:
            self._keep(rest)

    def finish(self) -> Iterator[bytes]:
        """Gives what stands after the last LF when the input ends: it counts if it parses ([frame.7])."""
        if self._parts and not self._skipping:
            line = self._take()
            if isinstance(line, bytes):
                yield line

    def _keep(self, piece: bytes) -> None:
        if self._skipping:
            self._skipping += len(piece)
        elif self._size + len(piece) > self._max + 1:  # one more: a CR may stand before the LF
            self._first = (b"".join(self._parts) + piece)[:FIRST]
            self._skipping = self._size + len(piece)
            self._parts, self._size = [], 0
        elif piece:
            self._parts.append(piece)
            self._size += len(piece)

    def _take(self) -> bytes | TooLong | None:
        if self._skipping:
            long = TooLong(self._first, self._skipping)
            self._skipping, self._first = 0, b""
            return long
        line = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts, self._size = [], 0
        if len(line) > self._max:
            return TooLong(line[:FIRST], len(line))
        return self._without_bom(line)

    def _without_bom(self, line: bytes) -> bytes:
        if self._begun:
            return line
        self._begun = True
        return line[3:] if line.startswith(BOM) else line
