import assert from "node:assert/strict";
import { test } from "node:test";
import { diffSyntax, diffView } from "../src/core/diff.ts";
import { Fold } from "../src/core/fold.ts";
import { languageNames } from "../src/core/languages.ts";
import { markdown } from "../src/core/markdown.ts";
import type { TextRow } from "../src/core/rows.ts";
import { LineScanner, MAX_COLOURED, MAX_LINE, MAX_TOKENS, SyntaxLines, fenceLanguage, fileLanguage, syntaxLine } from "../src/core/syntax.ts";
import type { SyntaxLanguage, SyntaxState, SyntaxToken } from "../src/core/syntax.ts";
import { seeded } from "./seeded.ts";

const language = (name: string): SyntaxLanguage => languageNames.get(name) ?? assert.fail(name);
const linesOf = (name: string, text: string, before?: SyntaxState): SyntaxLines => {
  const lines = new SyntaxLines(language(name), before);
  lines.update(text);
  return lines;
};
/** Tokens as `style(text)`, a line each. */
const shown = (tokens: SyntaxToken[]): string => tokens.map(({ style, text }) => (style === "" ? text : `${style.slice(2)}(${text})`)).join("");
const coloured = (name: string, text: string): string => linesOf(name, text).lines.map((line) => shown(line.tokens)).join("\n");

test("each language has its tokens", () => {
  const cases: [string, string, string][] = [
    ["ts", "const x: number = f('a\\'b', 0x1F); // end", "keyword(const) x: type(number) = name(f)(string('a\\'b'), number(0x1F)); comment(// end)"],
    ["ts", "/* a\nb */ c", "comment(/* a)\ncomment(b */) c"],
    ["ts", "`a ${f({ b: `c` })} d\n${e}`", "string(`a )${name(f)({ b: string(`c`) })}string( d)\n${e}string(`)"],
    ["js", "x = /a[/]\\//g; y = a / b / 2", "x = string(/a[/]\\//g); y = a / b / number(2)"],
    ["js", "a.default.class", "a.default.class"],
    ["tsx", "return <div class=\"a\">it's {x}</div>;", "keyword(return) <tag(div) key(class)=string(\"a\")>it's {x}</tag(div)>;"],
    ["json", '{"a\\"": "b", "c": [1.5e3, true]}', '{key("a\\""): string("b"), key("c"): [number(1.5e3), number(true)]}'],
    ["python", '@x\ndef f(self):\n    """a\n    \'b" """\n    return None  # "c', 'meta(@x)\nkeyword(def) name(f)(meta(self)):\n    string("""a)\nstring(    \'b" """)\n    keyword(return) number(None)  comment(# "c)'],
    ["rust", "#[arg(\"]\")]\nfn f<'a>(c: char) { let d = 'x'; println!(r#\"a\"b\"#) /* /* */ */ }", "meta(#[arg)(string(\"]\"))]\nkeyword(fn) f<meta('a)>(c: type(char)) { keyword(let) d = string('x'); name(println!)(string(r#\"a\"b\"#)) comment(/* /* */ */) }"],
    ["rust", "let s = \"a\nb\";", "keyword(let) s = string(\"a)\nstring(b\");"],
    ["go", "func f() error { s := `a\n\\` }", "keyword(func) name(f)() type(error) { s := string(`a)\nstring(\\`) }"],
    ["java", "@Override public Foo f() { return \"\"\"\n a \"\"\"; }", "meta(@Override) keyword(public) type(Foo) name(f)() { keyword(return) string(\"\"\")\nstring( a \"\"\"); }"],
    ["cpp", "#include <a>\nint main() { char c = '\"'; return 0; }", "meta(#include) <a>\ntype(int) name(main)() { type(char) c = string('\"'); keyword(return) number(0); }"],
    ["bash", "for f in *.sh; do cat -n \"$f\" | grep '#' # x\ndone", "keyword(for) f keyword(in) *.sh; keyword(do) name(cat) key(-n) string(\"$f\") | name(grep) string('#') comment(# x)\nkeyword(done)"],
    ["bash", "cat <<'END'\nit's $x\nEND\nA=1 $B", "name(cat) meta(<<'END')\nstring(it's $x)\nmeta(END)\nkey(A)=number(1) key($B)"],
    ["console", "$ ls -l\nit's a file\n# id", "meta($ )name(ls) key(-l)\nit's a file\n# id"],
    ["html", "<!-- a\n--><a href='x' b>it's &amp;</a>", "comment(<!-- a)\ncomment(-->)<tag(a) key(href)=string('x') key(b)>it's number(&amp;)</tag(a)>"],
    ["html", "<script>\nlet a = '</b>'; </script><i\nc=\"d\ne\">", "<tag(script)>\nkeyword(let) a = string('</b>'); </tag(script)><tag(i)\nkey(c)=string(\"d)\nstring(e\")>"],
    ["css", "a:hover, .b > #c { color: #fff; margin: 1.5px }\n@media x {", "a:hover, type(.b) > type(#c) { key(color): number(#fff); key(margin): number(1.5px) }\nkeyword(@media) x {"],
    ["yaml", "a-b: it's # c\n- d: [1, \"e: f\"]\n  on: true\nurl: http://x", "key(a-b): it's comment(# c)\n- key(d): [number(1), string(\"e: f\")]\n  key(on): number(true)\nkey(url): http://x"],
    ["toml", "[a.b] # c\nd-e = 'f\\' # g\nh = 1979-05-27", "type([a.b]) comment(# c)\nkey(d-e) = string('f\\') comment(# g)\nkey(h) = number(1979-05-27)"],
    ["sql", "select a FROM t WHERE b = 'it''s' -- c", "keyword(select) a keyword(FROM) t keyword(WHERE) b = string('it''s') comment(-- c)"],
    ["md", "# A\n- `b` c\n```js\nlet d\n```\n> e", "keyword(# A)\nmeta(- )string(`b`) c\nmeta(```js)\nkeyword(let) d\nmeta(```)\ncomment(> e)"],
    ["diff", "--- a\n+++ b\n@@ -1 +1 @@\n-c\n+d\n e", "meta(--- a)\nmeta(+++ b)\nmeta(@@ -1 +1 @@)\ndel(-c)\nadd(+d)\n e"],
    ["dockerfile", "FROM a AS b\nRUN npm ci --silent", "keyword(FROM) a keyword(AS) b\nkeyword(RUN) npm ci key(--silent)"],
    ["ruby", "puts \"a #{b} c\" if :d # e", "puts string(\"a )#{b}string( c\") keyword(if) string(:d) comment(# e)"],
    ["php", "<?php echo $a; // b", "meta(<?php) keyword(echo) key($a); comment(// b)"],
    ["lua", "local a = [[b\nc]] -- d", "keyword(local) a = string([[b)\nstring(c]]) comment(-- d)"],
    ["make", "all: $(B)\n\tcc # d", "name(all): key($(B))\n\tcc comment(# d)"],
  ];
  for (const [name, text, expected] of cases) assert.equal(coloured(name, text), expected, `${name}: ${text}`);
});

