import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { complete, seenPaths } from "../core/complete.ts";
import type { Completions } from "../core/complete.ts";
import { visible } from "../core/safe.ts";
import type { SessionStore } from "../core/session.ts";
import { Choices, CompletionList } from "./beside.tsx";
import { inputAction, keyOf, useEnterSends } from "./bindings.ts";
import { CopyText, Fault, Icon } from "./bits.tsx";
import { ATTACH } from "./drop.tsx";
import { Attachments, keepSent, tooLarge } from "./files.tsx";
import type { Attachment } from "./files.tsx";
import { useSession, useShell } from "./hooks.ts";
import { Tray } from "./tray.tsx";
import type { Draft } from "./tray.tsx";

const MOST_FILES = 16;
const NOT_SENT = "A file cannot be sent. Remove it to send the message without it.";

/** In place of the composer of a session that takes no input: the texts that were not sent can still be copied. */
function ComposerEnd({ store, text }: { store: SessionStore; text: string }): JSX.Element {
  const unsent = [...store.outbox.sent.filter((each) => each.state !== "sent").map((each) => each.content), text].filter((each) => each.trim() !== "");
  const why = !store.removed ? "This session is closed. It can be read."
    : store.fold.last > 0 ? "This session was removed. What this page has of it can be read until you leave."
      : "There is no session with this id. It was removed, or your token does not see it.";
  return (
    <div class="composer closed">
      <p role="status">{why}</p>
      {unsent.length > 0 && (
        <>
          <p>Not sent: <CopyText text={unsent.join("\n\n")} /></p>
          <pre class="resource unsent" tabIndex={0} role="group" aria-label="Your text that was not sent">{visible(unsent.join("\n\n"))}</pre>
        </>
      )}
    </div>
  );
}

