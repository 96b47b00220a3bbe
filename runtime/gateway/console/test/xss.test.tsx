import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import type { ComponentChild, ContainerNode } from "preact";
import { render } from "preact";
import { Fold } from "../src/core/fold.ts";
import type { RequestCard } from "../src/core/inbox.ts";
import { SessionOverview } from "../src/core/overview.ts";
import type { SessionStore } from "../src/core/session.ts";
import type { Entry } from "../src/core/types.ts";
import { EndingTurns } from "../src/ui/agents.tsx";
import { FileView } from "../src/ui/files.tsx";
import { SessionContext, ShellContext } from "../src/ui/hooks.ts";
import { Decided, Item, News } from "../src/ui/inbox.tsx";
import { Waiting } from "../src/ui/requests.tsx";
import { RowView } from "../src/ui/rows.tsx";
import { Excerpt } from "../src/ui/search.tsx";
import { FirstRun } from "../src/ui/sessions.tsx";
import { Code } from "../src/ui/text.tsx";
import { FakeElement, fakeDocument } from "./dom.ts";

Object.assign(globalThis, { document: fakeDocument, requestAnimationFrame: () => 0 });

const PAYLOADS = readFileSync("test/xss.txt", "utf8").split("\n").filter((line) => line !== "");

/** Elements that a transcript is made of, each with the attributes that it may have. */
const EVERYWHERE = ["class", "className", "title", "role", "tabIndex", "tabindex", "aria-label", "aria-expanded", "aria-hidden", "aria-haspopup", "aria-pressed", "data-key", "data-request", "data-shown", "aria-keyshortcuts", "hidden"];
const ALLOWED: { [element: string]: string[] } = {
  a: ["href", "rel", "target"], article: [], b: [], blockquote: [], br: [], button: ["type", "disabled"], code: [], dd: [], del: [], div: [], dl: [], dt: [],
  em: [], fieldset: [], figcaption: [], figure: [], form: ["autocomplete"], h1: [], h2: [], h3: [], h4: [], h5: [], h6: [], header: [], hr: [], i: [],
  input: ["type", "value", "checked", "disabled", "placeholder", "maxLength", "maxlength", "name", "required", "autocomplete", "inputMode", "inputmode"],
  label: [], legend: [], li: [], mark: [], ol: ["start"], option: ["value"], p: [], path: ["d"], pre: [], q: [], section: [], select: ["value"], span: [], strong: [],
  svg: ["viewBox"], math: ["display"], mi: ["mathvariant"], mn: [], mo: ["stretchy", "fence", "symmetric", "minsize", "maxsize", "movablelimits", "form", "lspace", "rspace"], mtext: [], mspace: ["width"],
  mrow: [], mfrac: ["linethickness"], msqrt: [], mroot: [], msub: [], msup: [], msubsup: [], munder: ["accentunder"], mover: ["accent"], munderover: [], mtable: ["displaystyle"], mtr: [], mtd: [], mstyle: ["displaystyle"], mphantom: [],
  table: [], tbody: [], td: [], th: [], thead: [], time: [], tr: [], ul: [],
};

const IN_CODE = ["js", "html", "md", "sh", "yaml", "css", "diff", "console"];
const IN_MATH = ["$a?b$", "$$\n?\n$$", "\\(?\\)", "\\[\\text{?}\\]", "$\\operatorname{?} \\color{?} \\textcolor{?}{x}$", "$$\\begin{?} a \\end{?}$$", "$$\\left?\\right? \\big? \\href{?}{x} \\class{?}{y} \\sqrt[?]{z}$$"];

function drawn(what: ComponentChild): FakeElement {
  const root = fakeDocument.createElement("div");
  const all = { get: () => true } as unknown as Map<string, boolean>;
  const store = { id: "s", open: all, turn: () => undefined, api: {} } as unknown as SessionStore;
  const shell = { api: {} as never, me: { scope: "control", may_approve: true, version: "", name: "" } };
  const page = <ShellContext.Provider value={shell}><SessionContext.Provider value={store}>{what}</SessionContext.Provider></ShellContext.Provider>;
  render(page, root as unknown as ContainerNode);
  return root;
}

