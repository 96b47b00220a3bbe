/** Folds the entries of a session to the rows of its transcript and to what is in force. Pure: no clock, no page. */

import { readCommands } from "./complete.ts";
import type { SlashCommand } from "./complete.ts";
import { codeAfter } from "./markdown.ts";
import { noteOf, openRequest, readDecision, readDiffs } from "./read.ts";
import type { EndRow, FileRow, InputRow, NoteRow, PlanRow, RequestRow, Row, TextRow, ToolRow } from "./rows.ts";
import { PART, cut } from "./split.ts";
import { choices, list, num, obj, str } from "./types.ts";
import type { Choice, Entry, Obj } from "./types.ts";
import { lastOf } from "./wire.ts";

/** What is kept of what one tool call printed, or one run of log lines: its end. */
export const MAX_PRINTED = 256 * 1024;

/** By these an agent shows that it works on a turn. */
const SPEAKS = new Set(["output", "message", "thinking", "tool.start", "plan", "progress", "permission.request", "input.request"]);

/** What may be chosen for the session, and what is in force. */
export interface Settings {
  models: Choice[];
  modes: Choice[];
  inputModes: string[];
  model: string;
  mode: string;
  effort: string;
  display: string;
  commands: SlashCommand[];
}

/** A row without the members that `Fold.add` sets. */
type Fresh<R> = R extends Row ? Omit<R, "key" | "version" | "seq" | "time" | "turn" | "depth" | "history" | "early"> : never;

/** A running turn of which these entries have nothing but that another one waits for it. */
const UNKNOWN = "";
/** Rows that one entry can begin: the factor between the number of an entry and the keys of its rows. */
const KEYS = 4096;
/** A text is cut at its first paragraph behind each so many entries. Two folds that begin at different entries of a long
 * message have the same rows from there on. */
const REGULAR = 256;

export class Fold {
  rows: Row[] = [];
  /** Grows with each entry that was taken. */
  version = 0;
  last = 0;
  first = 0;
  epoch = 0;
  /** The turns that have no end, in the order of their begin: the first one runs. */
  openTurns: string[] = [];
  /** Inputs that wait for the turns before them. Their rows come when their turns begin to run. */
  queue: InputRow[] = [];
  /** Turns that ended before they ran. */
  withdrawn = new Set<string>();
  /** Requests that wait for an answer. */
  pending = new Map<string, RequestRow>();
  settings: Settings = { models: [], modes: [], inputModes: [], model: "", mode: "", effort: "", display: "", commands: [] };
  context: { used: number; total: number } | undefined;
  progress = "";
  /** The begin of the first input: the headline where the session has none. */
  headline = "";
  closed = false;
  /** Grows when the title or the archive mark of the session may have changed. */
  edits = 0;
  /** Whether no process serves the session; not known before an entry says so. */
  asleep: boolean | undefined;
  /** Inputs that were taken, by their `message_id`: a page's own copy of one can go. */
  taken = new Set<string>();

  /** Keys of rows come from the numbers of their entries, so that they are the same however far back a fold begins. */
  private key = 0;
  /** Turns that began in these entries, and turns that ended in them. */
  private begun = new Set<string>();
  private ended = new Set<string>();
  private lanes = new Map<string, Row>();
  private calls = new Map<string, ToolRow>();
  private inputs = new Map<string, InputRow>();
  /** Rows of turns that wait, and rows that would stand within a turn that runs. */
  private held = new Map<string, Row[]>();
  private behind: Row[] = [];
  /** Notes of inputs that were withdrawn while the turn ran. */
  private traces: NoteRow[] = [];
  /** Who stopped a turn that waited. */
  private stoppedBy = new Map<string, string>();
  private plans = new Map<string, PlanRow>();
  private requests = new Map<string, RequestRow>();
  private settled = new Set<string>();
  private provisional = new Map<string, EndRow>();
  /** When the running turn began, and when its agent first said something of it. */
  private clock = { turn: "", began: NaN, spoke: NaN };

