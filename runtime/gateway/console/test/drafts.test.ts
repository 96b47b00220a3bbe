import assert from "node:assert/strict";
import { test } from "node:test";
import { AnswerDrafts, draftText, inputFields } from "../src/core/drafts.ts";
import type { RequestRow } from "../src/core/rows.ts";

test("drafts of answers are kept for their own request, and taken once", () => {
  const drafts = new AnswerDrafts();
  drafts.change("s", "r", { message: "no" });
  drafts.change("s", "r", { edits: ["ls"] });
  assert.deepEqual(drafts.get("s", "r"), { message: "no", edits: ["ls"] });
  assert.deepEqual(drafts.get("s r", ""), {});
  assert.deepEqual([drafts.take("s", "r").message, drafts.take("s", "r").message], ["no", undefined]);
  for (let at = 0; at < 300; at += 1) drafts.change("s", `${at}`, { message: `${at}` });
  assert.deepEqual([drafts.get("s", "199").message, drafts.get("s", "200").message], [undefined, "200"], "the last hundred");
});

test("the text of a draft has what was typed, and no secret", () => {
  const permission = { kind: "permission", input: { command: "rm", path: "/" } } as unknown as RequestRow;
  assert.deepEqual(inputFields({ command: "rm", deep: { a: 1 } }).map(({ name, isText }) => [name, isText]), [["command", true], ["deep", false]]);
  assert.equal(draftText({ message: "why", edits: ["ls", "/"] }, permission), "why\nls");
  const fields = [["name", "text"], ["token", "secret"], ["constructor", "text"], ["where", "choice"]].map(([id, kind]) => ({ id, kind }));
  const question = { kind: "question", fields } as unknown as RequestRow;
  assert.equal(draftText({ values: { name: "Ann", token: "hidden", where: "eu" } }, question), "Ann");
  assert.equal(draftText({}, undefined), "");
});
