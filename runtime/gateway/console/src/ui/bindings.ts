import { useEffect, useState } from "preact/hooks";
import { keyAction, keyLabel, keyTable } from "../core/keys.ts";
import type { KeyAction } from "../core/keys.ts";
import { isCoarse } from "./hooks.ts";

const SETTING = "trunkline.enter";
export const MAC = /Mac|iPhone|iPad/.test(globalThis.navigator?.platform ?? "");
/** Whether Enter sends a message. With fingers it makes a line, as the keyboards of phones have no other key for that. */
export const enterSends = (): boolean => !isCoarse() && globalThis.localStorage?.getItem(SETTING) !== "line";

export function setEnterSends(sends: boolean): void {
  localStorage.setItem(SETTING, sends ? "send" : "line");
  dispatchEvent(new Event("console:enter"));
}

/** Whether Enter sends, kept up with the setting. */
export function useEnterSends(): boolean {
  const [sends, set] = useState(enterSends);
  useEffect(() => {
    const changed = (): void => set(enterSends());
    addEventListener("console:enter", changed);
    // Another window has changed it.
    addEventListener("storage", changed);
    return () => {
      removeEventListener("console:enter", changed);
      removeEventListener("storage", changed);
    };
  }, []);
  return sends;
}

/** First key of an action, to be shown beside its name. */
export function keyOf(action: KeyAction): string {
  const key = keyTable(enterSends()).find((each) => each.action === action)?.keys[0];
  return key === undefined ? "" : keyLabel(key, MAC);
}

/** Action of a key in the input of a session. */
export const inputAction = (event: KeyboardEvent): KeyAction | undefined => keyAction(event, ["input"], enterSends());

/** Action of a key in a dialog. */
export const dialogAction = (event: KeyboardEvent): KeyAction | undefined => keyAction(event, ["dialog"], enterSends());