  /** `partial`: the entries do not begin with the session's first one. */
  constructor(readonly partial = false) {}

  /** Sets the open turns as the daemon reports them: their inputs may be before the first entry. */
  know(turns: string[]): void {
    this.openTurns = turns.filter((turn) => !this.ended.has(turn));
    if (this.openTurns.length === 0) this.flush();
    this.mark("");
  }

  /** Takes the choices that an entry before the first one offers, but not what was chosen then. */
  learn(entry: Entry): void {
    const { models, modes, inputModes, commands, model, mode, effort, display } = this.settings;
    this.choose(entry);
    const it = this.settings;
    Object.assign(it, { model, mode, effort, display: display || it.display });
    if (models.length > 0) it.models = models;
    if (modes.length > 0) it.modes = modes;
    if (inputModes.length > 0) it.inputModes = inputModes;
    if (commands.length > 0) it.commands = commands;
  }

  /** Takes an entry. One whose number is known already is passed over, and says so. */
  apply(entry: Entry): boolean {
    const seq = num(entry.seq);
    if (seq !== undefined) {
      if (seq <= this.last) return false;
      if (this.last > 0 && seq > this.last + 1) this.gap({ type: "lag", from: this.last + 1, to: seq - 1 });
      if (this.first === 0) this.first = seq;
      this.last = lastOf(entry, seq);
      this.epoch = num(entry.epoch) ?? this.epoch;
    }
    this.version += 1;
    if (this.partial && SPEAKS.has(entry.type)) this.infer(str(entry.turn_id), entry);
    if (SPEAKS.has(entry.type) && this.queue.length > 0) this.run(str(entry.turn_id));
    if (Number.isNaN(this.clock.spoke) && str(entry.turn_id) === this.clock.turn && SPEAKS.has(entry.type)) this.clock.spoke = Date.parse(str(entry.time));
    if (SPEAKS.has(entry.type) || entry.type === "session.info" || entry.fact === "resumed") this.asleep = false;
    this.take(entry);
    return true;
  }

  /** A turn that speaks, and whose begin is before the first entry, runs. */
  private infer(turn: string, entry: Entry): void {
    if (turn === "" || entry.late === true || entry.history === true || this.ended.has(turn)) return;
    if (this.openTurns[0] === UNKNOWN) this.openTurns.shift();
    if (!this.openTurns.includes(turn) && !this.begun.has(turn)) this.openTurns.unshift(turn);
    this.mark("");
  }

  /** The plan of the running turn. */
  get plan(): PlanRow | undefined {
    return this.plans.get(`${this.running} `);
  }

  get running(): string {
    return this.openTurns[0] ?? "";
  }

  private take(entry: Entry): void {
    switch (entry.type) {
      case "turn.begin":
        return this.begin(entry);
      case "input.steered":
        return this.steer(entry);
      case "steer.result":
        return this.steered(entry);
      case "output":
        return this.output(entry);
      case "thinking":
        return this.text(entry, "thought", "");
      case "message":
        if (str(entry.role) === "user") return this.message(entry);
        return this.text(entry, "text", str(entry.role));
      case "tool.start":
      case "tool.update":
      case "tool.end":
        return this.tool(entry);
      case "plan":
        return this.planned(entry);
      case "progress":
        this.progress = str(entry.message);
        return;
      case "permission.request":
      case "input.request":
        return this.request(entry);
      case "request.decided":
      case "permission.cancel":
        return this.decided(entry);
      case "file.output":
      case "file.delivered":
        return this.file(entry);
      case "turn.complete":
        return this.complete(entry);
      case "session.info":
      case "session.ready":
        return this.info(entry);
      case "context.usage":
        this.context = { used: num(entry.used_tokens) ?? 0, total: num(entry.total_tokens) ?? 0 };
        return;
      case "usage":
      case "working":
        return;
      case "lag":
        return this.gap(entry);
      default:
        return this.note(entry);
    }
  }