export function Composer(): JSX.Element {
  const store = useSession();
  const { me } = useShell();
  const draft = `trunkline.draft.${store.id}`;
  const [text, set] = useState(() => sessionStorage.getItem(draft) ?? "");
  const [files, setFiles] = useState<Attachment[]>([]);
  const [steer, setSteer] = useState(false);
  const [fault, fail] = useState("");
  const [found, find] = useState<Completions | undefined>(undefined);
  const [chosen, choose] = useState(0);
  const area = useRef<HTMLTextAreaElement>(null);
  const picker = useRef<HTMLInputElement>(null);
  const next = useRef(0);
  const { running, settings } = store.fold;
  const canSteer = running !== "" && (settings.inputModes.length === 0 || settings.inputModes.includes("steer"));
  const steers = canSteer && steer;
  const isOver = store.removed || store.state === "closed";
  const may = me?.scope !== "observe";
  useEnterSends();

  useEffect(() => {
    const box = area.current;
    if (!box) return;
    box.style.height = "auto";
    box.style.height = `${Math.min(box.scrollHeight, innerHeight * 0.4)}px`;
  }, [text]);

  const write = (value: string): void => {
    set(value);
    try {
      if (value === "") sessionStorage.removeItem(draft);
      else sessionStorage.setItem(draft, value.slice(0, 500_000));
    } catch {
      // A draft that does not fit is kept in the page.
    }
  };

  const put = (draft: Draft): void => {
    write(text.trim() === "" ? draft.text : draft.text.trim() === "" ? text : `${text}\n${draft.text}`);
    const again = draft.files.map((file) => ({ key: ++next.current, file: new Blob(), name: file.name, mime: file.mime_type ?? "", size: file.size, sha256: file.sha256, state: "ready" as const, detail: "" }));
    setFiles((all) => [...all, ...again].slice(0, MOST_FILES));
    area.current?.focus();
  };
  const latest = useRef(put);
  latest.current = put;
  useEffect(() => {
    const take = (event: Event): void => {
      const { detail } = event as CustomEvent<Draft | string>;
      latest.current(typeof detail === "string" ? { text: detail, files: [] } : detail);
    };
    addEventListener("console:draft", take);
    return () => removeEventListener("console:draft", take);
  }, []);

  const attach = (found: FileList | File[] | null | undefined): void => {
    fail("");
    for (const file of Array.from(found ?? []).slice(0, MOST_FILES - files.length)) {
      const key = ++next.current;
      const change = (part: Partial<Attachment>): void =>
        setFiles((all) => all.map((each) => (each.key === key ? { ...each, ...part } : each)));
      const name = file.name || "pasted";
      setFiles((all) => [...all, { key, file, name, mime: file.type, size: file.size, sha256: "", state: "loading", detail: "" }]);
      const upload = async (): Promise<void> => {
        try {
          const detail = await tooLarge(store.api, store.agent, file.size);
          if (detail !== "") return change({ state: "failed", detail });
          const { sha256 } = await store.api.upload(store.id, name, file);
          await keepSent(sha256, file);
          change({ sha256, state: sha256 === "" ? "failed" : "ready" });
        } catch (error) {
          change({ state: "failed", detail: error instanceof Error ? error.message : "not sent" });
        }
      };
      void upload();
    }
  };

  const attachLatest = useRef(attach);
  attachLatest.current = attach;
  useEffect(() => {
    const take = (event: Event): void => {
      attachLatest.current((event as CustomEvent<FileList>).detail);
      area.current?.focus();
    };
    addEventListener(ATTACH, take);
    return () => removeEventListener(ATTACH, take);
  }, []);

  const look = (value: string, cursor: number): void => {
    find(complete(value, cursor, settings.commands, () => seenPaths(store.rows)));
    choose(0);
  };
  const pick = (at: number): void => {
    const option = found?.options[at];
    if (!found || !option) return;
    const cursor = found.from + option.insert.length;
    write(text.slice(0, found.from) + option.insert + text.slice(found.to).replace(/^ /, ""));
    find(undefined);
    requestAnimationFrame(() => area.current?.setSelectionRange(cursor, cursor));
  };
  /** Keys of the list of completions, while it is open. */
  const listKey = (event: KeyboardEvent): boolean => {
    if (!found || event.isComposing || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return false;
    const { length } = found.options;
    if (event.key === "ArrowDown") choose((chosen + 1) % length);
    else if (event.key === "ArrowUp") choose((chosen + length - 1) % length);
    else if (event.key === "Enter" || event.key === "Tab") pick(chosen);
    else if (event.key === "Escape") find(undefined);
    else return false;
    event.preventDefault();
    event.stopPropagation();
    return true;
  };

  const send = (): void => {
    const ready = files.filter((file) => file.state === "ready");
    if (files.some((file) => file.state === "loading")) return fail("a file is still on its way");
    if (files.some((file) => file.state === "failed")) return fail(NOT_SENT);
    if (text.trim() === "" && ready.length === 0) return;
    if (store.outbox.full) return fail("too many inputs wait");
    store.end();
    store.outbox.add(text, ready.map(({ sha256, name, mime }) => ({ sha256, name, ...(mime !== "" ? { mime_type: mime } : {}) })), steers ? running : "");
    write("");
    setFiles([]);
    fail("");
    area.current?.focus();
  };

  const stop = async (): Promise<void> => {
    try {
      await store.api.stop(store.id, running);
    } catch (error) {
      fail(error instanceof Error ? error.message : "not sent");
    }
  };

  if (isOver) return <ComposerEnd store={store} text={text} />;
  if (!may) return <p class="composer closed">This token may only read.</p>;
  return (
    <form
      class="composer"
      aria-label="Input"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      <Tray edit={put} />
      <Attachments files={files} remove={(key) => {
        setFiles(files.filter((each) => each.key !== key));
        fail("");
      }} />
      <Fault text={fault} />
      {found && <CompletionList found={found} chosen={chosen} pick={pick} />}
      <div class="line">
        <input ref={picker} type="file" multiple hidden aria-label="Files" onChange={(event) => {
          attach(event.currentTarget.files);
          event.currentTarget.value = "";
        }} />
        <button type="button" class="quiet" aria-label="Attach files" title="Attach files" onClick={() => picker.current?.click()}><Icon name="clip" /></button>
        <textarea
          ref={area}
          id="input"
          rows={1}
          value={text}
          aria-label="Message"
          {...(found ? { "aria-haspopup": "listbox" as const, "aria-controls": "completions", "aria-activedescendant": `completion-${chosen}`, "aria-autocomplete": "list" as const } : {})}
          onBlur={() => find(undefined)}
          placeholder={`${steers ? "Add to the running turn" : running !== "" ? "Queue an input" : "Message"}${matchMedia("(hover: hover) and (min-width: 760px)").matches ? `  (${keyOf("send")} sends)` : ""}`}
          onInput={(event) => {
            write(event.currentTarget.value);
            look(event.currentTarget.value, event.currentTarget.selectionStart);
          }}
          onPaste={(event) => {
            const pasted = event.clipboardData?.files;
            // Text that a word processor copies comes with a picture of itself.
            if (!pasted || pasted.length === 0 || event.clipboardData?.types.includes("text/plain")) return;
            event.preventDefault();
            attach(pasted);
          }}
          onKeyDown={(event) => {
            if (listKey(event) || inputAction(event) !== "send") return;
            event.preventDefault();
            send();
          }}
        />
        {canSteer && (
          <button type="button" class={`quiet small ${steer ? "on" : ""}`} aria-pressed={steer} title={`Add to the running turn, or queue for the next (${keyOf("steer")})`} aria-keyshortcuts="t" onClick={() => setSteer(!steer)}>
            Steer
          </button>
        )}
        {running !== "" && <button type="button" class="stop" aria-label="Stop the turn" title={`Stop the turn (${keyOf("stop")})`} aria-keyshortcuts="s Control+." onClick={stop}><Icon name="stop" /></button>}
        <button type="submit" class="primary" aria-label={steers ? "Steer" : "Send"} title={`Send (${keyOf("send")})`} disabled={text.trim() === "" && files.length === 0}>
          <Icon name="send" />
        </button>
      </div>
      <Choices />
    </form>
  );
}
