// A WebSocket of Node (RFC 6455), read as lines: what the runtime has keeps a message until it is whole, however large.
import { createHash, randomBytes } from "node:crypto";
import { request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import type { Socket } from "node:net";
import type { OpenSocket, SocketEvents } from "./browser.js";
import { MAX_ENTRY } from "./daemon.js";
import { AnswerTooLarge, ProtocolMismatch, Unreachable } from "./errors.js";
import { Lines } from "./lines.js";

const GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const CONTROL = 125; // the most bytes of a control frame
const Opcode = { continuation: 0, text: 1, close: 8, ping: 9, pong: 10 } as const;

/** Opens a WebSocket whose lines are bounded. */
export const openSocket: OpenSocket = (address, events) => {
  const key = randomBytes(16).toString("base64");
  const headers = { Connection: "Upgrade", Upgrade: "websocket", "Sec-WebSocket-Key": key, "Sec-WebSocket-Version": "13" };
  const request = address.protocol === "wss:" ? requestHttps : requestHttp;
  const asked = request(new URL(address.href.replace(/^ws/, "http")), { headers, agent: false });
  let frames: Frames | undefined;
  asked.on("error", (cause: NodeJS.ErrnoException) => events.failed(new Unreachable(`no connection to ${address.host}: ${cause.code}`, { cause })));
  asked.on("response", (answer) => {
    answer.destroy();
    events.failed(new Unreachable(`${address.host} opens no WebSocket: it answers ${answer.statusCode}`));
  });
  asked.on("upgrade", (answer, socket, head) => {
    const accept = createHash("sha1").update(key + GUID).digest("base64");
    if (answer.headers["sec-websocket-accept"] !== accept) {
      socket.destroy();
      return events.failed(new ProtocolMismatch(`${address.host} answers as no WebSocket`));
    }
    frames = new Frames(socket as Socket, events);
    events.opened();
    frames.feed(head);
    socket.on("data", (chunk: Buffer) => frames!.feed(chunk));
  });
  asked.end();
  return {
    send: (text) => frames?.send(Opcode.text, Buffer.from(text)),
    close: () => (frames ? frames.close() : asked.destroy()),
  };
};

// Frames of one connection. The text of a message goes to its lines as it comes.
class Frames {
  readonly #socket: Socket;
  readonly #events: SocketEvents;
  readonly #lines: Lines;
  #head = Buffer.alloc(0); // of the frame whose payload has not begun, or a control frame that is not whole
  #payload = 0; // bytes of a text frame that have not come
  #isFinal = true;
  #why = "the WebSocket was closed";
  #isOver = false;

  constructor(socket: Socket, events: SocketEvents) {
    this.#socket = socket;
    this.#events = events;
    const line = (text: string) => void (this.#isOver || events.line(text));
    const exceeds = () => this.#fail(new AnswerTooLarge("a line", MAX_ENTRY));
    this.#lines = new Lines({ line, short: line, tooLong: exceeds, exceeds }, MAX_ENTRY);
    socket.setNoDelay(true);
    socket.on("error", () => {}); // `close` follows
    socket.on("close", () => this.#fail(new Unreachable(this.#why)));
  }

  feed(chunk: Buffer): void {
    for (let rest: Buffer | undefined = chunk; rest && rest.length > 0 && !this.#isOver; ) {
      rest = this.#payload > 0 ? this.#text(rest) : this.#frame(this.#head.length > 0 ? Buffer.concat([this.#head, rest]) : rest);
    }
  }

  // Takes the payload of a text frame; returns what follows.
  #text(data: Buffer): Buffer {
    const own = data.subarray(0, this.#payload);
    this.#payload -= own.length;
    this.#lines.feed(own);
    if (this.#payload === 0) this.#endText();
    return data.subarray(own.length);
  }

  #endText(): void {
    if (this.#isFinal) this.#lines.feed(Buffer.from("\n"));
  }

  // Takes the head of a frame, and a whole control frame; returns what follows. What is not whole is kept.
  #frame(data: Buffer): Buffer | undefined {
    this.#head = Buffer.alloc(0);
    const short = data.length < 2 ? 0 : data[1]! & 0x7f;
    const size = 2 + (short === 127 ? 8 : short === 126 ? 2 : 0);
    if (data.length < size) return this.#keep(data);
    const [first, second] = [data[0]!, data[1]!];
    const length = short === 127 ? Number(data.readBigUInt64BE(2)) : short === 126 ? data.readUInt16BE(2) : short;
    const opcode = first & 0x0f;
    const isControl = opcode >= Opcode.close;
    // A daemon masks nothing, negotiates no extension, and sends text.
    if ((first & 0x70) !== 0 || (second & 0x80) !== 0 || (!isControl && opcode > Opcode.text) || (isControl && length > CONTROL)) {
      this.#fail(new ProtocolMismatch("the other side breaks the protocol of WebSockets"));
      return undefined;
    }
    if (!isControl) {
      this.#isFinal = (first & 0x80) !== 0;
      this.#payload = length;
      if (length === 0) this.#endText();
      return data.subarray(size);
    }
    if (data.length < size + length) return this.#keep(data);
    this.#control(opcode, data.subarray(size, size + length));
    return data.subarray(size + length);
  }

  #keep(data: Buffer): undefined {
    this.#head = Buffer.from(data);
  }

  #control(opcode: number, data: Buffer): void {
    if (opcode === Opcode.ping) this.send(Opcode.pong, data);
    if (opcode !== Opcode.close) return;
    if (data.length > 2) this.#why = data.subarray(2).toString();
    this.close();
  }

  send(opcode: number, data: Buffer): void {
    if (this.#isOver || this.#socket.destroyed) return;
    const extended = data.length > 0xffff ? 8 : data.length > CONTROL ? 2 : 0;
    const frame = Buffer.allocUnsafe(2 + extended + 4 + data.length);
    frame[0] = 0x80 | opcode;
    frame[1] = 0x80 | (extended === 8 ? 127 : extended === 2 ? 126 : data.length);
    if (extended === 8) frame.writeBigUInt64BE(BigInt(data.length), 2);
    if (extended === 2) frame.writeUInt16BE(data.length, 2);
    const mask = randomBytes(4);
    mask.copy(frame, 2 + extended);
    const begin = 2 + extended + 4;
    for (let at = 0; at < data.length; at++) frame[begin + at] = data[at]! ^ mask[at & 3]!;
    this.#socket.write(frame);
  }

  close(): void {
    this.send(Opcode.close, Buffer.from([0x03, 0xe8])); // 1000
    this.#socket.end();
    this.#socket.destroySoon();
  }

  #fail(error: Error): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#socket.destroy();
    this.#events.closed(error);
  }
}