  /** Adds a row behind the others of its turn. */
  private add<R extends Row>(entry: Entry, fresh: Fresh<R>): R {
    const row = this.make(entry, fresh);
    this.place(row);
    this.lanes.set(str(entry.parent_tool_call_id), row);
    return row;
  }

  private place(row: Row): void {
    const last = this.rows[this.rows.length - 1];
    // What comes late of a turn stands with its other rows.
    if (last && row.turn !== "" && last.turn !== "" && last.turn !== row.turn && this.begun.has(last.turn) && this.begun.has(row.turn)) {
      let at = this.rows.length;
      while (at > 0 && this.rows[at - 1]?.turn !== row.turn) at -= 1;
      if (at > 0) {
        this.rows = [...this.rows.slice(0, at), row, ...this.rows.slice(at)];
        return;
      }
    }
    this.rows.push(row);
  }

  private make<R extends Row>(entry: Entry, fresh: Fresh<R>): R {
    const above = str(entry.parent_tool_call_id);
    const parent = this.calls.get(above);
    this.key = Math.max(this.key + 1, this.last * KEYS);
    const row = {
      ...fresh,
      key: this.key,
      version: 1,
      seq: num(entry.seq) ?? 0,
      time: str(entry.time),
      turn: str(entry.turn_id),
      depth: parent ? Math.min(parent.depth + 1, 4) : above === "" ? 0 : 1,
      history: entry.history === true,
      early: false,
    } as unknown as R;
    return row;
  }

  private begin(entry: Entry): void {
    if (this.headline === "") this.headline = str(entry.content).trim().slice(0, 200).split("\n")[0]?.slice(0, 100) ?? "";
    const turn = str(entry.turn_id);
    this.begun.add(turn);
    const row = this.makeInput(entry, false);
    row.files = list(entry.files).map(str);
    this.held.set(turn, this.filesOf(row));
    this.queue.push(row);
    if (this.partial && entry.queued === true && this.openTurns.length === 0) this.openTurns.push(UNKNOWN);
    if (turn === "") this.run(turn);
    else if (!this.openTurns.includes(turn)) this.openTurns.push(turn);
    this.mark(str(entry.time));
  }

  /** Takes the rows of the files that came with an input: they stand behind it. */
  private filesOf(row: InputRow): Row[] {
    const found: Row[] = [];
    for (let at = this.rows.length - 1; at >= 0 && found.length < row.files.length; at -= 1) {
      const each = this.rows[at];
      if (each?.kind === "file" && !each.out && each.turn === "" && row.files.includes(each.sha256)) found.unshift(each);
      else if (each?.kind === "input" || each?.kind === "end") break;
    }
    if (found.length > 0) this.rows = this.rows.filter((each) => !found.includes(each));
    return found;
  }

  /** Shows an input whose turn begins to run, and what came with it. */
  private run(turn: string): void {
    const row = this.queue.find((each) => each.turn === turn);
    if (!row) return;
    this.queue = this.queue.filter((each) => each !== row);
    const held = this.held.get(turn) ?? [];
    this.held.delete(turn);
    this.rows.push(row, ...held);
    this.lanes.set("", held[held.length - 1] ?? row);
  }

  /** Shows what waited for the end of the running turn. */
  private flush(): void {
    const waiting = [...this.traces, ...this.behind];
    if (waiting.length === 0) return;
    this.rows.push(...waiting);
    this.lanes.set("", waiting[waiting.length - 1] as Row);
    this.traces = [];
    this.behind = [];
  }

  private steer(entry: Entry): void {
    const row = this.makeInput(entry, true);
    this.place(row);
    this.lanes.set("", row);
  }

