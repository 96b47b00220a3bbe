// What the mock's agents do with an input: its first word picks a script.
import { PNG, XSS } from "./material.mjs";

const wait = (ms, signal) => new Promise((resolve, reject) => {
  const stop = () => {
    clearTimeout(timer);
    reject(new Error("stopped"));
  };
  const timer = setTimeout(() => {
    signal.removeEventListener("abort", stop);
    resolve();
  }, ms);
  signal.addEventListener("abort", stop, { once: true });
});

export const PROSE = `Here is what I found in **parser.rs**, and what I would change.

1. The lexer reads \`\\r\\n\` as *two* ends of line.
2. \`Token::span\` is off by one behind a tab ([the report](https://example.org/issues/42)).
   - only on the first line
   - only with CRLF

> A reader MUST accept CR before LF.

\`\`\`rust
fn next(&mut self) -> Option<Token> {
    let start = self.at;
    while self.peek().is_some_and(|c| !c.is_whitespace()) {
        self.at += 1;
    }
    (start < self.at).then(|| Token { start, end: self.at })
}
\`\`\`

| case | before | after |
|---|---:|---:|
| LF | 214 ns | 208 ns |
| CRLF | 390 ns | 231 ns |
| tabs | 402 ns | 236 ns |

With $n$ tokens it takes $O(n \\log n)$, for $5 or $10 a month:

$$
T(n) = \\sum_{i=1}^{n} \\frac{\\log_2 i}{\\sqrt{i}}
\\le \\int_0^n \\log x \\, dx
$$

- [x] write the test
- [ ] mend the lexer

See also <https://doc.rust-lang.org/std/> and https://example.com/a_b_c?x=(1).
`;

