/**
 * A host in memory, for an author's tests: no process, no pipe, and the same code between the lines.
 *
 * @module
 */
import { adapterOf, type Adapter, type Description, type Handler } from "./adapter.js";
import { EXTENSIONS } from "./fold.js";
import { Server } from "./process.js";
import type { AdapterMessage, HostMessage, TurnCompleteMessage } from "./types.js";

type Sent<M> = M extends { type: string } ? Omit<M, "session_id"> : never;

/** What the host did not see yet of one turn, and then its end. */
export interface Served {
  /** All messages of the session since the input, the end among them. */
  messages: AdapterMessage[];
  /** The answer: `output` on stdout, joined. */
  text: string;
  end: TurnCompleteMessage;
}

/** A host that offers every extension, unless told otherwise: `[]` is a core host. */
export class Host {
  /** Every message that the adapter has sent. */
  readonly messages: AdapterMessage[] = [];
  readonly #server: Server;
  readonly #ended: Promise<unknown>;
  #waiters: (() => void)[] = [];
  #sessions = 0;
  #turns = 0;

  constructor(adapter: Adapter<any> | Handler<any>, description?: Description, { stopGrace = 2000 }: { stopGrace?: number } = {}) {
    this.#server = new Server(adapterOf(adapter, description), (data, done) => (this.#read(data), queueMicrotask(done)), stopGrace);
    this.#ended = this.#server.run();
  }

  #read(data: string): void {
    for (const line of data.split("\n")) if (line) this.messages.push(JSON.parse(line));
    for (const wake of this.#waiters.splice(0)) wake();
  }

  /** Opens a session with members of `session.start`. Returns its id. */
  open(start: { extensions?: readonly string[]; [member: string]: unknown } = {}): string {
    const session_id = `s-${++this.#sessions}`;
    const { extensions = EXTENSIONS, ...more } = start;
    const offer = extensions.length > 0 ? { protocol: 1, extensions } : {};
    this.#line({ type: "session.start", session_id, ...offer, ...more });
    return session_id;
  }

  /** Sends any message of a session. */
  send(session: string, message: Sent<HostMessage>): void {
    this.#line({ ...message, session_id: session });
  }

  #line(message: object): void {
    this.#server.feed(Buffer.from(JSON.stringify(message) + "\n"));
  }

  /** Sends an input, and resolves at the end of its turn. A permission is denied, unless `approve` says yes. */
  async turn(session: string, content: string, { approve = () => false }: { approve?: (request: AdapterMessage) => boolean } = {}): Promise<Served> {
    const turn_id = `t-${++this.#turns}`;
    let from = this.messages.length;
    const began = from;
    this.send(session, { type: "user.input", content, turn_id });
    for (;;) {
      const message = await this.wait((message) => message.session_id === session, from);
      from = this.messages.indexOf(message, from) + 1;
      if (message.type === "permission.request") {
        this.send(session, { type: "permission.response", request_id: message.request_id, approved: approve(message) });
      }
      if (message.type !== "turn.complete") continue;
      const messages = this.messages.slice(began, from).filter((message) => message.session_id === session);
      const text = messages.map((message) => (message.type === "output" && (message.channel ?? "stdout") === "stdout" ? message.content : "")).join("");
      return { messages, text, end: message };
    }
  }

  /** The first message that fits, from the number `after` of `messages` on; waits for it. */
  async wait(fits: (message: AdapterMessage) => boolean, after = 0): Promise<AdapterMessage> {
    for (;;) {
      const found = this.messages.slice(after).find(fits);
      if (found) return found;
      await new Promise<void>((resolve) => this.#waiters.push(resolve));
    }
  }

  /** Ends the input, and resolves when the adapter has ended: within two seconds. */
  async end(): Promise<void> {
    this.#server.end("end of input");
    await this.#ended;
  }
}