  private makeInput(entry: Entry, steer: boolean): InputRow {
    const messageId = str(entry.message_id);
    const row = this.make<InputRow>(entry, {
      kind: "input",
      text: str(entry.content),
      by: str(entry.by),
      messageId,
      steer,
      reason: "",
      files: [],
      state: steer ? "running" : "queued",
    });
    if (messageId !== "") this.taken.add(messageId);
    this.inputs.set(steer ? `steer ${messageId}` : row.turn, row);
    return row;
  }

  /** The first turn that has no end runs, and says so. */
  private mark(time: string): void {
    if (this.running !== this.clock.turn) this.clock = { turn: this.running, began: Date.parse(time), spoke: NaN };
    if (this.running !== UNKNOWN) this.run(this.running);
    for (const turn of this.openTurns) {
      const row = this.inputs.get(turn);
      const state = turn === this.running ? "running" : "queued";
      if (!row || row.state === state) continue;
      row.state = state;
      row.version += 1;
    }
  }

  private steered(entry: Entry): void {
    const key = `steer ${str(entry.message_id)}`;
    const row = this.inputs.get(key);
    if (!row) return;
    row.delivered = entry.delivered === true;
    row.reason = str(entry.reason);
    row.state = "ended";
    row.version += 1;
    this.inputs.delete(key);
  }

  private message(entry: Entry): void {
    this.add<InputRow>(entry, {
      kind: "input",
      text: str(entry.content),
      by: "",
      messageId: "",
      steer: false,
      reason: "",
      files: [],
      state: "ended",
    });
  }

  private output(entry: Entry): void {
    const channel = str(entry.channel) || "stdout";
    if (channel === "stdout") return this.text(entry, "text", "");
    this.append(entry, channel, channel === "stderr" ? "warning" : "plain", str(entry.content));
  }

  /** A delta goes to the last row of its lane where that is of the same message, and is cut into parts. */
  private text(entry: Entry, kind: "text" | "thought", role: string): void {
    const messageId = str(entry.message_id);
    const before = this.lanes.get(str(entry.parent_tool_call_id));
    const regular = Math.floor(this.last / REGULAR);
    let row: TextRow;
    if (
      before && before.kind === kind && before.messageId === messageId && before.role === role &&
      before.turn === str(entry.turn_id) && before.history === (entry.history === true)
    ) {
      row = before;
      if (row.regular !== regular) row.due ??= row.text.length;
      row.regular = regular;
      row.text += str(entry.content);
      row.version += 1;
    } else {
      const text = str(entry.content);
      row = this.add<TextRow>(entry, { kind, text, fence: "", before: undefined, continues: false, messageId, role, regular });
      row.early = this.partial && (before?.early ?? true);
    }
    // A place for a cut comes with the end of a line, or where a line has no end.
    if (kind === "thought" || (!row.text.endsWith("\n") && !str(entry.content).includes("\n") && row.text.length < 8 * PART)) return;
    for (let part = cut(row.text, row.fence, row.due); part; part = cut(row.text, row.fence, row.due)) {
      const { early, due } = row;
      row.text = part.head;
      const open = part.fence === "" ? undefined : codeAfter(part.head, row.fence, row.before);
      const fresh = { kind, text: part.tail, fence: part.fence, before: open, continues: true, messageId, role, regular };
      row = this.add<TextRow>(entry, fresh);
      const left = (due ?? 0) - part.head.length;
      if (due !== undefined && left > 0) row.due = left;
      row.early = early && (due === undefined || left > 0);
    }
  }

