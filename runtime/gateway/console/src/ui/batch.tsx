import type { JSX } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { answerBatch, batchOf, batchText } from "../core/batch.ts";
import type { RequestBatch } from "../core/batch.ts";
import type { RequestRow } from "../core/rows.ts";
import { visible } from "../core/safe.ts";
import { beyondHeadline } from "../core/words.ts";
import { Dialog } from "./bits.tsx";
import { useShell } from "./hooks.ts";
import { Headline } from "./requests.tsx";
import { READ_MS } from "./settle.ts";

/** Buttons that open the dialog for all permissions of a session, if several can be answered together. */
export function BatchButtons({ session, rows, open }: { session: string; rows: readonly RequestRow[]; open: (batch: RequestBatch) => void }): JSX.Element | null {
  const { me } = useShell();
  if (me?.may_approve !== true) return null;
  const [allow, deny] = [batchOf(session, rows, true), batchOf(session, rows, false)];
  if (!allow && !deny) return null;
  return (
    <p class="batch">
      {allow && <button type="button" class="allow" onClick={() => open(allow)}>Allow these {allow.rows.length}…</button>}
      {deny && <button type="button" class="deny" onClick={() => open(deny)}>Deny these {deny.rows.length}…</button>}
    </p>
  );
}

/** Shows what exactly is answered, and answers it. `report` gets the outcome as a text. */
export function BatchDialog({ batch, report, close }: { batch: RequestBatch; report: (text: string) => void; close: () => void }): JSX.Element {
  const { api } = useShell();
  const { approve, rows } = batch;
  const [done, progress] = useState<number>();
  const button = useRef<HTMLButtonElement>(null);
  const shown = useRef(Infinity);
  useLayoutEffect(() => {
    button.current?.focus();
    // Behind the frame that shows it: on a slow machine that one takes its time.
    const frame = requestAnimationFrame(() => setTimeout(() => {
      shown.current = performance.now();
    }));
    return () => cancelAnimationFrame(frame);
  }, []);
  const confirm = async (event: MouseEvent): Promise<void> => {
    // The press that opened the dialog, repeated, has read nothing.
    if (done !== undefined || event.timeStamp - shown.current < READ_MS) return;
    progress(0);
    const outcome = await answerBatch(api, batch, progress);
    report(batchText(batch, outcome));
    close();
  };
  const verb = approve ? "Allow" : "Deny";
  return (
    <Dialog title={`${verb} these ${rows.length} requests?`} close={close}>
      <div class="batch-list">
        <ol>
          {rows.map((row) => {
            const beyond = visible(beyondHeadline(row));
            return <li key={row.key}><Headline row={row} />{beyond !== "" && <pre class="resource" tabIndex={0} role="group" aria-label="What it acts on">{beyond}</pre>}</li>;
          })}
        </ol>
        <p class="dim">Each is {approve ? "allowed" : "denied"} for this time only. A request that comes later still waits.</p>
        <div class="actions">
          <button
            ref={button}
            type="button"
            class={approve ? "allow" : "deny"}
            disabled={done !== undefined}
            onKeyDown={(event) => event.repeat && event.preventDefault()}
            onClick={(event) => void confirm(event)}
          >
            {verb} {rows.length === 2 ? "both" : `all ${rows.length}`}
          </button>
          <button type="button" disabled={done !== undefined} onClick={close}>Cancel</button>
          {done !== undefined && <span class="dim" role="status">{done} of {rows.length}</span>}
        </div>
      </div>
    </Dialog>
  );
}
