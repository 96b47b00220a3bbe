#!/usr/bin/env python3
"""Tests `.ci/measure` on small trees: a worse tree fails, and `--update` never raises a ceiling."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

MEASURE = Path(__file__).resolve().parent / "measure"
CEILINGS = ".ci/ceilings.json"

LIBRARY = """\
//! Sums for the tests.

/// Settings of a sum.
pub struct SumSettings {
    limit: u32,
}

/// Returns the sum of two numbers.
pub fn add_numbers(left: u32, right: u32) -> u32 {
    let sum = left + right; // wraps
    sum
}

#[cfg(test)]
mod tests {
    // Nothing of this is code.
    struct Data;
    fn of() {
        let (one, two) = (1, 2);
        panic!("nobody says what was told");
    }
}
"""
MANIFEST = '[package]\nname = "sums"\n'
TREE = {
    "Cargo.toml": "[workspace]\n",
    "README.md": "Sums.\n\n```\nno one says this\n```\n",
    "sums/Cargo.toml": MANIFEST,
    "sums/src/lib.rs": LIBRARY,
    "sums/tests/all.rs": "struct Data;\nfn of() {}\n",
    "more/Cargo.toml": MANIFEST,
    "more/src/lib.rs": LIBRARY.replace("SumSettings", "MoreSettings"),
    "target/lib.rs": "struct Data;\n",
}

# A change that makes each figure worse: the file, and the text that is added to it.
WORSE = {
    "size": ("sums/src/lib.rs", "fn add_more_numbers() -> u32 { 1 + 2 + 3 + 4 + 5 + 6 + 7 + 8 }\n"),
    "tics_comments": ("sums/src/lib.rs", "// It is told who asks.\n"),
    "tics_markdown": ("README.md", "The sum is said.\n"),
    "tics_strings": ("sums/src/lib.rs", 'const SHORT_TEXT: &str = "the host says no more";\n'),
    "item_docs_clause_percent": ("sums/src/lib.rs", "/// What it is.\nconst SIZE_LIMIT: u32 = 1;\n"),
    "single_word_types_percent": ("sums/src/lib.rs", "struct Sum;\n"),
    "vague_suffix_types_percent": ("sums/src/lib.rs", "struct SumData;\n"),
    "single_word_functions_percent": ("sums/src/lib.rs", "fn add() {}\n"),
    "fn_of": ("sums/src/lib.rs", "fn of() {}\n"),
    "tuple_lets": ("sums/src/lib.rs", "fn two_lets() {\n    let (mut one, two) = (1, 2);\n}\n"),
    "match_bools": ("sums/src/lib.rs", "fn match_bool() {\n    match x {\n        true => 1,\n        false => 2,\n    }\n}\n"),
    "lines_over_110": ("sums/tests/all.rs", f"// {'wide ' * 25}\n"),
}


class Tree:
    """A git repository in a temporary folder."""

    def __init__(self, files):
        self.folder = tempfile.TemporaryDirectory()
        self.root = Path(self.folder.name)
        subprocess.run(["git", "init", "--quiet", self.root], check=True)
        for path, text in files.items():
            self.write(path, text)

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        subprocess.run(["git", "-C", self.root, "add", "--force", path], check=True)

    def append(self, path, text):
        self.write(path, (self.root / path).read_text() + text)

    def measure(self, *arguments):
        """Returns the exit status, the output and the errors."""
        ran = subprocess.run([sys.executable, MEASURE, self.root, *arguments], capture_output=True, text=True)
        return ran.returncode, ran.stdout, ran.stderr

    def ceilings(self):
        return json.loads((self.root / CEILINGS).read_text())


class Measure(unittest.TestCase):
    def setUp(self):
        self.tree = Tree(TREE)
        self.addCleanup(self.tree.folder.cleanup)
        self.assertEqual(self.tree.measure("--update")[0], 0)

    def check(self, *figures):
        """Checks that these figures fail, each in a line with its value, its limit and a next step."""
        status, _, errors = self.tree.measure()
        self.assertEqual(status, 1 if figures else 0, errors)
        for figure in figures:
            self.assertRegex(errors, rf"(?m)^{figure} is [\d.]+, (ceiling|floor) [\d.]+: \w+ .+$")
        return errors

    def test_figures_of_a_known_tree(self):
        figures = json.loads(self.tree.measure("--json")[1])
        # 40 tokens in each library, the attribute of the test module among them.
        self.assertEqual(figures.pop("crates"), {"more": 6, "sums": 6})
        self.assertEqual(figures.pop("size"), 12)
        self.assertEqual(figures.pop("median_line_file"), 6)
        self.assertEqual(set(figures.values()), {0})

    def test_the_same_tree_passes(self):
        self.check()

    def test_each_worse_figure_fails(self):
        tried = {"names_in_5_files", "median_line_file"}
        for figure, (path, text) in WORSE.items():
            with self.subTest(figure):
                before = (self.tree.root / path).read_text()
                self.tree.append(path, text)
                self.check(figure)
                self.tree.write(path, before)
            tried.add(figure)
        self.check()
        self.assertEqual(tried, set(self.tree.ceilings()["tree"]))

    def test_a_name_in_five_files_fails(self):
        for number in range(5):
            self.tree.write(f"sums/src/part_{number}.rs", "struct SumPart;\n")
        self.check("names_in_5_files")

    def test_a_smaller_median_file_fails(self):
        for crate in ("sums", "more"):
            self.tree.write(f"{crate}/src/lib.rs", "fn add_two() {}\n")
        errors = self.check("median_line_file")
        self.assertNotIn("size", errors)

    def test_a_larger_crate_fails_until_it_is_allowed(self):
        self.tree.append("sums/src/lib.rs", WORSE["size"][1])
        self.tree.write("more/src/lib.rs", "/// A sum.\nfn no_sum() {}\n")
        self.tree.append("sums/src/lib.rs", LIBRARY.split("#[cfg(test)]")[0])
        self.assertRegex(self.check("size"), r"size of sums is \d+, ceiling 6: .*--allow sums")
        self.assertEqual(self.tree.measure("--allow", "sums")[0], 2)
        self.assertEqual(self.tree.measure("--allow", "none", "--reason", "why")[0], 2)
        before = self.tree.ceilings()
        # The size of the tree is still too large.
        status, _, errors = self.tree.measure("--allow", "sums", "--reason", "sums more")
        self.assertEqual(status, 1)
        self.assertNotIn("size of sums", errors)
        after = self.tree.ceilings()
        self.assertEqual(after["tree"], before["tree"])
        self.assertEqual(after["crates"]["more"], before["crates"]["more"])
        self.assertEqual(after["crates"]["sums"]["reason"], "sums more")

    def test_a_new_crate_fails(self):
        self.tree.write("new/Cargo.toml", MANIFEST)
        self.tree.write("new/src/lib.rs", LIBRARY)
        self.assertRegex(self.check("size"), "size of new is 6, ceiling 0: ")
        self.tree.measure("--update")
        self.assertNotIn("new", self.tree.ceilings()["crates"])

    def test_update_never_raises(self):
        before = self.tree.ceilings()
        for path, text in WORSE.values():
            self.tree.append(path, text)
        self.assertEqual(self.tree.measure("--update")[0], 1)
        after = self.tree.ceilings()
        # The one floor rises: the added text makes the files larger.
        self.assertGreater(after["tree"].pop("median_line_file"), before["tree"].pop("median_line_file"))
        self.assertEqual(after, before)

    def test_update_lowers_what_is_better(self):
        (self.tree.root / CEILINGS).unlink()
        for path, text in WORSE.values():
            self.tree.append(path, text)
        self.tree.measure("--update")
        before = self.tree.ceilings()
        for path, text in TREE.items():
            self.tree.write(path, text)
        self.check("median_line_file")
        self.tree.measure("--update")
        after = self.tree.ceilings()
        self.assertEqual(after["crates"]["sums"]["size"], 6)
        for figure in WORSE:
            self.assertLess(after["tree"][figure], before["tree"][figure], figure)
        self.assertEqual(after["tree"]["median_line_file"], before["tree"]["median_line_file"])

    def test_a_removed_crate_leaves_the_ceilings(self):
        subprocess.run(["git", "-C", self.tree.root, "rm", "-rqf", "more"], check=True)
        self.check()
        self.tree.measure("--update")
        self.assertEqual(list(self.tree.ceilings()["crates"]), ["sums"])

    def test_the_worst_places_are_shown(self):
        self.tree.append("sums/src/lib.rs", "// It is told who asks.\n")
        status, output, _ = self.tree.measure("--worst", "5", "--figure", "tics_comments")
        self.assertEqual(status, 0)
        self.assertIn("sums/src/lib.rs:23  It is told who asks.", output)


if __name__ == "__main__":
    unittest.main()
