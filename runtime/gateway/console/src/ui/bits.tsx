import type { ComponentChildren, JSX } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { dialogAction } from "./bindings.ts";
import { focusHome } from "./focus.ts";
import { settleAll } from "./settle.ts";

const PATHS: { [name: string]: string } = {
  inbox: "M2 9l2-6h8l2 6v4H2zM2 9h3.500l1 1.500h3L10.500 9H14",
  sessions: "M2.500 3.500h11v7h-6l-3 2.500v-2.500h-2z",
  agents: "M4 6h8v6.500H4zM8 3v3M6.500 9v.500M9.500 9v.500M2.500 8.500v2M13.500 8.500v2",
  hosts: "M3 3h10v4H3zM3 9h10v4H3zM5.500 5v.100M5.500 11v.100",
  usage: "M2.500 13.500h11M4.500 11V7M8 11V3M11.500 11V5.500",
  browsers: "M2 3.500h12v9H2zM2 6h12M4 4.800v.100M5.500 4.800v.100",
  plus: "M8 3v10M3 8h10",
  send: "M8 13V3M4 7l4-4 4 4",
  stop: "M4.500 4.500h7v7h-7z",
  clip: "M12.500 7.500l-5 5a3 3 0 0 1-4.300-4.300l5.500-5.500a2 2 0 0 1 2.900 2.900l-5.500 5.500a1 1 0 0 1-1.400-1.400l4.800-4.800",
  copy: "M5.500 5.500h7v7h-7zM3.500 10.500v-7h7",
  check: "M3 8.500l3.500 3.500L13 4.500",
  cross: "M4 4l8 8M12 4l-8 8",
  down: "M8 3v10M4 9l4 4 4-4",
  up: "M8 13V3M4 7l4-4 4 4",
  more: "M3.500 8h.100M8 8h.100M12.500 8h.100",
  link: "M6.500 9.500l3-3M7 5l1.500-1.500a2.500 2.500 0 0 1 4 4L11 9M9 11l-1.500 1.500a2.500 2.500 0 0 1-4-4L5 7",
  find: "M7 2.500a4.500 4.500 0 1 1 0 9 4.500 4.500 0 0 1 0-9M10.500 10.500l3.500 3.500",
  gear: "M2.500 5h11M2.500 11h11M6 3.500v3M10 9.500v3",
  wire: "M5 4L1.500 8 5 12M11 4l3.500 4L11 12M9 3L7 13",
  back: "M10 3L5 8l5 5",
  theme: "M8 2.500a5.500 5.500 0 1 0 0 11zM8 2.500a5.500 5.500 0 1 1 0 11",
  help: "M5.500 6a2.500 2.500 0 1 1 3.500 2.300c-.700.400-1 .700-1 1.700M8 12.500v.100",
  out: "M6 3H3v10h3M7 8h6.500M11 5l3 3-3 3",
  file: "M4 2h5l3 3v9H4zM9 2v3h3",
  save: "M8 2v8M4.500 7L8 10.500 11.500 7M3 13.500h10",
};

export function Icon({ name }: { name: string }): JSX.Element {
  return (
    <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
      <path d={PATHS[name] ?? ""} />
    </svg>
  );
}

/** The sign of the program. It is drawn without a request, so it is there while the daemon is not. */
export function Logo({ size }: { size: number }): JSX.Element {
  return (
    <svg class="logo" viewBox="0 0 32 32" width={size} height={size} aria-hidden="true">
      <rect width="32" height="32" rx="7" fill="#0f766e" />
      <path fill="none" stroke="#fff" stroke-width="2.6" stroke-linecap="round" d="M7 16h18M11 16c3 0 3-6.500 6-6.500h4M11 16c3 0 3 6.500 6 6.500h4" />
      <path fill="#fff" d="M21.800 9.500a2.200 2.200 0 1 0 4.400 0a2.200 2.200 0 1 0-4.400 0M22.800 16a2.200 2.200 0 1 0 4.400 0a2.200 2.200 0 1 0-4.400 0M21.800 22.500a2.200 2.200 0 1 0 4.400 0a2.200 2.200 0 1 0-4.400 0" />
    </svg>
  );
}

