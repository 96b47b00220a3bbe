import assert from "node:assert/strict";
import { test } from "node:test";
import { inline } from "../src/core/inline.ts";
import { markdown } from "../src/core/markdown.ts";
import type { Block } from "../src/core/markdown.ts";

const link = (href: string, ...c: string[]): unknown => ({ t: "link", href, c });
const em = (...c: unknown[]): unknown => ({ t: "em", c });
const strong = (...c: unknown[]): unknown => ({ t: "strong", c });
const code = (text: string): unknown => ({ t: "code", text });

test("what stands within a line", () => {
  const cases: [string, unknown[]][] = [
    ["plain", ["plain"]],
    ["*a* _b_ **c** __d__ ***e*** ~~f~~", [em("a"), " ", em("b"), " ", strong("c"), " ", strong("d"), " ", em(strong("e")), " ", { t: "del", c: ["f"] }]],
    ["snake_case_name and 2 * 3 * 4", ["snake_case_name and 2 * 3 * 4"]],
    ["**a *b* c**", [strong("a ", em("b"), " c")]],
    ["**open and *closed*", ["**open and ", em("closed")]],
    ["*a **b***", [em("a ", strong("b"))]],
    ["`a*b*` ``x`y`` `open", [code("a*b*"), " ", code("x`y"), " `open"]],
    ["` `` `", [code("``")]],
    ["\\*a\\* \\x", ["*a* \\x"]],
    ["[a](https://b.example/c)", [link("https://b.example/c", "a")]],
    ['[a](https://b.example "title") [b](<https://c.example/d e>)', [link("https://b.example/", "a"), " ", link("https://c.example/d%20e", "b")]],
    ["[a](https://en.example/wiki/A_(b))", [link("https://en.example/wiki/A_(b)", "a")]],
    ["[**a**](https://b.example)", [{ t: "link", href: "https://b.example/", c: [strong("a")] }]],
    ["[a [b](https://c.example)](https://d.example)", ["[a ", link("https://c.example/", "b"), "](", link("https://d.example/", "https://d.example"), ")"]],
    ["[a](javascript:1) [b](/path)", ["a (javascript:1) b (/path)"]],
    ["![alt](https://b.example/c.png)", [link("https://b.example/c.png", "image: ", "alt")]],
    ["<https://b.example/> <mailto:a@b.example> <b>", [link("https://b.example/", "https://b.example/"), " ", link("mailto:a@b.example", "mailto:a@b.example"), " <b>"]],
    ["see https://b.example/x_y_z, (https://c.example/d) end.", ["see ", link("https://b.example/x_y_z", "https://b.example/x_y_z"), ", (", link("https://c.example/d", "https://c.example/d"), ") end."]],
    ["**https://b.example/a**", [strong(link("https://b.example/a", "https://b.example/a"))]],
    ["a  \nb\\\nc\nd", ["a  ", { t: "br" }, "b", { t: "br" }, "c\nd"]],
    ["&lt;b&gt; &amp; &#65; &#x42; &nope; &#0;", ["<b> & A B &nope; &#0;"]],
    ["[ ] ] ![ a", ["[ ] ] ![ a"]],
  ];
  for (const [text, expected] of cases) assert.deepEqual(inline(text), expected, text);
});

