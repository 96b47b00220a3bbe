import assert from "node:assert/strict";
import { test } from "node:test";
import { inline } from "../src/core/inline.ts";
import { markdown } from "../src/core/markdown.ts";
import { markdownText } from "../src/core/find.ts";
import { MAX_FORMULA, formula, formulaText } from "../src/core/math.ts";
import type { MathNode } from "../src/core/math.ts";
import { seeded } from "./seeded.ts";

const math = (text: string, display = false): unknown => ({ t: "math", text, display });

/** A tree as `tag(child child)`; what a leaf has stands for itself. */
function shown(tree: MathNode): string {
  const inner = tree.c.map((each) => (typeof each === "string" ? each : shown(each))).join(" ");
  if (tree.tag === "mspace") return `~${tree.attributes.width}`;
  if (tree.attributes.class === "m-source") return `source(${inner})`;
  return ["mi", "mn", "mo"].includes(tree.tag) ? inner : `${tree.tag.slice(1)}(${inner})`;
}
const drawn = (text: string): string => shown(formula(text) ?? assert.fail(text));

test("what is a formula in a line, and what stays text", () => {
  const cases: [string, unknown[]][] = [
    ["a $x^2$ b", ["a ", math("x^2"), " b"]],
    ["$a$, ($b$) $c$-axis the $n$th $\\$5$", [math("a"), ", (", math("b"), ") ", math("c"), "-axis the ", math("n"), "th ", math("\\$5")]],
    ["\\(a*b*c\\) and \\[d\\]", [math("a*b*c"), " and ", math("d", true)]],
    ["so $$e$$ too", ["so ", math("e", true), " too"]],
    ["**$f_1$** [$g$](https://b.example)", [{ t: "strong", c: [math("f_1")] }, " ", { t: "link", href: "https://b.example/", c: [math("g")] }]],
    ["$h\n+ i$", [math("h\n+ i")]],
    ...[
      "$5 and $10", "from $5-$10 to US$5 or A$6", "($5/month, $60/year)", "$HOME and $PATH", "$HOME/$USER", "$PATH:$HOME", "${A}/${B}", "$ x $", "$x $ y", "$a$1", "$", "$$", "$$$", "$$ $$", "a $x", "cost 5$ or 6$", "it is $5, or it is 6$", "$x `y",
    ].map((text): [string, unknown[]] => [text, [text]]),
    ["$a `b$c` d$", ["$a ", { t: "code", text: "b$c" }, " d$"]],
    ["\\$5 and 6\\$ \\$x$", ["$5 and 6$ $x$"]],
    ["\\(a \\[b", ["(a [b"]],
    ["`$x$` $y$", [{ t: "code", text: "$x$" }, " ", math("y")]],
    [`$${"a".repeat(MAX_FORMULA + 1)}$`, [`$${"a".repeat(MAX_FORMULA + 1)}$`]],
  ];
  for (const [text, expected] of cases) assert.deepEqual(inline(text), expected, text.slice(0, 60));
});

test("a paragraph has no more formulas than can be drawn", () => {
  const all = inline("$a$ ".repeat(3000));
  assert.equal(all.filter((each) => typeof each !== "string").length, 500);
});

test("formulas of several lines are blocks, whatever their lines begin with", () => {
  const block = (text: string): unknown => ({ t: "math", text });
  const paragraph = (...c: unknown[]): unknown => ({ t: "p", c });
  const cases: [string, unknown[]][] = [
    ["$$\na\n= b\n- c\n# d\n> e\n$$", [block("a\n= b\n- c\n# d\n> e")]],
    ["Thus\n\\[ x \\].\nand", [paragraph("Thus"), block("x."), paragraph("and")]],
    ["$$a$$ is one", [paragraph(math("a", true), " is one")]],
    ["\\[\na\n\\] where b", [block("a"), paragraph("where b")]],
    ["- one\n\n  $$\n  x\n  $$\n- two", [{ t: "list", ordered: false, start: 1, tight: false, items: [{ c: [paragraph("one"), block("x")] }, { c: [paragraph("two")] }] }]],
    ["> $$ y $$", [{ t: "quote", c: [block("y")] }]],
    // Streaming: until it is closed, it is text.
    ["$$\n\\frac{a}{b}", [paragraph("$$\n\\frac{a}{b}")]],
    ["$$\na\n\nb\n$$", [paragraph("$$\na"), paragraph("b\n$$")]],
    ["```\n$$\na\n$$\n```", [{ t: "code", lang: "", text: "$$\na\n$$" }]],
  ];
  for (const [text, expected] of cases) assert.deepEqual(markdown(text), expected, text);
});