test("a language is known by its fence or its file, and others stay plain", () => {
  for (const [info, name] of [["TypeScript", "ts"], ["rust,ignore", "rs"], ["js{1,3}", "js"], ["{.python}", "py"], ["c++", "cpp"], ["Dockerfile", "docker"]]) assert.equal(fenceLanguage(info ?? ""), language(name ?? ""), info);
  for (const [path, name] of [["/a/b.test.tsx", "ts"], ["Dockerfile", "docker"], ["x/Dockerfile.dev", "docker"], ["a/.bashrc", "sh"], ["Cargo.lock", "toml"], ["Makefile", "make"], ["A.YML", "yaml"]]) assert.equal(fileLanguage(path ?? ""), language(name ?? ""), path);
  for (const name of ["", "text", "nothing", "__proto__", "constructor", "<script>", "js\"onload=x".slice(2)]) assert.equal(fenceLanguage(name), undefined, name);
  for (const name of ["", "a.txt", "README", "a/", "json.txt", "x.__proto__"]) assert.equal(fileLanguage(name), undefined, name);
});

const PIECES = [
  '"', "'", "`", "\\", "/*", "*/", "//", "#", "<!--", "-->", "${", "}", "{", "(", ")", "[", "]", "<", ">", "/", "=", ":", " ", "\t", "\n", "\n", "a", "Foo", "return", "r#\"", "\"#", "'''", '"""', "<script>", "</script>", "<style>", "</style>",
  "```", "```js\n", "~~~", "<<EOF", "EOF", "\nEOF\n", "$(", "$x", "@a", "-", "--", "0x", "1.5e3", "😀", "\ud83d", "ü", "\u2028", "--[[", "]]", "]]>", "<![CDATA[", "&amp;", "$ ", "@@", "+", ";", "!", "%", "#{", "\r", "class=", "key: ", "\u0000",
];