export const SCRIPTS = {
  async stream({ say, turn, signal, pace }) {
    say({ type: "thinking", turn_id: turn, content: "The test fails because the lexer counts CR as a line of its own. " });
    say({ type: "thinking", turn_id: turn, content: "I should look at `next` first, then at the spans." });
    for (const piece of PROSE.match(/[\s\S]{1,24}/g)) {
      await wait(pace, signal);
      say({ type: "output", turn_id: turn, content: piece });
    }
  },
  async slow({ say, turn, signal }) {
    for (let at = 1; at <= 2000; at += 1) {
      await wait(50, signal);
      say({ type: "output", turn_id: turn, content: `word${at} ` });
    }
  },
  async planned({ say, turn, signal }) {
    say({ type: "plan", turn_id: turn, entries: [{ content: "read the test", status: "completed" }, { content: "mend the parser", status: "in_progress", priority: "high" }, { content: "run the tests", status: "pending" }] });
    await wait(60_000, signal);
  },
  async work(it) {
    const { say, turn, signal, pace } = it;
    say({ type: "plan", turn_id: turn, entries: [{ content: "read the test", status: "completed" }, { content: "mend the parser", status: "in_progress", priority: "high" }, { content: "run the tests", status: "pending" }] });
    say({ type: "tool.start", turn_id: turn, tool_call_id: `${turn}-1`, tool: "Read", kind: "read", title: "parser.rs", input: { path: "/srv/app/src/parser.rs" } });
    await wait(pace, signal);
    say({ type: "tool.end", turn_id: turn, tool_call_id: `${turn}-1`, content: "fn next(&mut self) -> Option<Token> {\n    …\n}\n", is_error: false, duration_ms: 18 });
    say({ type: "output", turn_id: turn, content: "I change the lexer so that CR and LF are one end of line.\n" });
    say({ type: "tool.start", turn_id: turn, tool_call_id: `${turn}-2`, tool: "Edit", kind: "edit", title: "Edit parser.rs", input: { path: "/srv/app/src/parser.rs" }, locations: [{ path: "/srv/app/src/parser.rs", line: 12 }] });
    await wait(pace, signal);
    say({
      type: "tool.end", turn_id: turn, tool_call_id: `${turn}-2`, is_error: false, duration_ms: 41,
      diffs: [
        { path: "/srv/app/src/parser.rs", old_text: "fn next(&mut self) {\n    let start = self.at;\n    self.at += 1;\n    Token { start }\n}\n\nfn peek(&self) -> u8 {\n    self.text[self.at]\n}\n", new_text: "fn next(&mut self) {\n    let start = self.at;\n    if self.text[start..].starts_with(b\"\\r\\n\") {\n        self.at += 1;\n    }\n    self.at += 1;\n    Token { start, end: self.at }\n}\n\nfn peek(&self) -> u8 {\n    self.text[self.at]\n}\n" },
        { path: "/srv/app/tests/crlf.rs", new_text: "#[test]\nfn crlf_is_one_end() {\n    assert_eq!(lines(\"a\\r\\nb\"), 2);\n}\n" },
      ],
    });
    say({ type: "tool.start", turn_id: turn, tool_call_id: `${turn}-3`, tool: "Bash", kind: "execute", input: { command: "cargo test -p parser" } });
    say({ type: "progress", turn_id: turn, message: "running 214 tests" });
    for (let at = 0; at < 6; at += 1) {
      await wait(pace, signal);
      say({ type: "tool.update", turn_id: turn, tool_call_id: `${turn}-3`, stream: "stdout", content: `test lexer::case_${at} ... \u001b[32mok\u001b[0m\n` });
    }
    say({ type: "tool.end", turn_id: turn, tool_call_id: `${turn}-3`, content: "\u001b[1mtest result: \u001b[32mok\u001b[0m. 214 passed; 0 failed\n", is_error: false, duration_ms: 3120 });
    say({ type: "tool.start", turn_id: turn, tool_call_id: `${turn}-4`, tool: "Bash", kind: "execute", input: { command: "cargo clippy" } });
    say({ type: "tool.end", turn_id: turn, tool_call_id: `${turn}-4`, content: "\u001b[31merror\u001b[0m: no such command: `clippy`", is_error: true, duration_ms: 220 });
    say({ type: "tool.start", turn_id: turn, tool_call_id: `${turn}-5`, tool: "Agent", title: "Review the change" });
    say({ type: "output", turn_id: turn, parent_tool_call_id: `${turn}-5`, content: "Looks right. One name could be clearer." });
    say({ type: "tool.end", turn_id: turn, tool_call_id: `${turn}-5`, content: "reviewed", is_error: false, duration_ms: 900 });
    say({ type: "output", turn_id: turn, channel: "stderr", content: "warning: unused variable `x`\n" });
    say({ type: "plan", turn_id: turn, entries: [{ content: "read the test", status: "completed" }, { content: "mend the parser", status: "completed" }, { content: "run the tests", status: "completed" }] });
    await SCRIPTS.image(it);
    say({ type: "output", turn_id: turn, content: "### Result\n\nAll 214 tests pass.\n\n###### Of these\n\n210 were there before.\n\n# Next\n\nNothing." });
  },
  async image({ say, turn, session }) {
    say({ type: "file.output", turn_id: turn, file_name: "timings.png", file_mime_type: "image/png", size: PNG.length, sha256: session.file("timings.png", PNG) });
    const text = Buffer.from("case,before,after\nlf,214,208\n");
    say({ type: "file.output", turn_id: turn, file_name: "timings.csv", file_mime_type: "text/csv", size: text.length, sha256: session.file("timings.csv", text) });
  },
  async ask(it) {
    const { say, turn, ask } = it;
    const answer = await ask({
      type: "permission.request", turn_id: turn, request_id: `r-${turn}`, tool: "Bash", title: "Run a command", description: "Delete the old logs", resource: "rm -r /srv/app/logs",
      input: { command: "rm -r /srv/app/logs" }, options: [{ id: "once", label: "Allow", kind: "allow_once" }, { id: "always", label: "commands like this", kind: "allow_always" }, { id: "no", label: "Deny", kind: "reject_once" }],
    });
    say({ type: "output", turn_id: turn, content: answer.updated_input ? `I ran ${answer.updated_input.command} instead.` : answer.approved === true ? "The logs are gone." : `I left them alone. ${answer.message ?? ""}` });
  },
  async asks({ say, turn, ask }) {
    const one = (at) => ask({ type: "permission.request", turn_id: turn, request_id: `r-${turn}-${at}`, tool: "Bash", title: `Step ${at}`, description: "One of three", resource: `step ${at}`, options: [{ id: "yes", label: "Allow", kind: "allow_once" }, { id: "no", label: "Deny", kind: "reject_once" }] });
    const answers = await Promise.all([1, 2, 3].map(one));
    say({ type: "output", turn_id: turn, content: answers.map((answer) => (answer.approved === true ? "yes" : "no")).join(" ") });
  },
  async "ask-long"({ turn, ask }) {
    await ask({
      type: "permission.request", turn_id: turn, request_id: `r-${turn}`, tool: "mcp__a_server_with_a_long_name__write_many_files_at_once", title: "Write four files of the configuration of the production cluster",
      description: "The configuration has four parts that belong together, so all of them are written at once. ".repeat(5), resource: `/srv/app/${"a-folder-with-a-long-name/".repeat(9)}config.toml`,
      input: { files: Array.from({ length: 60 }, (_, at) => ({ path: `/srv/app/config/${at}.toml`, text: "key = 1\n".repeat(4) })) },
      diffs: [1, 2, 3, 4].map((at) => ({ path: `/srv/app/config/part-${at}.toml`, old_text: "one = 1\ntwo = 2\n".repeat(20), new_text: "one = 1\ntwo = 3 # a remark that is long enough to be wider than the screen of a phone by far\n".repeat(20) })),
      options: [{ id: "once", label: "Allow", kind: "allow_once" }, { id: "always", label: "writes below /srv/app/config for the rest of this session", kind: "allow_always" }, { id: "no", label: "Deny", kind: "reject_once" }, { id: "never", label: "writes below /srv/app/config", kind: "reject_always" }, { id: "x", label: "Let another agent decide about it", kind: "other" }],
    });
  },
  async "question-long"({ turn, ask }) {
    await ask({
      type: "input.request", turn_id: turn, request_id: `q-${turn}`, prompt: "How should the service be deployed, and to which clusters, when all of the tests have passed?",
      fields: Array.from({ length: 14 }, (_, at) => (at % 3 === 0
        ? { id: `f${at}`, label: `A choice with a label that is long enough for two lines on a phone (${at})`, kind: at % 2 ? "choices" : "choice", required: true, choices: Array.from({ length: 5 }, (_, n) => ({ id: `${n}`, label: `Choice ${n}`, description: "what it means, in a sentence that takes some room" })) }
        : { id: `f${at}`, label: `Field ${at}`, kind: ["text", "number", "boolean", "secret"][at % 4] })),
    });
  },
  async question(it) {
    const { say, turn, ask } = it;
    const answer = await ask({
      type: "input.request", turn_id: turn, request_id: `q-${turn}`, prompt: "Where should it be deployed?",
      fields: [
        { id: "where", label: "Cluster", kind: "choice", choices: [{ id: "eu", label: "Europe", description: "three zones" }, { id: "us", label: "America" }], required: true, default: "eu" },
        { id: "token", label: "Token", kind: "secret" }, { id: "copies", label: "Copies", kind: "number" }, { id: "dry", label: "Dry run", kind: "boolean" },
        { id: "tags", label: "Tags", kind: "choices", choices: [{ id: "a", label: "alpha" }, { id: "b", label: "beta" }] }, { id: "note", label: "Note", kind: "text" },
      ],
    });
    say({ type: "output", turn_id: turn, content: answer.values ? `Deployed to ${answer.values.where}.` : "Then not." });
  },
  async "xss-asks"({ turn, ask }) {
    await Promise.all(XSS.slice(0, 12).map((text, at) => ask({
      type: at % 3 === 2 ? "input.request" : "permission.request", turn_id: turn, request_id: `x-${turn}-${at}`, tool: text, title: text, description: text, resource: text, prompt: text,
      input: { [text]: text }, options: [{ id: text, label: text, kind: "allow_once" }], fields: [{ id: text, label: text, kind: "choice", choices: [{ id: text, label: text, description: text }] }],
    })));
  },
  async xss({ say, turn, session }) {
    for (const [at, text] of XSS.entries()) {
      say({ type: "output", turn_id: turn, content: `${text}\n\n`, message_id: `x-${at}` });
      say({ type: "output", turn_id: turn, channel: at % 2 ? "stderr" : text.slice(0, 60), content: text });
      say({ type: "tool.start", turn_id: turn, tool_call_id: `${turn}-x${at}`, tool: text, title: text, input: { [text]: text } });
      say({ type: "tool.end", turn_id: turn, tool_call_id: `${turn}-x${at}`, content: `\u001b[31m${text}\u001b[0m`, is_error: at % 3 === 0, diffs: at % 10 ? [] : [{ path: text, old_text: text, new_text: `${text}\nmore` }] });
      if (at % 10 === 0) say({ type: "file.output", turn_id: turn, file_name: `${text}.png`, file_mime_type: "image/png", size: text.length, sha256: session.file(text, Buffer.from(text)) });
      if (at % 25 === 0) say({ type: "custom", turn_id: turn, name: text, data: { [text]: text } });
      say({ type: "thinking", turn_id: turn, content: text, message_id: `t-${at}` });
    }
  },
  async many({ say, turn, signal }) {
    for (let at = 0; at < 100_000 && !signal.aborted; at += 1) {
      const call = `${turn}-c${Math.floor(at / 20)}`;
      if (at % 20 === 0) say({ type: "thinking", turn_id: turn, content: `Part ${at / 20}.` });
      else if (at % 20 === 1) say({ type: "tool.start", turn_id: turn, tool_call_id: call, tool: "Read", title: `chapter-${at}.md` });
      else if (at % 20 === 2) say({ type: "tool.end", turn_id: turn, tool_call_id: call, content: "Text.\n", is_error: false });
      else say({ type: "output", turn_id: turn, content: at % 20 === 9 ? `\n\n- item **${at}**\n\n` : `A few words, part ${at}. ` });
      if (at % 200 === 0) await wait(1, signal);
    }
  },
  async crash({ say, turn }) {
    say({ type: "output", turn_id: turn, content: "I begin" });
    say({ type: "host.fact", fact: "process_ended", message: "the adapter was killed by signal 9", signal: 9 });
    return { status: "failed", error: { category: "process_exit", message: "the adapter was killed by signal 9; its last words: out of memory" }, signal: 9 };
  },
};

