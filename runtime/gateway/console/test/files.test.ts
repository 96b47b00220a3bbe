import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { isSvg, looksBinary, readText, shownFile } from "../src/core/files.ts";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const kind = (content: string | Uint8Array, name: string, mime = "", isWhole = true): string => {
  const shown = shownFile(typeof content === "string" ? bytes(content) : content, name, mime, isWhole);
  return shown.kind === "picture" ? shown.type : shown.kind;
};

test("the bytes of a file decide how it is shown", () => {
  const png = new Uint8Array([0x89, ...bytes("PNG\r\n\x1a\nrest")]);
  for (const [content, name, mime, shown] of [
    [png, "a.md", "text/html", "image/png"], ["# a", "a.MD", "", "markdown"], ["# a", "a", "text/markdown; charset=utf-8", "markdown"], ["a,b\n", "a.csv", "text/csv", "text"],
    ["<svg xmlns='x'/>", "a.svg", "", "svg"], ["<svg/>", "a.txt", "image/svg+xml", "text"], ["<html><svg>", "a.svg", "image/svg+xml", "text"], ["<h1>", "a.html", "text/html", "text"],
    ["a\0b", "a.txt", "text/plain", "binary"], [new Uint8Array([0xff, 0xfe, 0x61]), "a.txt", "text/plain", "binary"], ["", "empty", "", "text"], ["GIF8", "a.gif", "image/gif", "text"],
    ["PK\x03\x04 all of it in ASCII", "a", "", "binary"], ["%PDF-1.4 text", "a.txt", "", "binary"], ["\x07\x01a\x02", "a", "text/plain", "binary"], [`\x1b[31m${"a".repeat(200)}\x07\r\n`, "a.log", "", "text"],
  ] as const) assert.equal(kind(content, name, mime), shown, `${name} ${mime}`);
  assert.equal(kind(png, "a.png", "image/png", false), "binary", "half a picture");
  assert.equal(kind("<svg>", "a.svg", "", false), "text", "half a picture");
  assert.equal(kind(`# ${"a".repeat(300_000)}`, "a.md"), "text", "too long for Markdown");
});

test("a picture in SVG begins as one, and has no entities", () => {
  for (const text of ["<svg>", "\ufeff<?xml version='1.0'?>\n<!-- a -->\n<!-- b --><svg ", '<!DOCTYPE svg PUBLIC "a" "b">\n<svg>']) assert.ok(isSvg(text), text);
  for (const text of ["", "<svgx>", "text <svg>", "<html><svg>", '<!DOCTYPE svg [<!ENTITY a "b">]><svg>&a;</svg>', "<svg><!entity>", "<!-- <svg> -->"]) assert.ok(!isSvg(text), text);
  for (const payload of readFileSync("test/xss.txt", "utf8").split("\n")) if (!/^\s*<svg[\s>]/.test(payload)) assert.ok(!isSvg(payload), payload);
});

test("archives and documents are offered for saving only", () => {
  assert.deepEqual(["a.zip", "A.TAR.GZ", "a.pdf", "a.txt", "zip", "a.log", "a.png"].map((name) => looksBinary(name, "")), [true, true, true, false, false, false, false]);
  assert.deepEqual(["application/zip", "video/mp4", "text/plain", "application/octet-stream"].map((mime) => looksBinary("a", mime)), [true, true, false, false]);
});

test("text that is cut in a character is text", () => {
  const whole = bytes("aä");
  assert.equal(readText(whole.subarray(0, 2), false), "a");
  assert.equal(readText(whole.subarray(0, 2), true), undefined);
});