test("every character comes out once and in order, whatever the text", () => {
  const random = seeded(7);
  const pick = (): string => PIECES[Math.floor(random() * PIECES.length)] ?? "";
  const styles = new Set(["", ..."comment string number keyword name type key tag meta add del".split(" ").map((style) => `s-${style}`)]);
  for (const name of languageNames.keys()) {
    for (let round = 0; round < 30; round += 1) {
      const text = Array.from({ length: 40 }, pick).join("");
      const { lines, rest } = linesOf(name, text);
      assert.equal(lines.map((line) => line.tokens.map((token) => token.text).join("")).join("\n") + rest, text, name);
      for (const line of lines) for (const token of line.tokens) assert.ok(styles.has(token.style) && token.text !== "", `${name} ${token.style}`);
    }
  }
});

test("a text that grows has the colours that it has as a whole, and lines that stay are not read again", () => {
  const random = seeded(11);
  for (const name of new Set(["ts", "py", "rust", "sh", "html", "md", "yaml", "css", "sql", "json"])) {
    for (let round = 0; round < 20; round += 1) {
      const text = Array.from({ length: 60 }, () => PIECES[Math.floor(random() * PIECES.length)] ?? "").join("");
      const growing = new SyntaxLines(language(name));
      for (let end = 0; end < text.length; end += 1 + Math.floor(random() * 20)) {
        const known = growing.lines.slice(0, -1);
        growing.update(text.slice(0, end));
        known.forEach((line, at) => assert.equal(growing.lines[at], line, "the same line"));
      }
      growing.update(text);
      assert.deepEqual(growing.lines, linesOf(name, text).lines, name);
      // A change in the middle is seen as well.
      growing.update(`'${text}`);
      assert.deepEqual(growing.lines, linesOf(name, `'${text}`).lines, name);
    }
  }
});

test("a block that is drawn in parts has the colours of the whole", () => {
  const code = `x = 1\ns = """\n${"it's \"text\" # of 'a' string\n".repeat(1200)}"""\ny = 2  # end\n${"z = 'a'\n".repeat(2000)}`;
  const text = `Before.\n\n\`\`\`python\n${code}\`\`\`\n`;
  for (const size of [text.length, 1000]) {
    const fold = new Fold();
    for (let at = 0; at < text.length; at += size) fold.apply({ seq: at / size + 1, type: "output", content: text.slice(at, at + size) });
    const rows = fold.rows as TextRow[];
    assert.ok(rows.length > 5);
    const found = rows.flatMap((row) => markdown(row.text, row.fence, row.before)).flatMap((part) => (part.t === "code" ? [coloured_(part.text, part.before)] : []));
    assert.equal(found.join("\n"), coloured("python", code.trimEnd()));
  }
  function coloured_(part: string, before?: SyntaxState): string {
    return linesOf("python", part.replace(/\n$/, ""), before).lines.map((line) => shown(line.tokens)).join("\n");
  }
});

test("what is too long stays plain", () => {
  const long = `"${"a".repeat(MAX_LINE)}"`;
  assert.deepEqual(syntaxLine(language("js"), long).tokens, [{ style: "", text: long }]);
  const { lines, rest } = linesOf("js", "let a = 1;\n".repeat(100_000));
  const read = lines.map((line) => line.text).join("\n");
  assert.ok(read.length <= MAX_COLOURED && read.length > MAX_COLOURED - 100);
  assert.equal(read + rest, "let a = 1;\n".repeat(100_000));
  assert.equal(linesOf("js", "a".repeat(MAX_COLOURED + 1)).rest.length, MAX_COLOURED + 1);
  const dense = linesOf("js", "a(\n".repeat(15_000));
  assert.equal(dense.lines.reduce((sum, line) => sum + line.coloured, 0), MAX_TOKENS);
  assert.equal(dense.lines.map((line) => line.text).join("\n") + dense.rest, "a(\n".repeat(15_000));
  const patch = { path: "a.js", patch: `@@ -1 +1 @@\n${`+${"a(".repeat(900)}\n`.repeat(25)}` };
  assert.ok(diffSyntax(patch, diffView(patch).lines).reduce((sum, line) => sum + (line?.coloured ?? 0), 0) <= MAX_TOKENS + MAX_LINE);
  let state: SyntaxState | undefined;
  for (let at = 0; at < 1000; at += 1) state = syntaxLine(language("js"), "`${`${`${", state).after;
  let depth = 0;
  for (let each = state; each; each = each.outer) depth += 1;
  assert.ok(depth <= 20, `${depth} deep`);
});