/** Entries of many turns, as a long session has them. */
export function fill(session, count) {
  for (let turn = 1; session.entries.length < count; turn += 1) {
    const turn_id = `old-${turn}`;
    session.add({ type: "turn.begin", turn_id, message_id: `m-${turn}`, content: `Question ${turn}: what is in chapter ${turn}?`, by: "l-1" });
    session.add({ type: "thinking", turn_id, content: "Let me look at that chapter first." });
    session.add({ type: "tool.start", turn_id, tool_call_id: `${turn_id}-c`, tool: "Read", title: `chapter-${turn}.md`, input: { path: `/srv/book/chapter-${turn}.md` } });
    session.add({ type: "tool.end", turn_id, tool_call_id: `${turn_id}-c`, content: `# Chapter ${turn}\n\nText.\n`, is_error: false, duration_ms: turn % 90 });
    for (let at = 0; at < 14; at += 1) session.add({ type: "output", turn_id, content: at === 6 ? `\n\n- item **${turn}**\n- \`code\`\n\n` : `Chapter ${turn} says a few words, part ${at}. ` });
    session.add({ type: "turn.complete", turn_id, status: "completed", duration_ms: 1200 + turn, usage: { input_tokens: 1200, output_tokens: 340, cost_usd: 0.0213 } });
  }
}

