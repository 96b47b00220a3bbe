import type { ComponentChildren, JSX } from "preact";
import { Component } from "preact";
import { toolHint } from "../core/find.ts";
import { clock, count, duration, money, who } from "../core/format.ts";
import { markdown } from "../core/markdown.ts";
import type { EndRow, InputRow, NoteRow, PlanRow, Row, TextRow, ToolRow } from "../core/rows.ts";
import { visible } from "../core/safe.ts";
import { categoryText } from "../core/words.ts";
import { num } from "../core/types.ts";
import { Copy, State } from "./bits.tsx";
import { Changes } from "./changes.tsx";
import { File } from "./files.tsx";
import { Folded } from "./fold.tsx";
import { useSession, useShell } from "./hooks.ts";
import { Request } from "./requests.tsx";
import { RowMenu } from "./rowmenu.tsx";
import { Ansi, Output, Value, blocksOf } from "./text.tsx";

/** Draws a row again only when it has changed. */
export class RowView extends Component<{ row: Row; version: number; turned: number }> {
  override shouldComponentUpdate(next: { row: Row; version: number; turned: number }): boolean {
    return next.row !== this.props.row || next.version !== this.props.version || next.turned !== this.props.turned;
  }

  override componentDidCatch(): void {
    this.setState({ broken: true });
  }

  override render(): JSX.Element {
    const { row } = this.props;
    if ((this.state as { broken?: boolean }).broken) return <p class="fault">This entry cannot be drawn; the wire view has it.</p>;
    return <div class={`row ${row.kind} ${row.history ? "history" : ""} depth-${row.depth}`} data-key={row.key}>{content(row)}<RowMenu row={row} /></div>;
  }
}

function content(row: Row): ComponentChildren {
  switch (row.kind) {
    case "input":
      return <Input row={row} />;
    case "text":
      return <Text row={row} />;
    case "thought":
      return (
        <Folded id={`${row.key}`} class="thought" summary={<span class="dim">Thought{teaser(row.text)}</span>}>
          {() => <Output text={row.text} label="Thought" />}
        </Folded>
      );
    case "tool":
      return <Tool row={row} />;
    case "plan":
      return <Plan row={row} />;
    case "permission":
    case "question":
      return <Request row={row} />;
    case "file":
      return <File row={row} />;
    case "end":
      return <End row={row} />;
    case "note":
      return <Note row={row} />;
  }
}

const teaser = (text: string): JSX.Element => <q class="teaser">{visible(text.slice(0, 200).replace(/\s+/g, " "))}</q>;

function Input({ row }: { row: InputRow }): JSX.Element {
  const { me } = useShell();
  return (
    <div class="bubble">
      <p class="meta">
        <span title={visible(row.by)}>{visible(who(row.by, me?.name ?? ""))}</span>
        <time>{clock(row.time)}</time>
        {row.steer && <span class="badge">steer</span>}
        {row.steer && row.delivered === false && <span class="badge warn">not delivered{row.reason && `: ${visible(row.reason)}`}</span>}
        {row.state === "queued" && <State state="queued" />}
        {row.history && <span class="badge">replayed</span>}
      </p>
      <Output text={row.text} label="Input" />
    </div>
  );
}

function Text({ row }: { row: TextRow }): JSX.Element {
  return (
    <div class="prose">
      {row.role !== "" && row.role !== "assistant" && !row.continues && <p class="meta">{visible(row.role)}</p>}
      {blocksOf(markdown(row.text, row.fence, row.before))}
    </div>
  );
}

function Tool({ row }: { row: ToolRow }): JSX.Element {
  const summary = (
    <>
      <span class={`mark ${row.state}`}>{row.state === "running" ? "runs" : row.state === "failed" ? "failed" : "done"}</span>
      <strong>{visible(row.tool)}</strong>
      <span class="hint">{visible(toolHint(row).slice(0, 300))}</span>
      {row.durationMs !== undefined && <span class="dim">{duration(row.durationMs)}</span>}
    </>
  );
  return (
    <>
      <Folded id={`${row.key}`} class="call" summary={summary}>
        {() => (
          <>
            {row.input !== undefined && <Part title="Input"><Value value={row.input} label="Input" /></Part>}
            {row.locations !== undefined && <Part title="Files"><Value value={row.locations} label="Files" /></Part>}
            {row.printed !== "" && (
              <Part title={row.dropped > 0 ? `Printed (${count(row.dropped)} characters before are in the wire view)` : "Printed"}>
                <Output text={row.printed} end label="Printed" />
              </Part>
            )}
            {row.result !== "" && <Part title="Result"><Output text={row.result} label="Result" /></Part>}
            {row.data !== undefined && <Part title="Data"><Value value={row.data} label="Data" /></Part>}
            {row.truncated && <p class="warning">Something was cut or left out.</p>}
          </>
        )}
      </Folded>
      {row.diffs.map((diff, at) => <Changes diff={diff} id={`${row.key} diff ${at}`} open={at < 4} />)}
    </>
  );
}

function Part({ title, children }: { title: string; children: ComponentChildren }): JSX.Element {
  return (
    <div class="part">
      <p class="label">{title}</p>
      {children}
    </div>
  );
}