test("each part of a formula has its elements", () => {
  const cases: [string, string][] = [
    ["E = mc^2", "row(E = m sup(c 2))"],
    ["x_i^{n+1}", "subsup(x i row(n + 1))"],
    ["x^23 f''", "row(sup(x 2) 3 sup(f ′′))"],
    ["\\frac12 \\dfrac{a}{b}", "row(frac(1 2) style(frac(a b)))"],
    ["\\sqrt{x} \\sqrt[3]{y}", "row(sqrt(x) root(y 3))"],
    ["\\sum_{i=1}^n i \\int_0^1", "row(underover(∑ row(i = 1) n) i subsup(∫ 0 1))"],
    ["\\lim_{x \\to 0} \\sin x, \\log(y)", "row(under(lim row(x → 0)) row(sin ~0.1667em) x , log ( y ))"],
    ["\\int\\limits_a^b", "underover(∫ a b)"],
    ["\\hat{x} \\vec v \\underbrace{a+b}_{c}", "row(over(x ^) over(v →) under(under(row(a + b) ⏟) c))"],
    ["\\alpha\\Gamma \\le \\infty - 1", "row(α Γ ≤ ∞ − 1)"],
    ["\\mathbb{R}^n \\mathcal{LA} \\mathbf{x1} \\mathfrak g", "row(sup(ℝ n) row(ℒ 𝒜) row(𝐱 𝟏) 𝔤)"],
    ["\\left( \\frac{a}{b} \\right]", "row(( frac(a b) ])"],
    ["\\left. x \\right|_0", "sub(row(x |) 0)"],
    ["\\begin{pmatrix} a & b \\\\ c & d \\end{pmatrix}", "row(( table(tr(td(a) td(b)) tr(td(c) td(d))) ))"],
    ["\\begin{cases} 1 & \\text{if } x \\\\ 0 \\end{cases}", "row({ table(tr(td(1) td(row(text(if\u00a0) x))) tr(td(0))))"],
    ["\\begin{array}{c|c} a \\\\[2pt] [b] \\end{array}", "table(tr(td(a)) tr(td(row([ b ]))))"],
    ["a &= b \\\\ &= c", "table(tr(td(a) td(row(= b))) tr(td(row()) td(row(= c))))"],
    ["\\operatorname*{arg\\,max}_\\theta \\operatorname{tr}(A)", "row(under(arg\u00a0max θ) tr ( A ))"],
    ["\\binom{n}{k} \\overset{!}{=} \\not= \\bigl( \\pmod{p}", "row(row(( frac(n k) )) over(= !) =\u0338 ( row(~0.5em ( mod ~0.2em p )))"],
    ["\\text{a {b} \\$ $c$} \\%", "row(text(a {b} $ $c$) %)"],
    ["{a \\over b} {n \\choose k} {\\bf x} x", "row(frac(a b) row(( frac(n k) )) 𝐱 x)"],
    ["\\foo{x} \\href{u}{v}", "row(source(\\foo) x source(\\href) u v)"],
    ["", "row()"], ["^2", "sup(row() 2)"], ["x^", "sup(x row())"], ["x_a_b^c^d", "subsup(x row(a b) row(c d))"], ["{a", "a"], ["a } b", "row(a source(}) b)"], ["\\frac", "frac(row() row())"],
    ["\\left( a", "row(( a)"], ["a \\right) \\end{x}", "row(a source(\\right) ) source(\\end) x)"], ["\\begin{pmatrix} a & {b", "row(( table(tr(td(a) td(b))) ))"], ["\\begin{nothing} a \\end{nothing}", "row(source(\\begin{nothing}) a source(\\end) row(n o t h i n g))"],
    ["{ \\left( a } b \\right)", "row(row(( a) b source(\\right) ))"], ["\\", "source(\\)"], ["😀x", "row(😀 x)"],
  ];
  for (const [text, expected] of cases) assert.equal(drawn(text), expected, text);
});

