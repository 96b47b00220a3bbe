import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { diffSyntax, diffView } from "../core/diff.ts";
import type { DiffLine } from "../core/diff.ts";
import type { Diff } from "../core/rows.ts";
import { visible } from "../core/safe.ts";
import { Folded } from "./fold.tsx";
import { LineTokens } from "./text.tsx";

/** Lines that a change shows at first. */
const FIRST = 200;
const SIGN = { same: " ", add: "+", del: "-", hunk: "" };

/** The longest line that is drawn. */
const MAX_LINE = 4000;

function Lines({ diff, lines, shown }: { diff: Diff; lines: DiffLine[]; shown: number }): JSX.Element {
  const drawn = useMemo(() => lines.slice(0, shown), [lines, shown]);
  const syntax = useMemo(() => diffSyntax(diff, drawn), [diff, drawn]);
  return (
    <tbody>
      {drawn.map((line, at) => {
        const coloured = syntax[at];
        return (
          <tr class={line.kind}>
            <td class="no">{line.before || ""}</td>
            <td class="no">{line.after || ""}</td>
            <td class="sign">{SIGN[line.kind]}</td>
            <td class="line">{coloured && coloured.text.length <= MAX_LINE ? <LineTokens line={coloured} /> : line.text.slice(0, MAX_LINE)}</td>
          </tr>
        );
      })}
    </tbody>
  );
}

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
              <Lines diff={diff} lines={view.lines} shown={shown} />
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
