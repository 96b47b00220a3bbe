import assert from "node:assert/strict";
import { test } from "node:test";
import { keyAction, keyLabel, keyTable } from "../src/core/keys.ts";
import type { KeyPress } from "../src/core/keys.ts";

const press = (key: string, more: Partial<KeyPress> = {}): KeyPress =>
  ({ key, ctrlKey: false, metaKey: false, altKey: false, shiftKey: false, repeat: false, isComposing: false, ...more });

test("each key has one action in the places that are asked together", () => {
  for (const sends of [true, false]) {
    for (const places of [["anywhere", "page"], ["anywhere", "field"], ["anywhere", "field", "input"], ["dialog"]]) {
      const keys = keyTable(sends).filter((each) => places.includes(each.where)).flatMap((each) => each.keys);
      assert.equal(new Set(keys).size, keys.length, `${places} ${keys}`);
    }
  }
});

test("Enter sends or makes a line by choice, and Ctrl+Enter always sends", () => {
  assert.equal(keyAction(press("Enter"), ["input"], true), "send");
  assert.equal(keyAction(press("Enter"), ["input"], false), "line");
  assert.equal(keyAction(press("Enter", { shiftKey: true }), ["input"], true), "line");
  for (const sends of [true, false]) {
    assert.equal(keyAction(press("Enter", { ctrlKey: true }), ["input"], sends), "send");
    assert.equal(keyAction(press("Enter", { metaKey: true }), ["input"], sends), "send");
  }
});

test("a key of an input method never acts", () => {
  assert.equal(keyAction(press("Enter", { isComposing: true }), ["input"], true), undefined);
  assert.equal(keyAction(press("Enter", { keyCode: 229 }), ["input"], true), undefined);
  assert.equal(keyAction(press("a", { isComposing: true }), ["page"], true), undefined);
});

test("a key that is held down answers once, and goes on through the list", () => {
  assert.equal(keyAction(press("a"), ["page"], true), "allow");
  assert.equal(keyAction(press("a", { repeat: true }), ["page"], true), undefined);
  assert.equal(keyAction(press("Enter", { repeat: true }), ["input"], true), undefined);
  assert.equal(keyAction(press("j", { repeat: true }), ["page"], true), "next");
});

test("letters are keys only outside of fields, and with no other key held", () => {
  assert.equal(keyAction(press("a"), ["anywhere", "field"], true), undefined);
  assert.equal(keyAction(press("a", { ctrlKey: true }), ["anywhere", "page"], true), undefined);
  assert.equal(keyAction(press("a", { altKey: true }), ["anywhere", "page"], true), undefined);
  assert.equal(keyAction(press("A", { shiftKey: true }), ["anywhere", "page"], true), undefined);
  assert.equal(keyAction(press(".", { ctrlKey: true }), ["anywhere", "field"], true), "stop");
  assert.equal(keyAction(press("?", { shiftKey: true }), ["page"], true), "help");
});

test("keys are written as keyboards show them", () => {
  assert.deepEqual(["Mod+k", "?", "n", "Escape", "Shift+Enter"].map((key) => keyLabel(key)), ["Ctrl+K", "?", "n", "Esc", "Shift+Enter"]);
  assert.equal(keyLabel("Mod+k", true), "⌘ K");
});