test("blocks", () => {
  const cases: [string, Block[]][] = [
    ["# One\n\ntwo\nthree\n\n## Four ##", [{ t: "h", level: 1, c: ["One"] }, { t: "p", c: ["two\nthree"] }, { t: "h", level: 2, c: ["Four"] }]],
    ["a\n===\nb\n---", [{ t: "h", level: 1, c: ["a"] }, { t: "h", level: 2, c: ["b"] }]],
    ["```rust x\nfn a() {}\n\n  b\n```\nc", [{ t: "code", lang: "rust", text: "fn a() {}\n\n  b" }, { t: "p", c: ["c"] }]],
    ["~~~\n```\n~~~", [{ t: "code", lang: "", text: "```" }]],
    ["```\nopen", [{ t: "code", lang: "", text: "open" }]],
    ["    a\n\n    b", [{ t: "code", lang: "", text: "a\n\nb" }]],
    ["> a\n> > b\nlazy", [{ t: "quote", c: [{ t: "p", c: ["a"] }, { t: "quote", c: [{ t: "p", c: ["b\nlazy"] }] }] }]],
    ["***\n- - -", [{ t: "hr" }, { t: "hr" }]],
    ["- a\n- b\n  - c\n\n1. d", [
      { t: "list", ordered: false, start: 1, tight: true, items: [{ c: [{ t: "p", c: ["a"] }] }, { c: [{ t: "p", c: ["b"] }, { t: "list", ordered: false, start: 1, tight: true, items: [{ c: [{ t: "p", c: ["c"] }] }] }] }] },
      { t: "list", ordered: true, start: 1, tight: true, items: [{ c: [{ t: "p", c: ["d"] }] }] },
    ]],
    ["3. a\n\n4. b", [{ t: "list", ordered: true, start: 3, tight: false, items: [{ c: [{ t: "p", c: ["a"] }] }, { c: [{ t: "p", c: ["b"] }] }] }]],
    ["- [x] a\n- [ ] b", [{ t: "list", ordered: false, start: 1, tight: true, items: [{ task: true, c: [{ t: "p", c: ["a"] }] }, { task: false, c: [{ t: "p", c: ["b"] }] }] }]],
    ["text\n- a\ntext\n2. no list", [{ t: "p", c: ["text"] }, { t: "list", ordered: false, start: 1, tight: true, items: [{ c: [{ t: "p", c: ["a\ntext"] }] }] }, { t: "list", ordered: true, start: 2, tight: true, items: [{ c: [{ t: "p", c: ["no list"] }] }] }]],
    ["| a | b |\n|:--|--:|\n| 1 | `x|y` |\n| 2 |", [{ t: "table", align: ["left", "right"], head: [["a"], ["b"]], rows: [[["1"], [{ t: "code", text: "x|y" }]], [["2"], []]] }]],
    ["a | b\nno table", [{ t: "p", c: ["a | b\nno table"] }]],
    ["<div>\n<b>x</b>\n</div>", [{ t: "p", c: ["<div>\n<b>x</b>\n</div>"] }]],
  ];
  for (const [text, expected] of cases) assert.deepEqual(markdown(text), expected, text);
  assert.deepEqual(markdown("b\n```\nc", "```rust"), [{ t: "code", lang: "rust", text: "b" }, { t: "p", c: ["c"] }], "within a code block");
});

test("no text takes long", () => {
  const hostile = [
    "*a ", "**a*", "_a_b", "[", "![", "[a](", "[a](<", "[a](b ", "](", "`", "`` ` ", "<a", "<http://", "http://", "http://a.b/)", "http://a.b/)))))))))", "&#", "\\", "> ", "- ", "1. ", "  - a\n", "> - ", "| ", "|a|b|\n|-|-|\n", "#", "# # ",
    "\n", "a\n", "  \n", "* ", "* * * x", "_ _ _", "---\n", "~~a", "~~~\n", "```\n", "\t", "\t- ", "[a](b)", "**[a](https://b.c)", "*_*_", "h", "\u0000", "😀",
    "$", "$a", "$$", "$$ ", "$a$", "$$\n", "\\(", "\\[", "\\[a\n", "$$a\n", "\\(a\\)", "$a `", "\\[\n\n",
  ];
  for (const piece of hostile) {
    for (const text of [piece.repeat(Math.ceil(32_768 / piece.length)), `${piece.repeat(Math.ceil(16_384 / piece.length))}x${piece.split("").reverse().join("").repeat(Math.ceil(16_384 / piece.length))}`]) {
      // Time of the processor, and the best of some: other work on the machine says nothing of the text.
      let took = Infinity;
      for (let round = 0; round < 6 && took >= 100; round += 1) {
        const begun = process.cpuUsage();
        markdown(text);
        took = Math.min(took, process.cpuUsage(begun).user / 1000);
      }
      assert.ok(took < 100, `${JSON.stringify(piece)} took ${took.toFixed(0)} ms`);
    }
  }
});
