import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { diffView } from "../core/diff.ts";
import type { Diff } from "../core/rows.ts";
import { visible } from "../core/safe.ts";
import { Folded } from "./fold.tsx";

/** Lines that a change shows at first. */
const FIRST = 200;
const SIGN = { same: " ", add: "+", del: "-", hunk: "" };

/** The changes of a file; `id` names the fold. */
export function Changes({ diff, id, open }: { diff: Diff; id: string; open: boolean }): JSX.Element {
  const view = useMemo(() => diffView(diff), [diff]);
  const [shown, show] = useState(FIRST);
  const fresh = diff.oldText === undefined && diff.newText !== undefined && diff.patch === undefined;
  const path = visible(diff.path);
  const summary = (
    <>
      <span class="path">{path}</span>
      {fresh && <span class="badge">new</span>}
      <span class="added">+{view.added}</span>
      <span class="removed">−{view.removed}</span>
    </>
  );
  return (
    <Folded id={id} open={open} class="diff" summary={summary}>
      {() => (
        <>
          <div class="scroll" tabIndex={0} role="group" aria-label={`Changes of ${path}`}>
            <table>
              <tbody>
                {view.lines.slice(0, shown).map((line) => (
                  <tr class={line.kind}>
                    <td class="no">{line.before || ""}</td>
                    <td class="no">{line.after || ""}</td>
                    <td class="sign">{SIGN[line.kind]}</td>
                    <td class="line">{line.text.slice(0, 4000)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
          {view.lines.length > shown && (
            <button type="button" class="quiet more" onClick={() => show(shown * 4)}>
              {view.lines.length - shown} more lines
            </button>
          )}
        </>
      )}
    </Folded>
  );
}
