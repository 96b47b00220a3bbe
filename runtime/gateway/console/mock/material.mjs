// A picture, and texts that try to become more than text.
import { readFileSync } from "node:fs";
import * as zlib from "node:zlib";

export const XSS = readFileSync(new URL("../test/xss.txt", import.meta.url), "utf8").split("\n").filter((line) => line !== "");

const host = (id, state, rest) => ({ id, is_this: false, state, load: null, sessions: 12, labels: {}, agents: ["coder", "reviewer"], storage: [], version: "0.1.0", heard_ms: 400, ...rest });

/** The hosts of a cluster. */
export const HOSTS = [
  host("berlin-1", "up", { is_this: true, heard_ms: 0, labels: { zone: "eu", rack: "r12" }, storage: ["home"] }),
  host("berlin-2", "draining", { sessions: 3, labels: { zone: "eu" }, storage: ["home", "scratch"] }),
  host(`oslo-${"long-name-".repeat(5)}1`, "lost", { heard_ms: 93_000, agents: Array.from({ length: 9 }, (_, at) => `agent-${at}`), labels: { note: "\u202e<b>turned" } }),
];

/** A picture of bars, made here so that no file of bytes is checked in. */
function picture(width, height) {
  const rows = [];
  for (let y = 0; y < height; y += 1) {
    const row = Buffer.alloc(1 + width * 3, 0xf4);
    row[0] = 0;
    for (let x = 0; x < width; x += 1) {
      const bar = Math.floor(x / 40);
      const high = 40 + ((bar * 53) % 120);
      if (x % 40 > 6 && y > height - high - 10 && y < height - 10) row.set(bar % 2 ? [0x0b, 0x6b, 0x62] : [0xc7, 0x7b, 0x1e], 1 + x * 3);
    }
    rows.push(row);
  }
  const chunk = (type, data) => {
    const body = Buffer.concat([Buffer.from(type), data]);
    const sized = Buffer.alloc(8);
    sized.writeUInt32BE(data.length);
    sized.writeUInt32BE(crc(body), 4);
    return Buffer.concat([sized.subarray(0, 4), body, sized.subarray(4)]);
  };
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width);
  head.writeUInt32BE(height, 4);
  head.set([8, 2], 8);
  return Buffer.concat([Buffer.from("\x89PNG\r\n\x1a\n", "latin1"), chunk("IHDR", head), chunk("IDAT", zlib.deflateSync(Buffer.concat(rows))), chunk("IEND", Buffer.alloc(0))]);
}

/** zlib has it since Node 22. */
function crc(bytes) {
  if (zlib.crc32) return zlib.crc32(bytes);
  let sum = ~0;
  for (const byte of bytes) {
    sum ^= byte;
    for (let bit = 0; bit < 8; bit += 1) sum = (sum >>> 1) ^ (sum & 1 ? 0xedb88320 : 0);
  }
  return ~sum >>> 0;
}

export const PNG = picture(480, 200);
