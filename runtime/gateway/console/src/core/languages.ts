/** The languages that have syntax colours, each as a table for `LineScanner`. */

import type { LineScanner, SyntaxLanguage, SyntaxRegion } from "./syntax.ts";

type Styles = { [style: string]: string };

/** Words by style, as lists. */
function words(styles: Styles): Map<string, string> {
  return new Map(Object.entries(styles).flatMap(([style, list]) => list.split(" ").map((word): [string, string] => [word, `s-${style}`])));
}

const comment = (open: string, behind?: string): SyntaxRegion => ({ open, close: "", style: "s-comment", ...(behind === undefined ? {} : { behind }) });
const block = (open: string, close: string, nests = false): SyntaxRegion => ({ open, close, style: "s-comment", spans: true, nests });
const quoted = (mark: string): SyntaxRegion => ({ open: mark, close: mark, style: "s-string", escapes: true });
const spanning = (mark: string, escapes = true): SyntaxRegion => ({ open: mark, close: mark, style: "s-string", escapes, spans: true });

const SLASHES = [comment("//"), block("/*", "*/")];
const QUOTES = [quoted('"'), quoted("'")];

/** Takes what a sticky pattern matches. */
function takes(line: LineScanner, pattern: RegExp, style: string): boolean {
  const found = line.match(pattern);
  if (found) line.take(found[0].length, style);
  return found !== null && found[0] !== "";
}

const annotation = (line: LineScanner): boolean => takes(line, /@[A-Za-z_][\w.]*/y, "s-meta");

const REGEX_AFTER = "(,=:[!&|?{};+-*%<>~^";

/** Returns the length of a regular expression, if its line closes it. */
function regexLength(text: string, from: number): number | undefined {
  let inClass = false;
  for (let at = from + 1; at < text.length; at += 1) {
    const c = text[at];
    if (c === "\\") at += 1;
    else if (c === "[") inClass = true;
    else if (c === "]") inClass = false;
    else if (c === "/" && !inClass) return at + 1 - from;
  }
  return undefined;
}

const javascript: SyntaxLanguage = {
  regions: [...SLASHES, ...QUOTES, { ...spanning("`"), hole: "${" }],
  capitals: true,
  words: words({
    keyword: "abstract as asserts async await break case catch class const continue debugger declare default delete do else enum export extends finally for from function get if implements import in infer instanceof interface is keyof let namespace new of override package private protected public readonly return satisfies set static super switch this throw try type typeof var void while with yield",
    number: "true false null undefined NaN Infinity",
    type: "any bigint boolean never number object string symbol unknown",
  }),
  special(line) {
    const { text, at, last } = line;
    if (text[at] === "/" && text[at + 1] !== "/" && text[at + 1] !== "*" && (last === "" || REGEX_AFTER.includes(last) || line.lastStyle === "s-keyword")) {
      const length = line.once("regex", () => regexLength(text, at));
      if (length === undefined) return false;
      line.take(length, "s-string");
      return takes(line, /[a-z]{1,8}/y, "s-string") || true;
    }
    if (text[at] === "<" && (line.lastStyle === "s-keyword" || !/[\w)\]]/.test(last))) {
      const tag = line.match(/<\/?([A-Za-z][\w.-]*)/y);
      if (tag?.[1] === undefined) return false;
      line.take(tag[0].length - tag[1].length);
      line.take(tag[1].length, "s-tag");
      return true;
    }
    // Attributes of a tag; other code has a space there.
    return takes(line, /[A-Za-z][\w-]{0,60}(?==["'{])/y, "s-key") || annotation(line);
  },
};

const json: SyntaxLanguage = {
  regions: SLASHES,
  words: words({ number: "true false null" }),
  special(line) {
    if (line.text[line.at] !== '"') return false;
    const string = line.match(/"(?:[^"\\]|\\.)*"?/y);
    if (!string) return false;
    let next = line.at + string[0].length;
    while (line.text[next] === " ") next += 1;
    line.take(string[0].length, line.text[next] === ":" ? "s-key" : "s-string");
    return true;
  },
};

const python: SyntaxLanguage = {
  regions: [comment("#"), spanning('"""'), spanning("'''"), ...QUOTES],
  capitals: true,
  words: words({
    keyword: "and as assert async await break case class continue def del elif else except finally for from global if import in is lambda match nonlocal not or pass raise return try while with yield",
    number: "True False None",
    type: "bool bytes dict float int list object set str tuple",
    meta: "self cls",
  }),
  special: annotation,
};