test("changes have the colours of their file", () => {
  const texts = { path: "a/b.py", oldText: 's = """\na\nb\n"""\nx = 1\n', newText: 's = """\na\nc\n"""\nx = 1\n' };
  const { lines } = diffView(texts);
  assert.equal(diffSyntax(texts, lines).map((line) => (line ? shown(line.tokens) : "-")).join("|"), 's = string(""")|string(a)|string(b)|string(c)|string(""")|x = number(1)');
  const patch = { path: "b.py", patch: '@@ -1,2 +1,2 @@\n-"""a\n+b = 1\n c\n@@ -9 +9 @@\n def' };
  assert.equal(diffSyntax(patch, diffView(patch).lines).map((line) => (line ? shown(line.tokens) : "-")).join("|"), '-|string("""a)|b = number(1)|c|-|keyword(def)');
  assert.deepEqual(diffSyntax({ ...texts, path: "a/b.txt" }, lines), []);
});

/** Processor time of a task in milliseconds. */
function processorTime(task: () => void): number {
  const begun = process.cpuUsage();
  task();
  return process.cpuUsage(begun).user / 1000;
}

/** Compares the time of a whole with its four quarters. A busy machine gets a second and a third chance. */
function isLinear(run: (length: number) => void, length: number): boolean {
  for (let round = 0; round < 3; round += 1) {
    const whole = processorTime(() => run(length));
    // Too short to be compared, and short enough.
    if (whole < 20) return true;
    const parts = processorTime(() => [1, 2, 3, 4].forEach(() => run(length / 4)));
    if (whole < 2 * parts + 10) return true;
  }
  return false;
}

test("no line takes long: four times the length takes about four times as long", () => {
  const hostile = [
    '"', "'", "`", "\\", '\\"', "/*", "*/", "//", "/", "/[", "/a", "<", "<a", "<a ", "</", "<!--", "<!", "<?", "&", "&#", "&a", "${", "`${", "$(", "${{", "#", "#[", "# ", "(", "[", "{", "}", "=", "a=", "a:", "a: ", "- ", ": ", "a", "A", "_", "0", "0x", "1e", "1.", ".", "..", "@", "@a", "-a", " -a", "--", "r#\"", "r#", "br########", "'a", "'\\u{",
    "'''", '"""', "--[[", "[[", "]]", "<<a", "<<'a", "~~~", "```", "` ", "*", "+", "!", "a!", "%", " ", "\t", "\u0000", "😀", "\ud83d", "ü", "a b ", "a(", "a ( ", '"a" : ', '"a"  ', "'a' ", "a.b.", "a-b-", "a/b/", ",", ";", "|", "<script>", "</script", "<style>", "'\"", "\"'", "`'\"", "/*\"", "\"/*", "#{", "\"#{", ":a", "?", "{a:", "{{", "a {", "a  :", "a\t", "> ", "1) ", "AS ", "RUN ",
  ];
  for (const each of new Set(languageNames.values())) {
    const name = [...languageNames].find(([, known]) => known === each)?.[0];
    for (const piece of hostile) {
      assert.ok(isLinear((length) => new LineScanner(each, piece.repeat(length / piece.length), undefined).run(), 10_000), `${name} ${JSON.stringify(piece)}`);
    }
  }
});

test("1 MB of lines takes its time in proportion", () => {
  for (const [name, piece] of [["ts", "/* a\n`${"], ["html", "<a '\n<script>"], ["md", "```js\n`"], ["sh", "<<A '\n\""], ["py", "'''\n"]] as const) {
    const run = (length: number): void => {
      let state: SyntaxState | undefined;
      for (const line of `${piece}${" some words of a line".repeat(20)}\n`.repeat(length / 430).split("\n")) state = syntaxLine(language(name), line, state).after;
    };
    assert.ok(isLinear(run, 1_000_000), name);
  }
});
