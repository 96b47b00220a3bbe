// Files for the user, files of the user, and members that lie in files ([file.1] to [file.7], [large.1] to [large.3]).
import { createHash } from "node:crypto";
import { constants, createReadStream, writeFileSync } from "node:fs";
import { mkdir, open, stat, unlink, writeFile } from "node:fs/promises";
import { basename, dirname, extname, join, resolve } from "node:path";
import { optionalText, uint, type Message } from "./json.js";

const LARGE_BYTES = 64 * 1024 * 1024;
const UNKNOWN = "application/octet-stream";
const TYPES = new Map(
  "txt=text/plain log=text/plain md=text/markdown csv=text/csv html=text/html htm=text/html json=application/json xml=application/xml pdf=application/pdf zip=application/zip gz=application/gzip png=image/png jpg=image/jpeg jpeg=image/jpeg gif=image/gif svg=image/svg+xml webp=image/webp"
    .split(" ")
    .map((pair) => pair.split("=") as [string, string]),
);
let next = 1;

/** The MIME type that a file name's extension suggests; `application/octet-stream` where it suggests none. */
export function fileTypeOf(name: string): string {
  return TYPES.get(extname(name).slice(1).toLowerCase()) ?? UNKNOWN;
}

/** The size of a regular file in bytes, and their SHA-256. Rejects for what is not one. */
export async function digest(path: string): Promise<{ size: number; sha256: string }> {
  await regular(path); // before it is opened: a FIFO would wait for its writer
  const hash = createHash("sha256");
  let size = 0;
  for await (const chunk of createReadStream(path)) {
    hash.update(chunk);
    size += chunk.length;
  }
  return { size, sha256: hash.digest("hex") };
}

/** The size of a regular file in bytes. Rejects for what is not one. */
export async function regular(path: string): Promise<number> {
  const found = await stat(path);
  if (!found.isFile()) throw new Error("not a regular file");
  return found.size;
}

/** How a file differs from what the host announced; nothing where it does not, or cannot be read. */
export async function differs(file: Message): Promise<string | undefined> {
  const { size, sha256, file_path: path } = file;
  if (size === undefined && sha256 === undefined) return undefined;
  try {
    const found = await regular(path);
    if (size !== undefined && size !== found) return `the file has ${found} bytes, not the ${size} that were announced`;
    if (sha256 !== undefined && (await digest(path)).sha256 !== sha256) return "the file's SHA-256 is not the one that was announced";
  } catch {
    return undefined; // its reader meets that
  }
  return undefined;
}

/** The `file.output` of a file. Rejects where there is no such regular file. */
export async function announced(path: string, name = basename(path), mime = fileTypeOf(name), withDigest = false): Promise<Message> {
  const file_path = resolve(path);
  const told: Message = { type: "file.output", file_name: name, file_mime_type: mime, file_path };
  if (withDigest) return { ...told, ...(await digest(file_path)) };
  await regular(file_path);
  return told;
}

/** Writes a file into a folder of its own. Resolves to that folder and the file's path. */
export async function make(folder: string, name: string, data: string | Uint8Array): Promise<{ own: string; path: string }> {
  const own = join(folder, `made-${process.pid}-${next++}`);
  await mkdir(own, { recursive: true });
  const label = basename(name); // a name is a label and may look like a path
  const isBad = label === "" || label === "." || label === ".." || label.includes("\0") || Buffer.byteLength(label) > 255;
  const path = join(own, isBad ? "file" : label);
  await writeFile(path, data);
  return { own, path };
}

/** Puts a member's JSON into a file of the exchange folder. Blocks for as long as the file system takes; throws. */
export function keep(folder: string, text: string): Message {
  const data = Buffer.from(text);
  const file_path = join(folder, `large-${process.pid}-${next++}.json`);
  writeFileSync(file_path, data, { flag: "wx" });
  return { file_path, size: data.length, sha256: createHash("sha256").update(data).digest("hex") };
}

/** The text of an input that was too long for a line; its file is removed. Rejects where it may not be taken. */
export async function takeText(folder: string | undefined, member: Message): Promise<string> {
  const [path, size, sha256] = [optionalText(member, "file_path"), uint(member, "size"), optionalText(member, "sha256")];
  if (folder === undefined) throw new Error("the session has no exchange folder");
  if (path === undefined || dirname(path) !== folder.replace(/\/+$/, "")) throw new Error("it does not lie in the exchange folder");
  if (size === undefined || size > LARGE_BYTES) throw new Error(`it is over ${LARGE_BYTES} bytes`);
  const data = await taken(path, size);
  if (data.length !== size || createHash("sha256").update(data).digest("hex") !== sha256) throw new Error("it is not what was announced");
  await unlink(path);
  const value: unknown = JSON.parse(data.toString());
  if (typeof value !== "string") throw new Error("it is not a text");
  return value.toWellFormed();
}

// A link, a FIFO or a swap after a check gets nowhere: all is judged on the opened handle.
async function taken(path: string, size: number): Promise<Buffer> {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const found = await file.stat();
    if (!found.isFile() || found.nlink !== 1) throw new Error("it is not a regular file with one link");
    const data = Buffer.alloc(size + 1);
    let length = 0;
    for (let read; length <= size && (read = (await file.read(data, length, size + 1 - length)).bytesRead) > 0; ) length += read;
    return data.subarray(0, length);
  } finally {
    await file.close();
  }
}