const STATES: { [state: string]: string } = {
  running: "running", idle: "idle", detached: "asleep", closed: "closed", failed: "failed", queued: "queued",
  removed: "removed", missing: "not found", asks: "needs an answer", up: "up", draining: "draining", lost: "lost",
};

/** A dot and a word; what the dot says is in the word too. `why` is shown on hover. */
export function State({ state, quiet = false, why = "" }: { state: string; quiet?: boolean; why?: string }): JSX.Element {
  const known = Object.hasOwn(STATES, state) ? state : "other";
  return (
    <span class={`state state-${known}`} title={why || (known === "other" ? state : STATES[state])}>
      <i aria-hidden="true" />
      <span class={quiet ? "hidden" : ""}>{known === "other" ? state : STATES[state]}{why !== "" && <span class="hidden">: {why}</span>}</span>
    </span>
  );
}

/** Where the page came by plain HTTP from another machine, there is no clipboard but this way. */
function copyOld(text: string): boolean {
  const before = document.activeElement;
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "hidden";
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  if (before instanceof HTMLElement) before.focus();
  return done;
}

/** Copies a text. Returns whether the browser took it. */
export async function copyText(text: string): Promise<boolean> {
  try {
    if (!navigator.clipboard) return copyOld(text);
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

export function Copy({ text, label = "Copy", icon = "copy" }: { text: () => string; label?: string; icon?: string }): JSX.Element {
  const [done, set] = useState(false);
  const copy = async (): Promise<void> => {
    if (!(await copyText(text()))) return;
    set(true);
    setTimeout(() => set(false), 1500);
  };
  return (
    <button type="button" class="quiet small" aria-label={done ? "Copied" : label} title={label} onClick={copy}>
      <Icon name={done ? "check" : icon} />
    </button>
  );
}

/** A dialog that is modal, closed by Esc, and gives the focus back. */
export function Dialog(props: { title: string; close: () => void; wide?: boolean; children: ComponentChildren }): JSX.Element {
  const ref = useRef<HTMLDialogElement>(null);
  // Before the next key comes: who types on reaches the field, and not the page.
  useLayoutEffect(() => {
    const before = document.activeElement;
    const dialog = ref.current;
    dialog?.showModal();
    const field = ref.current?.querySelector<HTMLElement>("form textarea") ?? ref.current?.querySelector<HTMLElement>("form select, form input");
    field?.focus();
    return () => {
      // While it is open, nothing outside of it can have the focus.
      dialog?.close();
      settleAll();
      if (before instanceof HTMLElement && before !== document.body && before.isConnected) before.focus();
      else focusHome();
    };
  }, []);
  return (
    <dialog
      ref={ref}
      aria-label={props.title}
      tabIndex={-1}
      class={props.wide ? "wide" : ""}
      onKeyDown={(event) => {
        const form = (event.target as Element).closest("form");
        if (!form || dialogAction(event) !== "submit") return;
        event.preventDefault();
        form.requestSubmit();
      }}
      onCancel={(event) => {
        event.preventDefault();
        props.close();
      }}
      onClick={(event) => {
        if (event.target === ref.current) props.close();
      }}
    >
      <header>
        <h2>{props.title}</h2>
        <button type="button" class="quiet" aria-label="Close" onClick={props.close}><Icon name="cross" /></button>
      </header>
      {props.children}
    </dialog>
  );
}

/** What the person must know, with a text of theirs that was not used. */
export function Notice({ text, leftover, close }: { text: string; leftover: string; close: () => void }): JSX.Element {
  return (
    <p class="notice" role="status">
      <span>{text}</span>
      {leftover !== "" && <CopyText text={leftover} />}
      <button type="button" class="quiet small" aria-label="Close the notice" onClick={close}><Icon name="cross" /></button>
    </p>
  );
}

/** A button that copies a text of the person. */
export function CopyText({ text }: { text: string }): JSX.Element {
  const [done, set] = useState(false);
  return <button type="button" class="quiet small" onClick={async () => set(await copyText(text))}>{done ? "Copied" : "Copy your text"}</button>;
}

export function Fault({ text }: { text: string }): JSX.Element | null {
  return text === "" ? null : <p class="fault" role="alert">{text}</p>;
}
