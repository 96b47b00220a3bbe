/** Where a key works. `anywhere` includes fields; `page` is what is left when neither a field nor a dialog has the focus. */
export type KeyPlace = "anywhere" | "page" | "input" | "dialog" | "field";

export type KeyAction =
  | "commands" | "search" | "next" | "previous" | "create" | "pin" | "write" | "request" | "allow" | "deny" | "done" | "stop" | "steer"
  | "find" | "wire" | "help" | "send" | "line" | "submit" | "leave" | "close";

export interface KeyBinding {
  /** As `KeyboardEvent.key` names them; `Mod` is Ctrl or Cmd. */
  keys: string[];
  what: string;
  where: KeyPlace;
  action: KeyAction;
  /** A key that is held down acts again and again. */
  repeats?: true;
}

/** Every key of the console. The handlers and the list in Help read this table; Enter in the input is a setting. */
export function keyTable(enterSends: boolean): KeyBinding[] {
  return [
    { keys: ["Mod+k"], what: "commands and sessions by name", where: "anywhere", action: "commands" },
    { keys: ["Mod+f"], what: "find in the session; Enter and Shift+Enter go on and back", where: "anywhere", action: "find" },
    { keys: ["Mod+."], what: "stop the running turn", where: "anywhere", action: "stop" },
    { keys: ["/"], what: "search sessions; agent:NAME for those of one agent", where: "page", action: "search" },
    { keys: ["j"], what: "next session, or item of the inbox", where: "page", action: "next", repeats: true },
    { keys: ["k"], what: "the previous one", where: "page", action: "previous", repeats: true },
    { keys: ["n"], what: "new session", where: "page", action: "create" },
    { keys: ["p"], what: "pin the session at the top of the list, or unpin it", where: "page", action: "pin" },
    { keys: ["i"], what: "write a message", where: "page", action: "write" },
    { keys: ["r"], what: "go to the request that waits", where: "page", action: "request" },
    { keys: ["a"], what: "allow once what the request in sight asks for", where: "page", action: "allow" },
    { keys: ["d"], what: "deny it", where: "page", action: "deny" },
    { keys: ["e"], what: "mark as done, in the inbox", where: "page", action: "done" },
    { keys: ["s"], what: "stop the running turn", where: "page", action: "stop" },
    { keys: ["t"], what: "steer the running turn, or queue", where: "page", action: "steer" },
    { keys: ["w"], what: "wire view", where: "page", action: "wire" },
    { keys: ["?"], what: "this list", where: "page", action: "help" },
    { keys: enterSends ? ["Enter", "Mod+Enter"] : ["Mod+Enter"], what: "send", where: "input", action: "send" },
    { keys: enterSends ? ["Shift+Enter"] : ["Enter"], what: "new line", where: "input", action: "line" },
    { keys: ["Mod+Enter"], what: "submit the form of a dialog", where: "dialog", action: "submit" },
    { keys: ["Escape"], what: "close a dialog", where: "dialog", action: "close" },
    { keys: ["Escape"], what: "leave the field", where: "field", action: "leave" },
  ];
}

/** The members of a `KeyboardEvent` that decide. */
export interface KeyPress {
  key: string;
  ctrlKey: boolean;
  metaKey: boolean;
  altKey: boolean;
  shiftKey: boolean;
  repeat: boolean;
  isComposing: boolean;
  keyCode?: number;
}

/** Name of a key as the table has it. The key makes a character of its own of Shift, so only Enter keeps it. */
function keyName(press: KeyPress): string {
  const shift = press.shiftKey && press.key.length > 1 ? "Shift+" : "";
  return `${press.ctrlKey || press.metaKey ? "Mod+" : ""}${shift}${press.key}`;
}

/**
 * Returns the action of a key in one of `places`. A key that an input method composes with has none, and a key that is
 * held down acts once.
 */
export function keyAction(press: KeyPress, places: KeyPlace[], enterSends: boolean): KeyAction | undefined {
  // Safari ends the composition before the key, and marks that key by its code.
  if (press.isComposing || press.keyCode === 229 || press.altKey) return undefined;
  const name = keyName(press);
  const found = keyTable(enterSends).find((each) => places.includes(each.where) && each.keys.includes(name));
  return found && (!press.repeat || found.repeats) ? found.action : undefined;
}

/** A key as the page writes it. */
export const keyLabel = (key: string, mac = false): string =>
  key.split("+").map((part) => (part === "Mod" ? (mac ? "⌘" : "Ctrl") : part === "Escape" ? "Esc" : part.length === 1 && key.length > 1 ? part.toUpperCase() : part)).join(mac ? " " : "+");
