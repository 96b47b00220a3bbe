import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { keyAction, keyLabel, keyTable } from "../core/keys.ts";
import type { KeyAction, KeyPlace } from "../core/keys.ts";
import { MAC, enterSends, setEnterSends, useEnterSends } from "./bindings.ts";
import { Dialog } from "./bits.tsx";
import { leaveField } from "./focus.ts";
import { isCoarse } from "./hooks.ts";
import { READ_MS } from "./settle.ts";

/** When the key that is handled was pressed: a page that is busy handles it later. */
let pressedAt = 0;

const inSight = (element: HTMLElement): boolean => {
  const { top, bottom, width } = element.getBoundingClientRect();
  return width > 0 && bottom > 0 && top < innerHeight && element.checkVisibility();
};

/** Presses the button that names `key` as its own, in the request that has the focus or else in the first one in sight. */
export function press(key: string, root: ParentNode = document): void {
  const all = [...root.querySelectorAll<HTMLButtonElement>(`button[aria-keyshortcuts~="${key}"]`)].filter((each) => !each.disabled && inSight(each));
  const card = document.activeElement?.closest("[data-request]");
  const button = all.find((each) => card?.contains(each)) ?? all[0];
  const since = Number(button?.closest<HTMLElement>("[data-shown]")?.dataset.shown ?? 0);
  if (pressedAt - since > READ_MS) button?.click();
}

const tellPage = (name: string) => (): void => {
  dispatchEvent(new Event(`console:${name}`));
};

/** Handles the keys of the whole page. */
export function useKeys(actions: { [action in KeyAction]?: () => void }): void {
  const latest = useRef(actions);
  latest.current = actions;
  useEffect(() => {
    const run: typeof actions = {
      write: () => document.getElementById("input")?.focus(),
      request: () => [...document.querySelectorAll<HTMLElement>("[data-request][tabindex]")].find((card) => card.checkVisibility())?.focus(),
      allow: () => press("a"),
      deny: () => press("d"),
      stop: () => press("s"),
      steer: () => press("t"),
      wire: tellPage("wire"),
      leave: leaveField,
    };
    const pressed = (event: KeyboardEvent): void => {
      const target = event.target instanceof HTMLElement ? event.target : undefined;
      if (event.defaultPrevented || target?.closest("dialog") || document.querySelector("dialog[open]")) return;
      const places: KeyPlace[] = target?.closest("input, textarea, select, [contenteditable]") ? ["anywhere", "field"] : ["anywhere", "page"];
      const action = keyAction(event, places, enterSends());
      // A view that is not open leaves its key to the browser.
      const handler = action && (latest.current[action] ?? run[action]);
      if (!handler) return;
      event.preventDefault();
      pressedAt = event.timeStamp;
      handler();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
}

const PLACES: [KeyPlace[], string][] = [[["page"], "On the page"], [["anywhere"], "Everywhere"], [["input"], "In the message"], [["field", "dialog"], "In fields and dialogs"]];

/** All keys, and the choice of what Enter does. */
export function KeysDialog({ close }: { close: () => void }): JSX.Element {
  const sends = useEnterSends();
  const table = keyTable(sends);
  return (
    <Dialog title="Keys" close={close}>
      <div class="keys">
        {!isCoarse() && (
          <label class="check">
            <input type="checkbox" checked={sends} onChange={(event) => setEnterSends(event.currentTarget.checked)} />
            Enter sends a message; Shift+Enter makes a new line
          </label>
        )}
        {PLACES.map(([places, title]) => (
          <section key={title}>
            <h3>{title}</h3>
            <dl>
              {table.filter((each) => places.includes(each.where)).map((each) => (
                <div key={each.action}>
                  <dt>{each.keys.map((key, at) => [at > 0 && " ", <kbd>{keyLabel(key, MAC)}</kbd>])}</dt>
                  <dd>{each.what}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
    </Dialog>
  );
}