test("a formula is found as it is drawn", () => {
  assert.equal(markdownText("a $x_i \\le \\frac{1}{2}$ b\n\n$$\n\\alpha\n$$"), "a xi≤12 b\nα");
});

test("any text is a tree of elements and attributes of the page, of bounded depth and size", () => {
  const pieces = ["\\frac", "\\sqrt", "[", "]", "{", "}", "^", "_", "'", "&", "\\\\", "\\left", "\\right", "\\middle", "(", ")", "|", ".", "\\begin{matrix}", "\\end{matrix}", "\\begin{x}", "\\text{", "\\hat", "\\sum", "\\limits", "\\displaystyle", "\\mathbf", "\\substack{", "\\not", "\\", "\\ ", " ", "a", "12", "α", "😀", "\ud83d", "<b>", "%", "~", "\\foo", "\\operatorname*", "\\big", "$", "\n", "__proto__", "\\constructor", "\\tag", "\\color", "\\textcolor{", "\\colorbox", "\\over", "\\choose", "\\bf", "\\cancel", "\\begin{array}", "\\sqrt["];
  const random = seeded(3);
  const size = (tree: MathNode): number => tree.c.reduce((sum, each) => sum + (typeof each === "string" ? 0 : size(each)), 1);
  const depth = (tree: MathNode): number => tree.c.reduce((most, each) => Math.max(most, typeof each === "string" ? 0 : depth(each)), 0) + 1;
  const check = (text: string): void => {
    const tree = formula(text);
    if (!tree) return;
    assert.ok(size(tree) <= 4 * text.length + 4, `${size(tree)} of ${text.length}: ${text.slice(0, 80)}`);
    assert.ok(depth(tree) <= 150, `${depth(tree)} deep: ${text.slice(0, 80)}`);
    const visit = (each: MathNode): void => {
      for (const [name, value] of Object.entries(each.attributes)) assert.match(`${name}=${value}`, /^(class=m-[a-z]+|[a-z]+=(true|false|normal|prefix|-?\d+(\.\d+)?(em)?))$/);
      for (const inner of each.c) if (typeof inner !== "string") visit(inner);
    };
    visit(tree);
    assert.equal(typeof formulaText(tree), "string");
  };
  for (let round = 0; round < 1500; round += 1) check(Array.from({ length: 30 }, () => pieces[Math.floor(random() * pieces.length)] ?? "").join(""));
  const begun = process.cpuUsage();
  for (const piece of [...pieces, "{{", "x^", "x_{", "\\frac{", "\\sqrt[", "\\sqrt\\sqrt", "\\left(", "\\begin{cases}", "&&", "\\hat\\hat", "^{'", "\\text{\\", "\\\\[", "x^a", "\\not\\not", "\\frac\\frac"]) check(piece.repeat(Math.floor(MAX_FORMULA / piece.length)));
  assert.ok(process.cpuUsage(begun).user < 3_000_000, "no formula takes long");
  assert.equal(formula("{".repeat(100)), undefined);
  assert.equal(formula("a".repeat(MAX_FORMULA + 1)), undefined);
  assert.notEqual(formula(`${"{".repeat(20)}a`), undefined);
});
