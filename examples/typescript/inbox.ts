// An inbox over all sessions of a daemon: what waits for an answer, what has failed, what has ended. Keys answer.
//
//   TRUNKLINE_TOKEN=$(trunkline token new --scope control --approve --all-sessions) node dist/inbox.js [URL or PATH of a socket]
import { Client, overHttp, SessionTable, unixSocket, type Entry } from "@trunkline/sdk/client";

type Item = { state: "waits" | "failed" | "ended"; session: string; text: string; since: Date; request?: string; isQuestion?: boolean };

const MOST_DONE = 50; // items that wait for nobody
const COLORS = { waits: "\x1b[33m", failed: "\x1b[31m", ended: "\x1b[32m" };
const KEYS = "y approve  n deny or cancel  j k choose  c clear  q quit";
const user = process.env["USER"] ?? "inbox";

const place = process.argv[2] ?? "http://127.0.0.1:7457";
const { stdin, stdout } = process;
const client = await Client.connect(place.startsWith("/") ? unixSocket(place) : overHttp(place, process.env["TRUNKLINE_TOKEN"] ?? ""), {
  onState: (state) => ((note = state.state === "open" ? "" : `${state.state}: ${state.error.message}`), draw()),
});
const table = new SessionTable();
const waiting = new Map<string, Item>(); // by session and request
let done: Item[] = [];
let chosen = 0;
let note = "";

const items = (): Item[] => [...waiting.values(), ...done];

// Agents choose titles and tools: nothing of them may move the cursor or turn the text around.
const plain = (text: string): string => text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, " ");

function draw(): void {
  const width = stdout.columns ?? 80;
  const all = items();
  chosen = Math.max(0, Math.min(chosen, all.length - 1));
  const rows = all.map(({ state, session, text, since }, at) => {
    const { agent = "", title = session } = table.sessions.get(session) ?? {};
    const line = `${at === chosen ? ">" : " "} ${state.padEnd(6)}  ${since.toTimeString().slice(0, 5)}  ${agent.padEnd(8)}  ${title}: ${text}`;
    return `${COLORS[state]}${plain(line).slice(0, width)}\x1b[0m`;
  });
  const head = `${waiting.size} to answer, ${table.sessions.size} sessions${note ? `; ${plain(note)}` : ""}`;
  const shown = rows.slice(Math.max(0, chosen - 15), chosen + 20);
  stdout.write(`\x1b[H\x1b[J${[head.slice(0, width), ...(rows.length > 0 ? shown : ["  nothing to do"]), KEYS].join("\r\n")}\r\n`);
}

// The table knows that a request waits; its entry has the tool and the resource.
async function describe(session: string, request: string): Promise<Entry | undefined> {
  const { entries } = await client.history(session, { before: "end", limit: 200 });
  return entries.find((entry) => "request_id" in entry && entry.request_id === request && entry.type.endsWith(".request"));
}

async function refresh(): Promise<void> {
  const open = new Set<string>();
  for (const { session, request } of table.waiting) {
    const key = `${session.id} ${request.id}`;
    open.add(key);
    if (waiting.has(key)) continue;
    const item: Item = { state: "waits", session: session.id, text: request.request, since: new Date(request.since ?? Date.now()), request: request.id, isQuestion: request.request === "question" };
    waiting.set(key, item);
    const entry = await describe(session.id, request.id).catch(() => undefined);
    if (entry?.type === "permission.request") item.text = `${entry.tool} ${entry.resource ?? ""}`;
    if (entry?.type === "input.request") item.text = entry.prompt ?? "a question";
  }
  for (const key of waiting.keys()) if (!open.has(key)) waiting.delete(key); // answered here or by another client
}

async function press(key: string): Promise<void> {
  const item = items()[chosen];
  if (key === "j") chosen++;
  if (key === "k") chosen--;
  if (key === "c") done = [];
  if (key === "q" || key === "\x03") return stop();
  if ((key === "y" || key === "n") && item?.request !== undefined) {
    const answer = item.isQuestion ? { cancelled: true as const } : { approved: key === "y" };
    note = item.isQuestion && key === "y" ? "open the session to answer a question" : "";
    if (note === "") await client.answer(item.session, item.request, { ...answer, name: user }).catch((error: Error) => (note = error.message));
  }
  draw();
}

function stop(): void {
  if (stdin.isTTY) stdin.setRawMode(false);
  void client.close();
  process.exit();
}

if (stdin.isTTY) stdin.setRawMode(true);
stdin.on("data", async (keys) => {
  for (const key of String(keys)) await press(key);
});
draw();
for await (const event of client.watch()) {
  table.apply(event);
  if (event.type === "turn" && event.change === "ended") {
    const failed = event.status === "failed" || event.status === "refused";
    done.unshift({ state: failed ? "failed" : "ended", session: event.session_id, text: event.category ?? event.status ?? "", since: new Date(event.time) });
    done = done.slice(0, MOST_DONE);
  }
  await refresh();
  draw();
}
