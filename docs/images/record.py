#!/usr/bin/env python3
"""Records docs/images/terminal.svg: `trunkline demo` and `trunkline chat` in a real terminal, as they are.

    pip install pyte
    cargo build --release
    docs/images/record.py target/release/trunkline

Everything that the picture shows was printed by the program, except for the prompt of a shell. Waits longer than 1.2 s
are shortened. A viewer that does not move pictures shows the last screen.
"""

import fcntl
import html
import os
import pty
import re
import select
import struct
import sys
import tempfile
import termios
import time
from pathlib import Path

import pyte

COLUMNS, ROWS = 80, 24
CELL, LINE, PAD, BAR = 8.4, 19, 16, 28
STEP = 0.08  # screens closer than this are one
REST = 1.2  # no wait is shown longer
END = 4.0  # how long the last screen stays
COLOURS = {
    "default": "#d7dae0",
    "cyan": "#56c8d8",
    "green": "#8bd17c",
    "red": "#f07178",
    "brown": "#e6c07b",
    "blue": "#82aaff",
    "magenta": "#c792ea",
    "brightblack": "#7f8794",
}
CHAT = ["hello", "/think what is two and two", "/tool ls", "y"]


class Recording:
    def __init__(self):
        self.screen = pyte.Screen(COLUMNS, ROWS)
        self.stream = pyte.ByteStream(self.screen)
        self.clock = 0.0
        self.frames = []  # (time, rows)

    def feed(self, data, after):
        self.clock += min(after, REST)
        # The emulator knows no faint text; as grey it looks the same.
        self.stream.feed(re.sub(rb"\x1b\[2m", b"\x1b[90m", data))
        rows = [row(self.screen.buffer[y]) for y in range(ROWS)]
        if self.frames and self.clock - self.frames[-1][0] < STEP:
            self.frames[-1] = (self.frames[-1][0], rows)
        elif not self.frames or self.frames[-1][1] != rows:
            self.frames.append((self.clock, rows))

    def type(self, text):
        for letter in text:
            self.feed(letter.encode(), 0.05)

    def prompt(self, command):
        self.feed(b"\x1b[2J\x1b[H\x1b[32m$\x1b[0m ", 0.6)
        self.type(command)
        self.feed(b"\r\n", 0.4)


def row(cells):
    """A row as runs of one style: ((column, style, text), ...)."""
    runs = []
    for x in range(COLUMNS):
        cell = cells[x]
        style = (cell.fg, cell.bold, cell.italics)
        # Words that are far apart are runs of their own: not every viewer keeps spaces.
        if runs and runs[-1][1] == style and not (cell.data == " " and runs[-1][2].endswith(" ")):
            runs[-1][2] += cell.data
        else:
            runs.append([x, style, cell.data])
    return tuple((x, style, text.rstrip()) for x, style, text in runs if text.strip())


def start(program, *words):
    child, terminal = pty.fork()
    if child == 0:
        home = tempfile.mkdtemp()
        os.chdir(home)
        kept = {"PATH": os.environ["PATH"], "TERM": "xterm-256color", "LANG": "C.UTF-8", "HOME": home}
        os.execve(program, ["trunkline", *words], kept)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    return child, terminal


def read(recording, terminal, until):
    """Reads until the program was silent for so many seconds; whether it has ended."""
    last = time.monotonic()
    while True:
        ready, _, _ = select.select([terminal], [], [], until)
        if not ready:
            return False
        try:
            data = os.read(terminal, 65536)
        except OSError:
            return True
        now = time.monotonic()
        recording.feed(data, now - last)
        last = now


def record(program):
    recording = Recording()
    recording.prompt("trunkline demo")
    child, terminal = start(program, "demo")
    while not read(recording, terminal, 5):
        pass
    os.waitpid(child, 0)
    recording.clock += 3

    recording.prompt("trunkline chat")
    child, terminal = start(program, "chat")
    read(recording, terminal, 1)
    for line in CHAT:
        for letter in line:
            os.write(terminal, letter.encode())
            read(recording, terminal, 0.05)
        os.write(terminal, b"\r")
        read(recording, terminal, 1)
    os.write(terminal, b"\x04")
    while not read(recording, terminal, 5):
        pass
    os.waitpid(child, 0)
    return recording.frames, recording.clock + END


def spans(frames, end):
    """What each row shows, and when: {(row, runs): [(from, to), ...]}."""
    shown = {}
    for (at, rows), until in zip(frames, [at for at, _ in frames[1:]] + [end]):
        for y, runs in enumerate(rows):
            if not runs:
                continue
            times = shown.setdefault((y, runs), [])
            if times and times[-1][1] == at:
                times[-1] = (times[-1][0], until)
            else:
                times.append((at, until))
    return shown


def svg(frames, end):
    width, height = COLUMNS * CELL + 2 * PAD, ROWS * LINE + BAR + PAD
    styles, lines = [], []
    for number, ((y, runs), times) in enumerate(sorted(spans(frames, end).items())):
        last = times[-1][1] == end
        steps = ["0%{visibility:hidden}"] if times[0][0] > 0 else []
        for begin, until in times:
            steps.append(f"{100 * begin / end:.2f}%{{visibility:visible}}")
            if until < end:
                steps.append(f"{100 * until / end:.2f}%{{visibility:hidden}}")
        styles.append(f"@keyframes r{number}{{{''.join(steps)}}}#r{number}{{animation-name:r{number}}}")
        texts = []
        for x, (colour, bold, italics), text in runs:
            lead = len(text) - len(text.lstrip())
            body = text.strip()
            marks = (' font-weight="bold"' if bold else "") + (' font-style="italic"' if italics else "")
            texts.append(
                f'<tspan x="{PAD + (x + lead) * CELL:.1f}" textLength="{len(body) * CELL:.1f}" '
                f'fill="{COLOURS.get(colour, COLOURS["default"])}"{marks}>{html.escape(body)}</tspan>'
            )
        hidden = "" if last else ' visibility="hidden"'
        lines.append(f'<text id="r{number}" y="{BAR + (y + 1) * LINE - 5}"{hidden}>{"".join(texts)}</text>')
    dots = "".join(
        f'<circle cx="{PAD + 4 + 18 * i}" cy="15" r="5" fill="{colour}"/>'
        for i, colour in enumerate(("#f07178", "#e6c07b", "#8bd17c"))
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" height="{height}" role="img">',
            "<title>A terminal: trunkline demo, then trunkline chat</title>",
            "<style>text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;white-space:pre;"
            f"animation:{end:.2f}s step-end infinite}}",
            *styles,
            "@media(prefers-reduced-motion:reduce){text{animation:none}}</style>",
            f'<rect width="100%" height="100%" rx="8" fill="#1c2027"/>{dots}',
            *lines,
            "</svg>\n",
        ]
    )


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    frames, end = record(str(Path(sys.argv[1]).resolve()))
    target = Path(__file__).with_name("terminal.svg")
    target.write_text(svg(frames, end), encoding="utf-8")
    print(f"{target}: {len(frames)} screens, {end:.0f} s, {target.stat().st_size} bytes")


if __name__ == "__main__":
    main()
