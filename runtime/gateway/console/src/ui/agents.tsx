import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { bytes, count, duration, sessionTitle } from "../core/format.ts";
import { agentHealth } from "../core/health.ts";
import { failureText } from "../core/overview.ts";
import type { KnownSession, SessionOverview } from "../core/overview.ts";
import { doctorCommand, visible } from "../core/safe.ts";
import { Samples, points } from "../core/samples.ts";
import { titlePage } from "../core/title.ts";
import { list, num, obj, str } from "../core/types.ts";
import type { Obj } from "../core/types.ts";
import { Copy, Dialog, Fault, State } from "./bits.tsx";
import type { Api } from "../core/api.ts";
import { useAdminAction } from "./browsers.tsx";
import { listHref, sessionHref, usePoll, useShell } from "./hooks.ts";
import { useLive } from "./live.ts";
import { Rules } from "./rules.tsx";
import { filterOf, usePages } from "./sessions.tsx";
import { Output } from "./text.tsx";

/** Kept while the page is open, whichever view is shown. */
export const samples = new Samples();

interface MeasuredAgents {
  agents: Obj[];
  first: string;
  /** The folders in which an agent's sessions may be. */
  folders: Obj;
  fault: string;
  /** Whether the daemon has answered. */
  isLoaded: boolean;
}

/** Measures while other views are shown, too, so that the plot has no hole. */
export function useAgents(api: Api, ms: number): MeasuredAgents {
  const [state, set] = useState<MeasuredAgents>({ agents: [], first: "", folders: {}, fault: "", isLoaded: false });
  usePoll(async () => {
    try {
      const found = await api.agents();
      samples.add(found.agents, Date.now());
      set({ ...found, fault: "", isLoaded: true });
    } catch (error) {
      set((before) => ({ ...before, fault: error instanceof Error ? error.message : "not loaded" }));
    }
  }, ms, [ms]);
  return state;
}

/** The session of each agent that was active last, by its id. */
function latestOf(overview: SessionOverview): Map<string, KnownSession> {
  const found = new Map<string, KnownSession>();
  for (const session of overview.all()) {
    if (session.active !== "" && session.state !== "running" && session.active > (found.get(session.agent)?.active ?? "")) found.set(session.agent, session);
  }
  return found;
}

/** `create` opens the dialog for a session of an agent, if the token may open one. */
export function Agents({ agents, first, fault, isLoaded, mayRestart, create }: MeasuredAgents & { mayRestart: boolean; create: ((agent: string) => void) | undefined }): JSX.Element {
  const [restarting, restart] = useState<Obj | undefined>(undefined);
  const { overview, outcomes } = useLive();
  // The snapshot of the stream has no times: the list has those of the sessions that were active last.
  const pages = usePages(filterOf("", ""));
  useEffect(() => {
    if (pages.next === undefined) void pages.more();
  }, [pages]);
  const latest = latestOf(overview);
  useEffect(() => {
    for (const session of [...latest.values()].slice(0, 50)) outcomes?.want(session);
  });
  useEffect(() => {
    titlePage("Agents");
  }, []);
  return (
    <main class="page agents" aria-label="Agents" tabIndex={-1}>
      <h1>Agents</h1>
      <Fault text={fault} />
      <div class="cards">
        {agents.map((agent) => <Agent key={str(agent.id)} agent={agent} isFirst={str(agent.id) === first} latest={latest.get(str(agent.id))} restart={mayRestart ? () => restart(agent) : undefined} create={create} />)}
      </div>
      <Rules />
      {!isLoaded && fault === "" && <div class="cards" aria-hidden="true"><i class="card bone" /><i class="card bone" /></div>}
      {isLoaded && agents.length === 0 && (
        <div class="empty">
          <p>This daemon has no agent yet.</p>
          <p>Add one, such as <code>trunkline config add codex</code>, then run <code>trunkline daemon reload</code>. <code>trunkline agents profiles</code> lists the names.</p>
        </div>
      )}
      {restarting && <RestartDialog agent={agents.find((each) => each.id === restarting.id) ?? restarting} close={() => restart(undefined)} />}
    </main>
  );
}