  private tool(entry: Entry): void {
    const call = str(entry.tool_call_id);
    const before = this.lanes.get(str(entry.parent_tool_call_id));
    let row = this.calls.get(call);
    if (!row || (entry.type === "tool.start" && row.state !== "running")) {
      row = this.add<ToolRow>(entry, {
        kind: "tool",
        call,
        tool: str(entry.tool) || "tool",
        toolKind: str(entry.kind),
        title: "",
        input: undefined,
        locations: undefined,
        printed: "",
        dropped: 0,
        result: "",
        diffs: [],
        data: undefined,
        truncated: false,
        state: "running",
        durationMs: undefined,
      });
      row.early = this.partial && entry.type !== "tool.start";
      // The call began before the first entry: the text around it goes on.
      if (row.early && before) this.lanes.set(str(entry.parent_tool_call_id), before);
      else if (row.early) this.lanes.delete(str(entry.parent_tool_call_id));
      this.calls.set(call, row);
    }
    row.version += 1;
    if (str(entry.title) !== "") row.title = str(entry.title);
    if (entry.input !== undefined) row.input = entry.input;
    if (entry.locations !== undefined) row.locations = entry.locations;
    if (entry.data !== undefined) row.data = entry.data;
    if (entry.truncated === true) row.truncated = true;
    if (entry.type === "tool.update") {
      row.dropped += keepEnd(row, "printed", str(entry.content));
    } else if (entry.type === "tool.end") {
      row.result = str(entry.content);
      row.diffs = readDiffs(entry.diffs);
      row.durationMs = num(entry.duration_ms);
      row.state = entry.is_error === true ? "failed" : "done";
    }
  }

  private planned(entry: Entry): void {
    const entries = list(entry.entries).map((each) => {
      const it = obj(each);
      return { content: str(it.content), status: str(it.status), priority: str(it.priority) };
    });
    const key = `${str(entry.turn_id)} ${str(entry.parent_tool_call_id)}`;
    const row = this.plans.get(key);
    if (row) {
      row.entries = entries;
      row.version += 1;
      return;
    }
    const before = this.lanes.get(str(entry.parent_tool_call_id));
    const fresh = this.add<PlanRow>(entry, { kind: "plan", entries });
    // The turn may have a plan before the first entry, which this one only changes: then the text around it is one.
    fresh.early = this.partial && !this.begun.has(fresh.turn);
    if (fresh.early && before) before.early = true;
    this.plans.set(key, fresh);
  }

  private request(entry: Entry): void {
    const row = this.add<RequestRow>(entry, openRequest(entry) as Fresh<RequestRow>);
    if (row.kind === "permission") row.toolKind ||= this.calls.get(str(entry.tool_call_id))?.toolKind ?? "";
    this.requests.set(row.request, row);
    // What is replayed asks no one.
    if (!row.history) this.pending.set(row.request, row);
  }

  /** Whether a request was opened or decided in these entries. */
  knows(request: string): boolean {
    return this.requests.has(request) || this.settled.has(request);
  }

  private decided(entry: Entry): void {
    const request = str(entry.request_id);
    const row = this.requests.get(request);
    this.pending.delete(request);
    this.settled.add(request);
    if (!row) return;
    row.decision = readDecision(entry);
    row.version += 1;
  }

  private file(entry: Entry): void {
    const row = this.make<Row & { kind: "file" }>(entry, {
      kind: "file",
      name: str(entry.file_name) || "file",
      mime: str(entry.file_mime_type),
      size: num(entry.size),
      sha256: /^[0-9a-f]{64}$/.test(str(entry.sha256)) ? str(entry.sha256) : "",
      out: entry.type === "file.output",
      by: str(entry.by),
    });
    const queued = row.out || row.sha256 === "" ? undefined : this.queue.find((each) => each.files.includes(row.sha256));
    if (queued) {
      this.held.set(queued.turn, [...(this.held.get(queued.turn) ?? []), row]);
      queued.version += 1;
      return;
    }
    this.place(row);
    this.lanes.set(str(entry.parent_tool_call_id), row);
  }

  hasBegun(turn: string): boolean {
    return this.begun.has(turn);
  }

  /** The files that came with a queued input, as far as they are known by name. */
  filesFor(turn: string): FileRow[] {
    return (this.held.get(turn) ?? []).filter((row): row is FileRow => row.kind === "file");
  }