function check(root: FakeElement, what: string): void {
  assert.ok(!root.text.includes("cannot be drawn"), what);
  for (const element of root.elements) {
    const allowed = Object.hasOwn(ALLOWED, element.localName) ? ALLOWED[element.localName] : undefined;
    assert.ok(allowed, `${what}: <${element.localName}>`);
    for (const [name, value] of element.attributes) {
      assert.ok(allowed.includes(name) || EVERYWHERE.includes(name), `${what}: <${element.localName} ${name}>`);
      if (name === "href") assert.match(String(value), /^(https?:\/\/[^\s<>"]+|mailto:[^\s<>"]+)$/, what);
      if (name === "data-shown" || name === "aria-keyshortcuts") assert.match(String(value), /^(\d+|[a-z]|undefined)$/, what);
      if (element.namespaceURI.endsWith("MathML") && name !== "class") assert.match(String(value), /^(true|false|normal|prefix|block|inline|-?\d+(\.\d+)?(em)?)$/, what);
      if (name === "rel") assert.equal(value, "noopener noreferrer nofollow");
      if (name === "class" || name === "className") assert.match(String(value), /^[\w -]*$/, what);
    }
    if (/^m([inosdt]|under|over|frac|sub|sup|sqrt|root|row|text|style|phantom|space|table|th)/.test(element.localName) && element.localName !== "mark") assert.ok(element.namespaceURI.endsWith("MathML"), what);
    if (element.localName === "a") assert.ok(element.attributes.has("rel") && element.attributes.has("href"), what);
  }
}