const rust: SyntaxLanguage = {
  regions: [comment("//"), block("/*", "*/", true), spanning('"')],
  capitals: true,
  words: words({
    keyword: "as async await break const continue crate dyn else enum extern fn for if impl in let loop macro_rules match mod move mut pub ref return self Self static struct super trait type union unsafe use where while",
    number: "true false",
    type: "bool char f32 f64 i8 i16 i32 i64 i128 isize str u8 u16 u32 u64 u128 usize",
  }),
  special(line) {
    const c = line.text[line.at];
    if (c === "r" || c === "b") {
      const raw = line.match(/b?r(#{0,8})"/y);
      if (!raw) return false;
      line.take(raw[0].length, "s-string");
      const close = `"${raw[1] ?? ""}`;
      line.push({ region: { open: raw[0], close, style: "s-string", spans: true }, close, depth: 0 });
      return true;
    }
    if (c === "'") return takes(line, /'(?:\\(?:u\{[\da-fA-F_]{1,8}\}|x[\da-fA-F]{2}|.)|[^\\'][\udc00-\udfff]?)'/y, "s-string") || takes(line, /'[A-Za-z_]\w*/y, "s-meta");
    if (c === "#") return takes(line, /#!?\[[\w:]*/y, "s-meta");
    return takes(line, /[A-Za-z_]\w*!(?!=)/y, "s-name");
  },
};

const go: SyntaxLanguage = {
  regions: [...SLASHES, ...QUOTES, spanning("`", false)],
  words: words({
    keyword: "break case chan const continue default defer else fallthrough for func go goto if import interface map package range return select struct switch type var",
    number: "true false nil iota",
    type: "any bool byte complex64 complex128 error float32 float64 int int8 int16 int32 int64 rune string uint uint8 uint16 uint32 uint64 uintptr",
  }),
};

const java: SyntaxLanguage = {
  regions: [...SLASHES, spanning('"""'), ...QUOTES],
  capitals: true,
  words: words({
    keyword: "abstract as assert base break by case catch class companion const constructor continue data default def delegate do else enum explicit extends extension final finally for fun func get goto guard if implements import in init inline inner instanceof interface internal is lateinit let module namespace native new object open operator out override package params partial permits private protected public readonly record ref return sealed self set static strictfp struct super suspend switch synchronized this throw throws transient try typealias typeof using val var virtual volatile when where while with yield",
    number: "true false null nil",
    type: "bool boolean byte char decimal double float int long short string uint ulong void",
  }),
  special: annotation,
};

const c: SyntaxLanguage = {
  regions: [...SLASHES, ...QUOTES],
  capitals: true,
  words: words({
    keyword: "alignas alignof auto break case catch class co_await co_return co_yield concept const consteval constexpr const_cast continue decltype default delete do dynamic_cast else enum explicit export extern final for friend goto if inline mutable namespace new noexcept operator override private protected public register reinterpret_cast requires restrict return sizeof static static_assert static_cast struct switch template this thread_local throw try typedef typeid typename union using virtual volatile while",
    number: "true false nullptr NULL",
    type: "bool char double float int int8_t int16_t int32_t int64_t long ptrdiff_t short signed size_t ssize_t std uint8_t uint16_t uint32_t uint64_t unsigned void wchar_t",
  }),
  special: (line) => line.last === "" && takes(line, /#[ \t]{0,20}[a-z]+/y, "s-meta"),
};

const BEGINS_COMMAND = "|;&({!`";
const BEFORE_COMMAND = /(?:^|\s)(?:if|then|do|else|elif|while|until|time|exec|eval)[ \t]+$/;

const shell: SyntaxLanguage = {
  regions: [comment("#", " \t;"), spanning('"'), { ...spanning("'"), escapes: false }],
  word: /[A-Za-z_][\w.-]*/y,
  words: words({ keyword: "if then else elif fi for in do done while until case esac function select time return exit export local readonly declare set unset source alias eval exec trap shift break continue" }),
  special(line) {
    const { text, at } = line;
    const here = text[at];
    if (here === "\\") return takes(line, /\\.?/y, "");
    if (here === "$") return takes(line, /\$(?:\w+|\{[^}"']{0,200}\}|[@*#?$!-])/y, "s-key");
    if (here === "<") {
      const document = line.match(/<<-?[ \t]{0,8}(["']?)(\w{1,40})\1/y);
      if (!document || text[at + 2] === "<") return false;
      line.take(document[0].length, "s-meta");
      // The text ends with a line that is only the word.
      line.next = { region: { open: "", close: "", style: "s-string", spans: true }, close: `\n${document[2]}`, depth: 0 };
      return true;
    }
    const isCommand = line.last === "" || BEGINS_COMMAND.includes(line.last) || BEFORE_COMMAND.test(text.slice(Math.max(0, at - 20), at));
    if (here === "-" && !isCommand && /\s/.test(text[at - 1] ?? "")) return takes(line, /--?[A-Za-z][\w-]*/y, "s-key");
    const word = line.match(/[A-Za-z_][\w.-]*/y);
    if (!word) return false;
    const known = shell.words?.get(word[0]);
    if (isCommand && text[at + word[0].length] === "=") line.take(word[0].length, "s-key");
    else if (isCommand) line.take(word[0].length, known ?? "s-name");
    else line.take(word[0].length, word[0] === "in" ? "s-keyword" : "");
    return true;
  },
  scan(line) {
    const close = line.state?.region?.open === "" ? line.state.close : "";
    if (close.startsWith("\n") && line.text.replace(/^\t{1,40}/, "") === close.slice(1)) {
      line.take(line.text.length, "s-meta");
      line.pop();
    } else if (close.startsWith("\n")) line.take(line.text.length, "s-string");
    else while (line.at < line.text.length) line.step();
  },
};

/** Commands behind a prompt, between what they print. */
const terminal: SyntaxLanguage = {
  scan(line) {
    const prompt = line.state ? null : line.match(/[^\s$#%>]{0,80}[$%>] /y);
    if (prompt) line.take(prompt[0].length, "s-meta");
    if (prompt) line.embed(shell, undefined, line.text.length);
    else line.take(line.text.length);
  },
};

const docker: SyntaxLanguage = {
  ...shell,
  special(line) {
    if (line.last === "" && takes(line, /(?:ADD|ARG|CMD|COPY|ENTRYPOINT|ENV|EXPOSE|FROM|HEALTHCHECK|LABEL|ONBUILD|RUN|SHELL|STOPSIGNAL|USER|VOLUME|WORKDIR)\b/iy, "s-keyword")) return true;
    return takes(line, /AS\b/iy, "s-keyword") || (shell.special?.(line) ?? false);
  },
};

const css: SyntaxLanguage = {
  regions: [...SLASHES, ...QUOTES],
  word: /(?:--|-|\$)?[A-Za-z_\u00aa-\uffff][\w-]*/y,
  number: /\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?:%|[a-z]*)/y,
  special(line) {
    const { text, at } = line;
    const here = text[at];
    if (here === "@") return takes(line, /@[\w-]+/y, "s-keyword");
    if (here === "!") return takes(line, /![a-z]+/y, "s-keyword");
    if (here === "#") return takes(line, /#(?:[\da-fA-F]{8}|[\da-fA-F]{6}|[\da-fA-F]{3,4})\b/y, "s-number") || takes(line, /#[\w-]+/y, "s-type");
    if (here === ".") return takes(line, /\.[A-Za-z_][\w-]*/y, "s-type");
    const word = line.match(/(?:--|-|\$)?[A-Za-z_][\w-]*(?=[ \t]{0,20}:)/y);
    const isProperty = word && !/[a-z]:?$/.test(line.last) && line.once("brace", () => (text.indexOf("{", at) >= 0 ? true : undefined)) === undefined;
    if (word && isProperty) line.take(word[0].length, "s-key");
    return isProperty === true;
  },
};

const yaml: SyntaxLanguage = {
  regions: [comment("#", " \t"), spanning('"'), { ...spanning("'"), escapes: false }],
  word: /[A-Za-z_\u00aa-\uffff][\w$.\u00aa-\uffff/-]*/y,
  words: words({ number: "true false null yes no on off True False" }),
  special(line) {
    const { text, at, last } = line;
    if (last === "" || last === "-" || last === "{" || last === ",") {
      if (takes(line, /(?:---|\.\.\.)$/y, "s-meta")) return true;
      const key = line.match(/(?:"[^"]{0,200}"|'[^']{0,200}'|[^\s#:,[\]{}"'&*!|>%@`-][^:#,{}]{0,200}):(?=[ \t]|$)/y);
      if (key) {
        line.take(key[0].length - 1, "s-key");
        line.take(1);
        return true;
      }
    }
    // A quote within a word begins nothing.
    if ((text[at] === "'" || text[at] === '"') && /\w/.test(text[at - 1] ?? "")) {
      line.take(1);
      return true;
    }
    return takes(line, /[&*!][\w!/-]+/y, "s-meta");
  },
};

const toml: SyntaxLanguage = {
  regions: [comment("#"), comment(";"), spanning('"""'), spanning("'''", false), quoted('"'), { ...quoted("'"), escapes: false }],
  words: words({ number: "true false" }),
  number: /[\d][\w:.+-]*/y,
  special: (line) => line.last === "" && (takes(line, /\[{1,2}[^\]]{0,200}\]{1,2}/y, "s-type") || takes(line, /[\w.-]+(?=[ \t]{0,20}=)/y, "s-key")),
};

const sql: SyntaxLanguage = {
  regions: [comment("--"), block("/*", "*/"), { ...spanning("'"), escapes: false }, quoted('"'), quoted("`")],
  ignoresCase: true,
  words: words({
    keyword: "add all alter analyze and any as asc begin between by cascade case check column commit constraint create cross database default delete desc distinct drop each else end except exists explain false fetch first for foreign from full function grant group having if ilike in index inner insert intersect into is join key language left like limit materialized natural not null nulls of offset on or order outer over partition primary procedure references replace returning returns revoke right rollback row rows select set table temporary then to transaction trigger true truncate union unique update using values view when where window with without",
    type: "bigint blob boolean bytea char date datetime decimal double float int integer interval json jsonb numeric real serial smallint text time timestamp timestamptz uuid varchar",
  }),
};

const ruby: SyntaxLanguage = {
  regions: [comment("#", " \t"), { ...spanning('"'), hole: "#{" }, ...QUOTES],
  capitals: true,
  words: words({ keyword: "alias and attr_accessor attr_reader begin break case class def defined? do else elsif end ensure extend for if in include module next not or private protected public raise redo require require_relative rescue retry return self super then undef unless until when while yield", number: "true false nil" }),
  special: (line) => takes(line, /:[A-Za-z_]\w*/y, "s-string") || takes(line, /@{1,2}\w+/y, "s-key"),
};

const php: SyntaxLanguage = {
  regions: [...SLASHES, comment("#"), spanning('"'), spanning("'")],
  capitals: true,
  words: words({ keyword: "abstract and array as break case catch class clone const continue declare default do echo else elseif enum extends final finally fn for foreach function global if implements include instanceof interface isset list match namespace new or print private protected public readonly require require_once return self static switch this throw trait try unset use var while yield", number: "true false null", type: "bool float int mixed never string void" }),
  special: (line) => takes(line, /\$\w+/y, "s-key") || takes(line, /<\?(?:php|=)?|\?>/y, "s-meta") || takes(line, /#\[/y, "s-meta"),
};

const lua: SyntaxLanguage = {
  regions: [block("--[[", "]]"), comment("--"), ...QUOTES, { open: "[[", close: "]]", style: "s-string", spans: true }],
  words: words({ keyword: "and break do else elseif end for function goto if in local not or repeat return then until while", number: "true false nil" }),
};

const make: SyntaxLanguage = {
  regions: [comment("#"), ...QUOTES],
  words: words({ keyword: "define else endef endif export ifdef ifeq ifndef ifneq include override" }),
  special: (line) => takes(line, /\$(?:[({][^)}]{0,200}[)}]|\S)/y, "s-key") || (line.last === "" && line.at === 0 && takes(line, /[\w./%$-]+(?=[ \t]{0,20}:(?!=))/y, "s-name")),
};

const string = spanning('"', false);
const MARKUP_REGIONS: SyntaxRegion[] = [block("<!--", "-->"), { open: "<![CDATA[", close: "]]>", style: "s-string", spans: true }, { open: "<!", close: ">", style: "s-meta", spans: true }, { open: "<?", close: "?>", style: "s-meta", spans: true }];

const markup: SyntaxLanguage = {
  scan(line) {
    while (line.at < line.text.length) markupStep(line);
  },
};

function markupStep(line: LineScanner): void {
  const { text, at, state } = line;
  if (state?.region) return line.step();
  if (state?.embedded) {
    const close = new RegExp(state.close === "script" ? "</script" : "</style", "gi");
    close.lastIndex = at;
    const end = close.exec(text)?.index;
    const inner = line.embed(state.embedded, state.inner, end ?? text.length);
    if (end === undefined) line.state = { ...state, inner };
    else line.pop();
    return;
  }
  const here = text[at] ?? "";
  if (state?.tag !== undefined) {
    if (here === ">") {
      const name = line.last === "/" ? "" : state.tag;
      line.take(1);
      line.pop();
      if (name === "script" || name === "style") line.push({ close: name, depth: 0, embedded: name === "script" ? javascript : css });
    } else if (here === '"' || here === "'") {
      line.take(1, "s-string");
      line.push({ region: string, close: here, depth: 0 });
    } else if (!takes(line, /[^\s"'<>/=]+/y, line.last === "=" ? "s-string" : "s-key")) line.take(1);
    return;
  }
  if (here === "&" && takes(line, /&#?\w{1,30};/y, "s-number")) return;
  if (here === "<") {
    for (const region of MARKUP_REGIONS) {
      if (!text.startsWith(region.open, at)) continue;
      line.take(region.open.length, region.style);
      return line.push({ region, close: region.close, depth: 0 });
    }
    const tag = line.match(/<(\/?)([A-Za-z][\w:.-]*)/y);
    if (tag?.[2] !== undefined) {
      line.take(tag[0].length - tag[2].length);
      line.take(tag[2].length, "s-tag");
      return line.push({ close: "", depth: 0, tag: tag[1] === "" ? tag[2].toLowerCase().slice(0, 10) : "/" });
    }
  }
  line.take(takesTo(text, at + 1, "<&") - at);
}

/** Returns the place of the first of some characters, or the end. */
function takesTo(text: string, from: number, characters: string): number {
  let at = from;
  while (at < text.length && !characters.includes(text[at] ?? "")) at += 1;
  return at;
}

const markdown: SyntaxLanguage = {
  scan(line) {
    const { text, state } = line;
    const fence = /^[ \t]{0,12}(`{3,}|~{3,})([^`]*)$/.exec(text);
    if (state?.close !== undefined) {
      if (fence?.[1]?.startsWith(state.close) && fence[2]?.trim() === "") {
        line.take(text.length, "s-meta");
        return line.pop();
      }
      if (!state.embedded) return line.take(text.length);
      line.state = { ...state, inner: line.embed(state.embedded, state.inner, text.length) };
      return;
    }
    if (fence) {
      line.take(text.length, "s-meta");
      const embedded = languageNames.get((fence[2] ?? "").trim().toLowerCase().slice(0, 20));
      const inner = embedded && embedded !== markdown ? { embedded } : {};
      return line.push({ close: (fence[1] ?? "```").slice(0, 40), depth: 0, ...inner });
    }
    if (takes(line, /[ \t]{0,12}#{1,6}[ \t][^]*/y, "s-keyword") || takes(line, /[ \t]{0,40}>[^]*/y, "s-comment")) return;
    takes(line, /[ \t]{0,40}(?:[-*+]|\d{1,9}[.)])[ \t]/y, "s-meta");
    while (line.at < text.length) {
      const end = text[line.at] === "`" ? (line.once("tick", () => (text.indexOf("`", line.at + 1) + 1 || undefined)) ?? 0) : 0;
      if (end > 0) line.take(end - line.at, "s-string");
      else line.take(takesTo(text, line.at + 1, "`") - line.at);
    }
  },
};

const diff: SyntaxLanguage = {
  scan(line) {
    const { text } = line;
    const isHead = /^(?:diff |index |--- |\+\+\+ |@@|\\|Index: |=====)/.test(text);
    line.take(text.length, isHead ? "s-meta" : text.startsWith("+") ? "s-add" : text.startsWith("-") ? "s-del" : "");
  },
};

/** The languages by all their names and endings of files. */
export const languageNames = new Map<string, SyntaxLanguage>(([
  [javascript, "javascript js jsx mjs cjs typescript ts tsx mts cts node"],
  [json, "json jsonc json5 jsonl ndjson webmanifest"],
  [python, "python py python3 pyi"],
  [rust, "rust rs"],
  [go, "go golang"],
  [java, "java kotlin kt kts swift csharp c# cs scala groovy gradle dart"],
  [c, "c h cpp c++ cc cxx hpp hh objc m cuda cu glsl"],
  [shell, "shell sh bash zsh ksh fish bashrc zshrc profile env"],
  [terminal, "console terminal shell-session shellsession sh-session bash-session"],
  [docker, "dockerfile docker containerfile"],
  [markup, "html htm xml xhtml svg vue svelte rss plist xsl csproj"],
  [css, "css scss less sass"],
  [yaml, "yaml yml"],
  [toml, "toml ini cfg conf properties editorconfig lock"],
  [sql, "sql mysql postgres postgresql plsql sqlite"],
  [markdown, "markdown md mdx"],
  [diff, "diff patch udiff"],
  [ruby, "ruby rb rakefile gemfile"],
  [php, "php"],
  [lua, "lua"],
  [make, "makefile make mk"],
] as [SyntaxLanguage, string][]).flatMap(([language, names]) => names.split(" ").map((name): [string, SyntaxLanguage] => [name, language])));