/** Runs an input of a session, then what waits behind it. */
export async function run(session, { turn, content }, pace) {
  session.running = turn;
  session.turns += 1;
  const stopper = new AbortController();
  session.stopper = stopper;
  const say = (entry) => {
    if (session.running === turn) session.add(entry);
  };
  const ask = (entry) => new Promise((resolve, reject) => {
    session.requests.set(entry.request_id, resolve);
    stopper.signal.addEventListener("abort", () => reject(new Error("stopped")), { once: true });
    say(entry);
  });
  const begun = Date.now();
  const script = SCRIPTS[content.trim().split(/\s+/)[0]] ?? SCRIPTS.stream;
  let end = { status: "completed" };
  try {
    end = (await script({ say, ask, turn, session, signal: stopper.signal, pace })) ?? end;
  } catch (error) {
    if (stopper.signal.reason === "restart") return;
    if (!stopper.signal.aborted) throw error;
    for (const id of session.requests.keys()) session.add({ type: "request.decided", turn_id: turn, request_id: id, approved: false, reason: "stopped" });
    session.requests.clear();
    end = { status: "stopped", stop_reason: "user" };
  }
  session.add({ type: "context.usage", turn_id: turn, used_tokens: 41_000 + session.entries.length, total_tokens: 200_000 });
  session.add({ type: "turn.complete", turn_id: turn, duration_ms: Date.now() - begun, model: "large-2", usage: { input_tokens: 1200, output_tokens: 340, cost_usd: 0.0213 }, ...end });
  session.running = "";
  const next = session.queue.shift();
  if (next) void run(session, next, pace);
}