/** Number of turns that the confirmation names. */
const MAX_NAMED = 20;

/** Asks before an agent is restarted. */
function RestartDialog({ agent, close }: { agent: Obj; close: () => void }): JSX.Element {
  const { api } = useShell();
  const { overview } = useLive();
  const id = str(agent.id);
  const { fault, busy, run, elevation } = useAdminAction(api, () => api.restart(id), close);
  return (
    <Dialog title={`Restart ${visible(str(agent.name) || id)}`} close={close}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void run();
        }}
      >
        <p>Its process ends by force. The next input of a session starts a new one.</p>
        <EndingTurns sessions={overview.running(id)} turns={num(obj(agent.health).turns) ?? 0} />
        {elevation}
        <Fault text={visible(fault)} />
        <button type="submit" class="danger" disabled={busy}>Restart</button>
      </form>
    </Dialog>
  );
}

/** The turns that a restart ends: those of sessions that this page sees by their titles, and the number of the others. */
export function EndingTurns({ sessions, turns }: { sessions: KnownSession[]; turns: number }): JSX.Element {
  const named = sessions.slice(0, MAX_NAMED);
  const others = Math.max(turns, sessions.length) - named.length;
  if (named.length + others === 0) return <p>No turn runs.</p>;
  return (
    <fieldset>
      <legend>Turns that run, and end as failed</legend>
      <ul>
        {named.map((each) => <li key={each.id}>{visible(sessionTitle(each.title, each.id))}</li>)}
        {others > 0 && <li>{named.length > 0 ? `${count(others)} more` : count(others)}</li>}
      </ul>
    </fieldset>
  );
}

interface AgentProps {
  agent: Obj;
  isFirst: boolean;
  latest: KnownSession | undefined;
  restart: (() => void) | undefined;
  create: ((agent: string) => void) | undefined;
}

function Agent({ agent, isFirst, latest, restart, create }: AgentProps): JSX.Element {
  const health = obj(agent.health);
  const counters = Object.entries(obj(health.counters)).filter(([name, value]) => name !== "restarts" && (num(value) ?? 0) > 0);
  // The daemon judges by several turns; a person sees the last one.
  const { state, severity, verdict, failure, stderr, restartMs } = agentHealth(agent, failureText(latest?.outcome));
  const id = str(agent.id);
  const name = visible(str(agent.name) || id);
  const facts: [string, string][] = [];
  const add = (name: string, value: string): void => {
    if (value !== "") facts.push([name, value]);
  };
  const of = (name: string, show: (value: number) => string): string => {
    const value = num(health[name]);
    return value === undefined ? "" : show(value);
  };
  add("process", of("pid", String));
  add("runs", of("age_ms", duration));
  add("silent", of("silent_ms", duration));
  add("restart in", restartMs === undefined ? "" : duration(restartMs));
  add("last end", visible(str(health.last_end)));
  const restarts = num(obj(health.counters).restarts);
  add("restarts", restarts === undefined ? "" : count(restarts));
  add("sessions", of("sessions", count));
  add("turns", of("turns", count));
  add("waiting requests", of("requests", count));
  add("queued", of("queued_bytes", bytes));
  return (
    <section class={`card is-${severity}`} aria-label={name}>
      <header>
        <h2>{name}</h2>
        {isFirst && <span class="badge">default</span>}
        <State state={state} />
        {severity !== "ok" && str(health.liveness) !== "" && <span class="dim">{health.liveness === "down" ? "no process" : visible(str(health.liveness))}</span>}
      </header>
      <p class="dim">
        {[id, str(agent.profile), list(agent.models).length > 0 ? `${list(agent.models).length} models` : ""].filter(Boolean).map(visible).join(" · ")}
      </p>
      {str(agent.description) !== "" && <p>{visible(str(agent.description))}</p>}
      {failure !== "" && latest && <p class={`verdict ${severity === "error" ? "error" : "warning"}`}>{visible(failure)}. <a href={sessionHref(latest.id)}>Open the session</a></p>}
      {verdict !== "" && <p class={`verdict ${severity}`}>{visible(verdict)}</p>}
      <dl class="grid">{facts.map(([name, value]) => <div><dt>{name}</dt><dd>{value}</dd></div>)}</dl>
      {counters.length > 0 && (
        <details open={severity === "warning" || severity === "error"}>
          <summary>counted since the start</summary>
          <dl class="grid">{counters.map(([name, value]) => <div><dt>{visible(name.replace(/_/g, " "))}</dt><dd>{(name.startsWith("bytes") ? bytes : count)(num(value) ?? 0)}</dd></div>)}</dl>
        </details>
      )}
      <div class="plots">
        <Plot label="turns a second" samples={samples.of(id)} value={(sample) => sample.turnRate} show={rate} />
        <Plot label="turns that run" samples={samples.of(id)} value={(sample) => sample.turns} show={count} />
        <Plot label="first words after" samples={samples.latencies(id)} value={(turn) => turn.ms} show={duration} span={(turns) => (turns === 0 ? "" : `${turns} ${turns === 1 ? "turn" : "turns"} of sessions that you opened`)} />
        <Plot label="bytes a second" samples={samples.of(id)} value={(sample) => sample.bytesIn} show={bytes} />
      </div>
      {stderr !== "" && (
        <details open={state === "failed"}>
          <summary>stderr</summary>
          <Output text={stderr} end label="The end of its standard error" />
        </details>
      )}
      <details>
        <summary>Diagnosis and log</summary>
        <dl class="commands">
          <dt>Check its program, login and limits</dt>
          <dd><Command text={doctorCommand(id)} /></dd>
          <dt>Start the daemon so that it logs all stderr of its agents</dt>
          <dd><Command text="TRUNKLINE_LOG=trunkline::stderr=debug trunkline up --log-file trunkline.log" /></dd>
        </dl>
      </details>
      <footer>
        {create && <button type="button" onClick={() => create(id)}>Start a session<span class="hidden"> with {name}</span></button>}
        {!/\s/.test(id) && <a class="button" href={listHref(`agent:${id}`)}>Sessions<span class="hidden"> of {name}</span></a>}
        {restart && <button type="button" onClick={restart}>Restart<span class="hidden"> {name}</span></button>}
      </footer>
    </section>
  );
}