  private complete(entry: Entry): void {
    const turn = str(entry.turn_id) || this.running;
    const error = obj(entry.error);
    const data: Obj = {};
    for (const name of ["result", "artifacts", "exit_code", "signal", "delivered"]) {
      // That an input was delivered is what everyone expects.
      if (entry[name] !== undefined && entry[name] !== null && entry[name] !== "yes") data[name] = entry[name];
    }
    const provisional = entry.provisional === true;
    const { turn: timed, began, spoke } = this.clock;
    const firstMs = turn === timed && spoke >= began ? spoke - began : undefined;
    const reported = num(entry.duration_ms);
    // An agent may count from its own first words on.
    const durationMs = reported !== undefined && firstMs !== undefined && reported < firstMs ? Date.parse(str(entry.time)) - began : reported;
    const end: Fresh<EndRow> = {
      kind: "end",
      status: str(entry.status) || "completed",
      category: str(error.category),
      message: str(error.message),
      reason: str(entry.stop_reason),
      summary: this.said(turn, str(entry.summary)) ? "" : str(entry.summary),
      durationMs,
      firstMs,
      usage: obj(entry.usage),
      model: str(entry.model),
      data: Object.keys(data).length > 0 ? (data as EndRow["data"]) : undefined,
      provisional,
    };
    // The input of a turn that waits may be before the first entry.
    const waits = this.partial && !this.begun.has(turn) && this.openTurns.indexOf(turn) > 0;
    const queued = this.queue.find((row) => row.turn === turn) ?? (waits ? this.makeInput(entry, false) : undefined);
    if (queued && !provisional) return this.unrun(entry, queued, end);
    this.run(turn);
    const before = this.provisional.get(turn);
    if (before) Object.assign(before, end, { version: before.version + 1, seq: num(entry.seq) ?? 0 });
    else {
      // They are older than the end of the turn.
      if (turn === this.running) this.rows.push(...this.traces.splice(0));
      const row = this.add<EndRow>(entry, end);
      row.early = this.partial && !this.begun.has(turn);
      if (provisional) this.provisional.set(turn, row);
    }
    if (!provisional) this.provisional.delete(turn);
    this.close(turn, str(entry.time));
  }

  /** Ends a turn that never ran. One that was withdrawn leaves a trace, any other one its input and its end. */
  private unrun(entry: Entry, row: InputRow, end: Fresh<EndRow>): void {
    this.queue = this.queue.filter((each) => each !== row);
    if (end.status === "stopped") {
      this.withdrawn.add(row.turn);
      const gist = row.text.trim().split("\n")[0]?.slice(0, 120) ?? "";
      const trace = { ...mark("withdrawn", `a queued input was withdrawn${gist === "" ? "" : `: “${gist}”`}`), by: this.stoppedBy.get(row.turn) ?? "" };
      this.traces.push(this.make<NoteRow>({ ...entry, turn_id: "" }, trace));
    } else this.behind.push(row, ...(this.held.get(row.turn) ?? []), this.make<EndRow>(entry, end));
    this.held.delete(row.turn);
    this.close(row.turn, str(entry.time));
  }

  private close(turn: string, time: string): void {
    const ran = this.openTurns[0] === turn || !this.openTurns.includes(turn);
    this.ended.add(turn);
    if (this.openTurns[0] === UNKNOWN && ran) this.openTurns.shift();
    this.openTurns = this.openTurns.filter((each) => each !== turn);
    const input = this.inputs.get(turn);
    if (input) {
      input.state = "ended";
      input.version += 1;
      this.inputs.delete(turn);
    }
    if (ran) this.progress = "";
    if (ran || this.openTurns.length === 0) this.flush();
    this.mark(time);
  }

