#!/usr/bin/env python3
"""Counts the lines that an author writes for each program here, and compares them with the table of docs/languages.md.

    count.py            prints the table
    count.py --check    ends with status 1 where the page says otherwise

A line counts unless it is blank or a comment. Lines of more than 120 characters are an error, so that none hides another.
"""
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGE = HERE / "../../docs/languages.md"
COMMENT = re.compile(r'\s*(#|//|/\*\*|\*|""")')
PROGRAMS = {
    "Rust": ["rust/main.rs"],
    "Python": ["python/notes.py", "python/acp_notes.py", "python/mcp_notes.py"],
    "TypeScript": ["typescript/notes.ts", "typescript/acp_notes.ts", "typescript/mcp_notes.ts"],
    "Go": ["go/main.go"],
    "Java": ["java/Notes.java"],
}


def count(path):
    lines = (HERE / path).read_text().splitlines()
    assert all(len(line) <= 120 for line in lines), f"{path} has a line of more than 120 characters"
    return sum(1 for line in lines if line.strip() and not COMMENT.match(line))


def rows():
    for language, paths in PROGRAMS.items():
        cells = [f"[{count(path)}](../examples/compare/{path})" for path in paths] + ["", ""]
        yield f"| {language} | {' | '.join(cell or '-' for cell in cells[:3])} |"


if sys.argv[1:] == ["--check"]:
    page = PAGE.read_text().splitlines()
    wrong = [row for row in rows() if row not in page]
    print("\n".join(["docs/languages.md lacks these rows:", *wrong]) if wrong else "lines: as the page says")
    sys.exit(bool(wrong))
print("\n".join(rows()))