/** As `check`, for what is no transcript: links lead to sessions, and items have their key. */
function checkPage(root: FakeElement, what: string): void {
  for (const element of root.elements) {
    if (element.localName === "a") {
      assert.match(String(element.attributes.get("href")), /^#\/sessions\/[^\s<>"]*$/, what);
      element.attributes.set("href", "https://page.example/");
      element.attributes.set("rel", "noopener noreferrer nofollow");
    }
    for (const name of ["data-item", "data-done"]) element.attributes.delete(name);
  }
  check(root, what);
}

function rowsOf(entries: Entry[]): { root: FakeElement; fold: Fold } {
  const fold = new Fold();
  entries.forEach((entry, at) => fold.apply({ seq: at + 1, ...entry }));
  const rows = fold.rows.map((row) => <RowView row={row} version={row.version} turned={0} />);
  return { fold, root: drawn([...rows, ...[...fold.pending.values()].map((row) => <Waiting row={row} />)]) };
}

test("there are enough payloads", () => {
  assert.ok(new Set(PAYLOADS).size >= 200, `${PAYLOADS.length}`);
});

test("no text of an agent becomes an element or attribute that is not allowed", () => {
  for (const payload of PAYLOADS) {
    for (const text of [payload, `# ${payload}\n\n- ${payload}\n\n> ${payload}\n\n| a | b |\n|---|---|\n| ${payload} | ${payload} |`, `[${payload}](${payload})`, `![${payload}](https://x.example "${payload}")`, `\`\`\`${payload}\n${payload}\n\`\`\`\n**${payload}**`, ...IN_CODE.map((language) => `\`\`\`${language}\n${payload}\n"${payload}" /* ${payload}\n\`\`\`\n`), ...IN_MATH.map((around) => around.replace("?", () => payload))]) {
      check(rowsOf([{ type: "output", content: text }]).root, text);
    }
  }
});

test("no member of an entry does either, wherever it stands", () => {
  for (const it of PAYLOADS) {
    const choice = { id: it, label: it, description: it, kind: it };
    const { root } = rowsOf([
      { type: "turn.begin", turn_id: it, content: it, by: it, message_id: it, time: it },
      { type: "input.steered", content: it, by: it, message_id: "s" }, { type: "steer.result", message_id: "s", delivered: false, reason: it },
      { type: "output", channel: "stderr", content: it }, { type: "output", channel: it, content: it }, { type: "thinking", content: it },
      { type: "message", role: it, content: it },
      { type: "tool.start", tool_call_id: "c", tool: it, title: it, kind: it, input: { [it]: it }, locations: [it] },
      { type: "tool.update", tool_call_id: "c", content: `\u001b[31m${it}` },
      { type: "tool.end", tool_call_id: "c", content: it, data: it, diffs: [{ path: it, old_text: it, new_text: `${it}\n${it}` }, { path: it, patch: it }, { path: "a.html", old_text: it, new_text: `${it}\n${it}` }, { path: "a.ts", patch: `@@ -1 +1 @@\n-${it}\n+${it}` }] },
      { type: "plan", entries: [{ content: it, status: it, priority: it }] },
      { type: "permission.request", request_id: "r1", tool: it, title: it, description: it, resource: it, input: it, options: [choice], diffs: [{ path: it, new_text: it }], expires_at: it },
      { type: "permission.request", request_id: "r2", tool: it, title: it, description: it, resource: it, input: it },
      { type: "request.decided", request_id: "r2", approved: true, by: it, reason: it, time: it, option_id: it, name: it, always: it, updated_input: { [it]: it } },
      { type: "input.request", request_id: "q1", prompt: it, fields: ["text", "secret", "boolean", "number", "choice", "choices", it].map((kind) => ({ id: `${kind} ${it}`, label: it, kind, choices: [choice], default: it })) },
      { type: "input.request", request_id: "q2", prompt: it }, { type: "request.decided", request_id: "q2", values: { answer: it } },
      { type: "file.output", file_name: it, file_mime_type: it, sha256: it }, { type: "file.delivered", file_name: it, sha256: "a".repeat(64), size: 7 },
      { type: "error", category: it, message: it }, { type: "log", stream: it, content: it }, { type: "custom", name: it, data: { [it]: it } },
      { type: it, [it]: it }, { type: "host.fact", fact: it, message: it, context: it }, { type: "stop.requested", by: it },
      { type: "rate_limit", window: it, status: it }, { type: "session.closed", reason: it, error: { message: it } },
      { type: "turn.complete", turn_id: it, status: "failed", stop_reason: it, summary: it, model: it, result: it, error: { category: it, message: it }, usage: { cost_usd: it } },
    ]);
    check(root, it);
  }
});

test("no content of a file does either, however it is shown", () => {
  for (const text of PAYLOADS) {
    for (const kind of ["markdown", "text", "svg"] as const) {
      check(drawn(<FileView shown={{ kind, text: `${text}\n\n# ${text}` }} bytes={new Uint8Array()} isWhole={false} name={text} />), `${kind} ${text}`);
      for (const name of ["a.html", "a.tsx"]) check(drawn(<FileView shown={{ kind: "text", text }} bytes={new Uint8Array()} isWhole name={name} />), text);
    }
    check(drawn(<Excerpt text={text} query={text.slice(2, 9)} />), text);
  }
});

test("no text of a session becomes either in the inbox, or in the first run", () => {
  for (const it of PAYLOADS) {
    const overview = new SessionOverview();
    overview.apply({ type: "snapshot", complete: true, sessions: [{ id: it, agent: it, title: it, state: it, requests: [{ id: it, request: it, turn_id: it, since: it }] }] });
    overview.outcome(it, { status: "failed", category: it, message: it, time: it, seq: 9 });
    const session = overview.get(it);
    if (!session) continue;
    const { fold } = rowsOf([{ type: "permission.request", request_id: it, tool: it, title: it, description: it, resource: it }]);
    const [row] = fold.pending.values();
    assert.ok(row);
    const card = { id: it, api: {}, open: new Map(), row, fault: "" } as unknown as RequestCard;
    const [request] = session.requests.values();
    assert.ok(request);
    const decision = { approved: true, cancelled: false, option: it, reason: it, by: it, time: it, values: {} };
    const agents = [{ id: it, name: it, profile: it, description: it, health: { severity: "error", verdict: it } }];
    checkPage(drawn([
      <Item item={{ key: it, session, request }} card={card} now={0} />, <Item item={{ key: it, session, request }} card={{ ...card, row: undefined, fault: it } as never} now={0} />,
      <News session={session} now={0} done={() => undefined} />, <Decided item={{ key: it, session, row, decision }} own="" />, <FirstRun create={() => undefined} agents={agents} mayCreate />, <EndingTurns sessions={[session]} turns={2} />,
    ]), it);
  }
});

test("a restart names the running turns of its agent, and counts those that this page does not see", () => {
  const overview = new SessionOverview();
  const sessions = ["a", "b", "idle", "other"].map((id) => ({ id, agent: id === "other" ? "x" : "coder", title: `Title ${id}`, state: "running", ...(id === "idle" ? {} : { turn_id: "t" }) }));
  overview.apply({ type: "snapshot", complete: true, sessions });
  const lines = (turns: number): string[] => drawn(<EndingTurns sessions={overview.running("coder")} turns={turns} />).elements.filter((element) => element.localName === "li").map((element) => element.text);
  assert.deepEqual(lines(2), ["Title a", "Title b"]);
  assert.deepEqual(lines(5), ["Title a", "Title b", "3 more"]);
  assert.deepEqual(lines(0), ["Title a", "Title b"], "the figures are behind the stream");
  assert.deepEqual(drawn(<EndingTurns sessions={overview.running("none")} turns={0} />).text, "No turn runs.");
  assert.deepEqual(drawn(<EndingTurns sessions={[]} turns={3} />).elements.filter((element) => element.localName === "li").map((element) => element.text), ["3"]);
});

test("a label that an agent wrote does not say what its option does", () => {
  const { root } = rowsOf([{ type: "permission.request", request_id: "r", tool: "Bash", description: "d", resource: "x", options: [{ id: "a", label: "Deny", kind: "allow_always" }, { id: "b", label: "Cancel" }] }]);
  const buttons = root.elements.filter((element) => element.localName === "button" && /allow|deny/.test(String(element.attributes.get("class"))));
  assert.deepEqual(buttons.map((button) => button.text), ["Always allow Deny", "Deny"]);
});

test("code of a file and of a change has its colours, and its text stays whole", () => {
  const words = (root: FakeElement): string[] => root.elements.filter((element) => element.localName === "span" && /^s-/.test(String(element.attributes.get("class")))).map((element) => `${String(element.attributes.get("class"))} ${element.text}`);
  const text = "const a = 1;\nlet b;";
  const file = drawn(<FileView shown={{ kind: "text", text }} bytes={new Uint8Array()} isWhole name="a.ts" />);
  assert.deepEqual(words(file), ["s-keyword const", "s-number 1", "s-keyword let"]);
  assert.equal(file.elements.find((element) => element.localName === "code")?.text, text);
  const { root } = rowsOf([{ type: "tool.start", tool_call_id: "c", tool: "Edit" }, { type: "tool.end", tool_call_id: "c", diffs: [{ path: "a.ts", old_text: "let b;", new_text: text }] }]);
  assert.deepEqual(words(root), ["s-keyword const", "s-number 1", "s-keyword let"]);
  assert.deepEqual(root.elements.filter((element) => element.attributes.get("class") === "line").map((element) => element.text), ["const a = 1;", "let b;"]);
});

test("code that grows is drawn like the whole, and its first lines stay the same elements", () => {
  const root = fakeDocument.createElement("div");
  const text = "const a = 1; /*\nlet b;\n*/ let c = \"d\";\nlet e;";
  const show = (end: number): void => render(<Code text={text.slice(0, end)} lang="ts" />, root as unknown as ContainerNode);
  const first = (): unknown => root.elements.find((element) => element.attributes.get("class") === "s-keyword");
  show(20);
  const known = first();
  for (let end = 21; end <= text.length; end += 1) {
    show(end);
    assert.equal(root.elements.find((element) => element.localName === "code")?.text, text.slice(0, end));
  }
  assert.equal(first(), known);
  const whole = fakeDocument.createElement("div");
  render(<Code text={text} lang="ts" />, whole as unknown as ContainerNode);
  const spans = (of: FakeElement): string[] => of.elements.filter((element) => element.localName === "span").map((element) => `${String(element.attributes.get("class"))} ${element.text}`);
  assert.deepEqual(spans(root), spans(whole));
});