  /** Whether the turn's text ends with this already. */
  private said(turn: string, summary: string): boolean {
    let text = "";
    for (let at = this.rows.length - 1; at >= 0 && text.length < summary.length + 100; at -= 1) {
      const row = this.rows[at];
      if (row?.turn !== turn || row.kind === "input") break;
      if (row.kind === "text" && row.depth === 0) text = row.text + text;
    }
    return text.trim().endsWith(summary.trim());
  }

  private info(entry: Entry): void {
    this.choose(entry);
    if (entry.context === "lost") this.add<NoteRow>(entry, mark("host", "the agent does not remember the conversation"));
  }

  private choose(entry: Entry): void {
    const it = this.settings;
    if (entry.models !== undefined) it.models = choices(entry.models);
    if (entry.modes !== undefined) it.modes = choices(entry.modes);
    if (entry.input_modes !== undefined) it.inputModes = list(entry.input_modes).map(str);
    if (entry.commands !== undefined) it.commands = readCommands(entry.commands);
    if (str(entry.model) !== "") it.model = str(entry.model);
    if (str(entry.mode) !== "") it.mode = str(entry.mode);
    if (str(entry.reasoning_effort) !== "") it.effort = str(entry.reasoning_effort);
    if (str(entry.display_id) !== "") this.edits += 1;
    if (str(entry.display_id) !== "") it.display = str(entry.display_id);
  }

  private note(entry: Entry): void {
    if (entry.type === "stop.requested" && this.queue.some((row) => row.turn === str(entry.turn_id))) {
      this.stoppedBy.set(str(entry.turn_id), str(entry.by));
      return;
    }
    if (entry.type === "stop.requested") this.rows.push(...this.traces.splice(0));
    if (entry.type === "session.closed") this.closed = true;
    if (entry.type === "session.edited") this.edits += 1;
    const note = noteOf(entry);
    if (entry.fact === "process_ended" || entry.fact === "host_restarted") this.asleep = true;
    const before = this.rows[this.rows.length - 1];
    // A process ends without a word of trouble, too: when nothing needs it any more.
    const ill = (num(entry.exit_code) ?? num(entry.signal) ?? 0) !== 0 || (before?.kind === "end" && before.status === "failed");
    if (entry.type === "host.fact" && entry.fact === "process_ended" && ill) note.tone = "warning";
    if (note.joins) this.append(entry, note.label, note.tone, note.text);
    else {
      const { label, tone, text, data, by } = note;
      this.add<NoteRow>(entry, { kind: "note", label, tone, text, data, dropped: 0, ...(by === undefined ? {} : { by }) });
    }
  }

  /** Text of a channel goes on the last note of its lane where that has the same label. */
  private append(entry: Entry, label: string, tone: NoteRow["tone"], text: string): void {
    const row = this.lanes.get(str(entry.parent_tool_call_id));
    if (row && row.kind === "note" && row.label === label && row.turn === str(entry.turn_id) && row.data === undefined) {
      row.dropped += keepEnd(row, "text", text);
      row.version += 1;
      return;
    }
    const fresh = this.add<NoteRow>(entry, { kind: "note", label, tone, text, dropped: 0, data: undefined });
    fresh.early = this.partial && (row?.early ?? true);
  }

  private gap({ from, to, seq }: Entry): void {
    const why = seq !== undefined ? "the journal has lost" : "this page did not get";
    this.add<NoteRow>({ type: "lag" }, mark("gap", `${why} entries ${num(from) ?? 0} to ${num(to) ?? 0}`));
  }
}

function mark(label: string, text: string): Fresh<NoteRow> {
  return { kind: "note", label, tone: "mark", text, dropped: 0, data: undefined };
}

/** Adds to a text and keeps its end; gives how many characters went. */
function keepEnd<K extends string>(row: Record<K, string>, member: K, more: string): number {
  const whole: string = row[member] + more;
  const over = whole.length > 2 * MAX_PRINTED ? whole.length - MAX_PRINTED : 0;
  row[member] = (over > 0 ? whole.slice(over) : whole) as Record<K, string>[K];
  return over;
}
