// The sessions of the mock daemon: an append-only list of entries each, as a journal has them.
import { createHash } from "node:crypto";

export const sha256 = (content) => createHash("sha256").update(content).digest("hex");

/** Commands that the mock's agents understand. */
export const COMMANDS = [
  { name: "review", description: "Reviews the changes", hint: "a path", text: "/review" }, { name: "compact", description: "Makes the context smaller" },
  { name: "<img/src=x/onerror=window.pwned=1>", description: "<img src=x onerror=window.pwned=1>", text: "<b>bold</b>" },
];

export class Session {
  constructor(world, id, agent, title = "") {
    Object.assign(this, { world, id, agent, title, entries: [], listeners: new Set(), files: new Map(), inputs: new Map() });
    Object.assign(this, { created: new Date().toISOString(), active: new Date().toISOString(), closed: false, turns: 0, bytes: 0, queue: [], requests: new Map(), cwd: "/srv/app", first: 1 });
    this.add({ type: "host.fact", fact: "opened" });
    this.add({
      type: "session.info", model: "large-2", mode: "code", reasoning_effort: "medium", input_modes: ["queue", "steer"],
      models: [{ id: "large-2", label: "Large 2" }, { id: "small-1", label: "Small 1" }],
      modes: [{ id: "code", name: "Code" }, { id: "plan", name: "Plan" }], commands: COMMANDS,
    });
  }

  /** Appends an entry, and gives it to those who listen. */
  add(entry) {
    const seq = this.entries.length + 1;
    this.active = new Date().toISOString();
    const { type, ...rest } = entry;
    const whole = { type, session_id: this.id, ...rest, seq, epoch: this.world.epoch, time: this.active };
    const line = JSON.stringify(whole);
    this.entries.push(line);
    this.bytes += line.length;
    for (const listener of this.listeners) listener();
    this.announce(whole);
    return seq;
  }

  get running() {
    return this.turn ?? "";
  }

  set running(turn) {
    this.turn = turn;
    this.shown();
  }

  /** Announces what an entry changes, as the daemon does. */
  announce({ type, turn_id, ...entry }) {
    const request = { "permission.request": "permission", "input.request": "question" }[type];
    const tell = (subject, change, members) => this.world.announce({ type: subject, change, session_id: this.id, agent: this.agent, time: this.active, seq: this.entries.length, turn_id, ...members });
    if (request) tell("request", "opened", { request_id: entry.request_id, request });
    if (type === "request.decided") tell("request", "answered", { request_id: entry.request_id, by: entry.by, approved: entry.approved, cancelled: entry.cancelled });
    if (type === "turn.begin") tell("turn", "started", { by: entry.by });
    if (type === "turn.complete") tell("turn", "ended", { status: entry.status, category: entry.error?.category });
    this.shown();
  }

  /** Announces the state of the session, if it is another one than before. */
  shown(change) {
    const { title, state, running } = this;
    const key = JSON.stringify([title, state, running]);
    if (key === this.told && change === undefined) return;
    const first = this.told === undefined;
    this.told = key;
    this.world.announce({ type: "session", change: change ?? (first ? "opened" : "state"), session_id: this.id, agent: this.agent, time: this.active, seq: this.entries.length, title, state, turn_id: running || undefined });
  }

  overview() {
    const of = (entry) => entry.request_id !== undefined && this.requests.has(entry.request_id) && (entry.type === "permission.request" || entry.type === "input.request");
    const requests = this.requests.size === 0 ? [] : this.entries.map((line) => JSON.parse(line)).filter(of)
      .map((entry) => ({ id: entry.request_id, request: entry.type === "input.request" ? "question" : "permission", turn_id: entry.turn_id, since: entry.time }));
    return { id: this.id, agent: this.agent, title: this.title, state: this.state, last_seq: this.entries.length, turn_id: this.running || undefined, requests };
  }

  get state() {
    return this.closed ? "closed" : this.running !== "" ? "running" : this.turns === 0 && this.entries.length > 2 ? "detached" : "idle";
  }

  listed() {
    return {
      session_id: this.id, agent_id: this.agent, title: this.title, state: this.state, cwd: this.cwd, created: this.created,
      active: this.active, entries: this.entries.length, bytes: this.bytes, open_turns: this.queue.length + (this.running ? 1 : 0), open_requests: this.requests.size, host: this.host,
    };
  }

  attached() {
    return {
      id: this.id, agent_id: this.agent, state: this.state, title: this.title, cwd: this.cwd, turn_id: this.running || undefined,
      queued: this.queue.map((each) => each.turn), requests: [...this.requests.keys()],
      always_patterns: Object.fromEntries([...this.requests.keys()].map((request) => [request, "Bash(rm -r /srv/app/logs)"])),
      first_seq: this.entries.length > 0 ? this.first : 0, last_seq: this.entries.length, epoch: this.world.epoch, role: "control", host: this.host,
    };
  }

  file(name, content, out = true) {
    const hash = sha256(content);
    this.files.set(hash, { name, content, out });
    return hash;
  }

  close() {
    this.closed = true;
    this.add({ type: "session.closed", reason: "finished" });
  }
}

export class World {
  constructor(token = "tlk_mock") {
    Object.assign(this, { token, epoch: 1, sessions: new Map(), codes: new Map(), next: 1, started: Date.now(), hostile: [], mayApprove: true, hosts: [], rules: [], searches: [], changes: [], followers: new Set() });
  }

  /** Gives a change to the streams of all sessions, and keeps the last ones. */
  announce(change) {
    this.changes.push(JSON.parse(JSON.stringify(change)));
    for (const follower of this.followers) follower();
  }

  /** Answers no search from a position on until the returned function is called. */
  holdSearch(from) {
    let release;
    this.searchHeld = { from, released: new Promise((done) => { release = done; }) };
    return () => {
      this.searchHeld = undefined;
      release();
    };
  }

  remove(id) {
    const session = this.sessions.get(id);
    this.sessions.delete(id);
    session?.shown("removed");
  }

  open(agent, title, id = `s-${this.next++}`) {
    const session = new Session(this, id, agent, title);
    this.sessions.set(id, session);
    return session;
  }

  /** As a daemon that was killed: what ran is closed by the next one. */
  restarted() {
    this.epoch += 1;
    for (const session of this.sessions.values()) {
      if (session.running === "") continue;
      const turn = session.running;
      session.stopper?.abort("restart");
      session.running = "";
      session.add({ type: "host.fact", fact: "host_restarted" });
      for (const id of session.requests.keys()) session.add({ type: "request.decided", turn_id: turn, request_id: id, approved: false, reason: "shutdown" });
      session.requests.clear();
      session.add({ type: "turn.complete", turn_id: turn, status: "failed", error: { category: "host_restart", message: "the host ended while this turn ran" }, delivered: "yes" });
    }
  }
}
