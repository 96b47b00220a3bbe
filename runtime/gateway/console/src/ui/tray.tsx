import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { GivenFile } from "../core/api.ts";
import { clock, who } from "../core/format.ts";
import type { Sent } from "../core/outbox.ts";
import type { InputRow } from "../core/rows.ts";
import { visible } from "../core/safe.ts";
import type { SessionStore } from "../core/session.ts";
import { useSession, useShell } from "./hooks.ts";

/** What goes back into the input. */
export interface Draft {
  text: string;
  files: (GivenFile & { size: number })[];
}

/** Characters of an input that are shown before it is opened. */
const SHOWN = 160;

/** Inputs that were sent and do not run yet: those that are on the way, and those that wait for the running turn. */
export function Tray({ edit }: { edit: (draft: Draft) => void }): JSX.Element | null {
  const store = useSession();
  const { queue } = store.fold;
  const { lostInputs } = store;
  const { sent } = store.outbox;
  if (queue.length + lostInputs.length + sent.length === 0) return null;
  return (
    <ul class="tray" aria-label="Inputs that wait">
      {lostInputs.map((turn) => <Waits key={turn} turn={turn} edit={undefined} />)}
      {queue.map((row) => <Waits key={row.turn} turn={row.turn} row={row} edit={edit} />)}
      {sent.map((each) => <OnTheWay key={each.id} sent={each} edit={edit} />)}
    </ul>
  );
}

/** The files of a queued input; a name is known to the page that sent it, or once the agent was given the file. */
function filesOf(store: SessionStore, row: InputRow): Draft["files"] {
  const given = store.fold.filesFor(row.turn);
  return row.files.map((sha256) => {
    const file = given.find((each) => each.sha256 === sha256);
    const own = store.outbox.names.get(sha256);
    const mime = file?.mime ?? own?.mime_type ?? "";
    return { sha256, name: file?.name ?? own?.name ?? "file", size: file?.size ?? 0, ...(mime !== "" ? { mime_type: mime } : {}) };
  });
}

function Waits(props: { turn: string; row?: InputRow; edit: ((draft: Draft) => void) | undefined }): JSX.Element {
  const { turn, row, edit } = props;
  const store = useSession();
  const { me } = useShell();
  const [busy, work] = useState(false);
  const [open, show] = useState(false);
  const files = row ? filesOf(store, row) : [];
  const text = row?.text ?? "";
  const withdraw = async (back: boolean): Promise<void> => {
    if (busy) return;
    work(true);
    try {
      const done = await store.withdraw(turn);
      if (done && back) edit?.({ text, files });
    } catch (error) {
      store.say(`It was not withdrawn: ${error instanceof Error ? error.message : "not sent"}`);
    }
    work(false);
  };
  return (
    <li>
      <span class="badge">queued</span>
      {row ? <Gist text={text} open={open} toggle={() => show(!open)} /> : <span class="what dim">an input before the entries that are loaded</span>}
      {files.length > 0 && <span class="dim path">{files.map((file) => visible(file.name)).join(", ")}</span>}
      {row && <span class="dim" title={visible(row.by)}>{visible(who(row.by, me?.name ?? ""))} {clock(row.time)}</span>}
      {row && <button type="button" class="quiet small" aria-disabled={busy} onClick={() => void withdraw(true)}>Edit</button>}
      <button type="button" class="quiet small" aria-disabled={busy} onClick={() => void withdraw(false)}>Withdraw</button>
    </li>
  );
}

function OnTheWay({ sent, edit }: { sent: Sent; edit: (draft: Draft) => void }): JSX.Element {
  const store = useSession();
  const [open, show] = useState(false);
  const failed = sent.state === "failed";
  const waits = sent.state === "sending" && store.outbox.stalled;
  const why = waits && sent.detail === "" ? "waits for the one before it" : sent.detail;
  return (
    <li class={`sent ${sent.state}`}>
      <span class="badge">{failed ? "not taken" : waits ? "waits" : "sending"}</span>
      <Gist text={sent.content} open={open} toggle={() => show(!open)} />
      {sent.files.length > 0 && <span class="dim path">{sent.files.map((file) => visible(file.name)).join(", ")}</span>}
      {why !== "" && <span class="dim because">{visible(why)}</span>}
      {failed && <button type="button" class="quiet small" onClick={() => store.outbox.retry(sent.id)}>Send again</button>}
      {waits && sent.detail !== "" && <button type="button" class="quiet small" onClick={() => store.outbox.again()}>Send now</button>}
      {(failed || waits) && (
        <button
          type="button"
          class="quiet small"
          onClick={() => {
            edit({ text: sent.content, files: sent.files.map((file) => ({ ...file, size: 0 })) });
            store.outbox.drop(sent.id);
          }}
        >
          Edit
        </button>
      )}
      {(failed || waits) && <button type="button" class="quiet small" onClick={() => store.outbox.drop(sent.id)}>Withdraw</button>}
    </li>
  );
}

function Gist({ text, open, toggle }: { text: string; open: boolean; toggle: () => void }): JSX.Element {
  const gist = text.slice(0, SHOWN).replace(/\s+/g, " ");
  if (gist.length === text.length) return <span class="what">{visible(text)}</span>;
  return (
    <button type="button" class="quiet what" aria-expanded={open} onClick={toggle}>{open ? visible(text.slice(0, 20_000)) : `${visible(gist)}…`}</button>
  );
}