const DONE: { [status: string]: string } = { completed: "done", in_progress: "in work", pending: "to do" };

function Plan({ row }: { row: PlanRow }): JSX.Element {
  const done = row.entries.filter((entry) => entry.status === "completed").length;
  return (
    <Folded id={`${row.key}`} open class="plan" summary={<><strong>Plan</strong><span class="dim">{done} of {row.entries.length} done</span></>}>
      {() => (
        <ol>
          {row.entries.slice(0, 200).map((entry) => (
            <li class={Object.hasOwn(DONE, entry.status) ? entry.status : ""}>
              <i aria-hidden="true" />
              <span>{visible(entry.content)}</span>
              <span class="hidden">{Object.hasOwn(DONE, entry.status) ? DONE[entry.status] : visible(entry.status)}</span>
            </li>
          ))}
        </ol>
      )}
    </Folded>
  );
}

/** What the agent itself answered in a turn, as it wrote it. */
function answer(rows: Row[], turn: string): string {
  return rows.map((row) => (row.kind === "text" && row.turn === turn && row.depth === 0 ? `${row.continues ? "" : "\n\n"}${row.text}` : "")).join("").trim();
}

/** How a turn ends; a status that is not known has no colour, and a class is never an agent's word. */
const ENDS = { completed: 1, stopped: 1, failed: 1, refused: 1, limit: 1 };

function End({ row }: { row: EndRow }): JSX.Element {
  const store = useSession();
  const { usage } = row;
  const tokens = [num(usage.input_tokens), num(usage.output_tokens)];
  const cost = num(usage.cost_usd);
  // An agent that counts nothing may report zeros.
  const isKnown = [...tokens, cost].some((figure) => (figure ?? 0) > 0);
  const facts = [
    row.durationMs !== undefined ? duration(row.durationMs) : "",
    row.firstMs !== undefined ? `first words after ${duration(row.firstMs)}` : "",
    isKnown ? "" : "tokens –",
    isKnown && tokens[0] !== undefined ? `${count(tokens[0])} in` : "",
    isKnown && tokens[1] !== undefined ? `${count(tokens[1])} out` : "",
    isKnown && cost !== undefined ? `${usage.estimated === true ? "about " : ""}${money(cost)}` : "",
    visible(row.model),
  ].filter((fact) => fact !== "");
  return (
    <div class={`ended ${Object.hasOwn(ENDS, row.status) ? row.status : ""}`}>
      <p class="line">
        <span class="what">{visible(row.status)}{row.provisional ? " (not stored yet)" : ""}</span>
        {row.reason !== "" && row.reason !== row.status && row.reason !== "end_turn" && <span class="dim">{visible(categoryText(row.reason))}</span>}
        <span class="dim facts">{facts.join(" · ")}</span>
        <time class="dim">{clock(row.time)}</time>
        {row.turn !== "" && <Copy label="Copy the answer" text={() => answer(store.rows, row.turn)} />}
        {row.status !== "completed" && !store.fold.closed && <Again turn={row.turn} />}
      </p>
      {row.message !== "" && (
        <div class="fault">{row.category !== "" && <strong>{visible(categoryText(row.category))} </strong>}<Output text={row.message} label="Error" /></div>
      )}
      {row.summary !== "" && <p>{visible(row.summary)}</p>}
      {row.data !== undefined && (
        <Folded id={`${row.key}`} summary={<span class="dim">Details</span>}>{() => <Value value={row.data} label="Details" />}</Folded>
      )}
    </div>
  );
}

/** Puts the turn's input back, to be sent again as it is or mended. */
function Again({ turn }: { turn: string }): JSX.Element | null {
  const store = useSession();
  const { me } = useShell();
  if (me?.scope === "observe") return null;
  const input = (): string => {
    for (const row of store.rows) if (row.kind === "input" && row.turn === turn && !row.steer) return row.text;
    return "";
  };
  return <button type="button" class="quiet small shown" onClick={() => dispatchEvent(new CustomEvent("console:draft", { detail: input() }))}>Put back in the input</button>;
}

function Note({ row }: { row: NoteRow }): JSX.Element {
  const { me } = useShell();
  if (row.tone === "mark") {
    const by = row.by === undefined ? "" : ` by ${visible(who(row.by, me?.name ?? ""))}`;
    return <p class="mark-line"><span title={visible(row.by ?? "")}>{visible(row.text)}{by}</span> <time class="dim">{clock(row.time)}</time></p>;
  }
  const long = row.text.length > 400 || row.text.split("\n", 8).length > 6;
  if (row.data !== undefined || long || row.label.startsWith("log")) {
    return (
      <Folded id={`${row.key}`} class={`note ${row.tone}`} summary={<><span class="badge">{visible(row.label)}</span>{teaser(row.text)}</>}>
        {() => (
          <>
            {row.text !== "" && <Output text={row.text} end label={visible(row.label)} />}
            {row.data !== undefined && <Value value={row.data} label={visible(row.label)} />}
          </>
        )}
      </Folded>
    );
  }
  return (
    <p class={`note ${row.tone}`}>
      <span class="badge">{visible(row.label)}</span> <Ansi text={row.text.trimEnd()} />
    </p>
  );
}