/** A command for a terminal. */
function Command({ text }: { text: string }): JSX.Element {
  return <><code>{text}</code> <Copy text={() => text} label="Copy the command" /></>;
}

const [WIDTH, HEIGHT] = [240, 44];

const rate = (value: number): string => (value < 10 ? String(Math.round(value * 10) / 10) : count(value));

function Plot<T extends { at: number }>(props: { label: string; samples: T[]; value: (sample: T) => number; show: (value: number) => string; span?: (count: number) => string }): JSX.Element {
  const { label, value, show } = props;
  const most = props.samples.reduce((high, sample) => Math.max(high, value(sample)), 0);
  const last = props.samples[props.samples.length - 1];
  // A line without a change says no more than the number.
  const isFlat = props.samples.every((sample) => value(sample) === most);
  const line = points(props.samples, value, WIDTH, HEIGHT, most || 1);
  const span = props.span?.(props.samples.length) ?? duration(last && props.samples[0] ? last.at - props.samples[0].at : 0);
  return (
    <figure class="plot">
      <figcaption>
        <span>{label}</span>
        <strong>{last ? show(value(last)) : "–"}</strong>
        <span class="dim">{span === "" ? "open a session to measure" : `most ${show(most)} in ${span}`}</span>
      </figcaption>
      {isFlat ? null : <svg viewBox={`0 -2 ${WIDTH} ${HEIGHT + 4}`} preserveAspectRatio="none" role="img" aria-label={`${label}: now ${last ? show(value(last)) : "unknown"}, at most ${show(most)} in ${span}`}>
        <path class="base" d={`M0 ${HEIGHT}H${WIDTH}`} />
        {line !== "" && <polygon points={`0,${HEIGHT} ${line} ${WIDTH},${HEIGHT}`} />}
        {line !== "" && <polyline points={line} />}
      </svg>}
    </figure>
  );
}
