import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { count, money } from "../core/format.ts";
import { visible } from "../core/safe.ts";
import type { Day } from "../core/days.ts";
import { axis, perAgent, perDay, plus } from "../core/days.ts";
import { titlePage } from "../core/title.ts";
import { Fault } from "./bits.tsx";
import { usePoll, useShell } from "./hooks.ts";

const SPANS = [7, 30, 90];
type Measure = "cost" | "tokens" | "turns";

export function Usage(): JSX.Element {
  const { api } = useShell();
  const [span, choose] = useState(30);
  const [measure, by] = useState<Measure>("cost");
  const [rows, set] = useState<Day[]>([]);
  const [fault, fail] = useState("");
  const [loaded, load] = useState(false);
  usePoll(async () => {
    try {
      set(perDay(await api.usage(span)));
      fail("");
      load(true);
    } catch (error) {
      fail(error instanceof Error ? error.message : "not loaded");
    }
  }, fault === "" ? 30_000 : 3000, [span, fault === ""]);
  useEffect(() => {
    titlePage("Usage");
  }, []);
  const value = (day: Day): number | undefined => (measure === "cost" ? day.cost : measure === "turns" ? day.turns : plus(day.tokensIn, day.tokensOut));
  const show = known(measure === "cost" ? money : count);
  const agents = perAgent(rows, value);
  const dates = rows.length === 0 ? [] : axis(rows, span, new Date().toISOString().slice(0, 10));
  return (
    <main class="page usage" aria-label="Usage" tabIndex={-1}>
      <header>
        <h1>Usage</h1>
        <div class="choices" role="group" aria-label="Days">
          {SPANS.map((days) => <button type="button" aria-pressed={days === span} onClick={() => choose(days)}>{days} days</button>)}
        </div>
        <div class="choices" role="group" aria-label="Measure">
          {(["cost", "tokens", "turns"] as Measure[]).map((each) => <button type="button" aria-pressed={each === measure} onClick={() => by(each)}>{each}</button>)}
        </div>
      </header>
      <Fault text={fault} />
      {dates.length > 0 && <Bars rows={rows} dates={dates} agents={agents.map((agent) => agent.agent)} value={value} show={show} />}
      {dates.length > 0 && (
        <div class="scroll" tabIndex={0} role="group" aria-label="Usage by agent">
          <table>
            <thead><tr><th>Agent</th><th class="right">Turns</th><th class="right">Tokens in</th><th class="right">Tokens out</th><th class="right">Cost</th></tr></thead>
            <tbody>
              {agents.map((agent, at) => (
                <tr>
                  <td><i class={`key series-${at % 6}`} aria-hidden="true" /> {visible(agent.agent)}</td>
                  <td class="right">{count(agent.turns)}</td>
                  <td class="right">{known(count)(agent.tokensIn)}</td>
                  <td class="right">{known(count)(agent.tokensOut)}</td>
                  <td class="right">{agent.isEstimated && <span class="dim" title="A part is estimated from tokens and list prices.">about </span>}{known(money)(agent.cost)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {dates.length === 0 && loaded && fault === "" && <p class="empty">No turn has ended in these days.</p>}
      {dates.length === 0 && !loaded && fault === "" && <div class="card bone" aria-hidden="true" />}
    </main>
  );
}

/** Shows a figure, or a dash if it is unknown. */
const known = (show: (value: number) => string) => (value: number | undefined): string => (value === undefined ? "–" : show(value));

const [WIDTH, HEIGHT] = [720, 160];

interface BarsProps {
  rows: Day[];
  dates: string[];
  agents: string[];
  value: (day: Day) => number | undefined;
  show: (value: number | undefined) => string;
}

function Bars({ rows, dates, agents, value, show }: BarsProps): JSX.Element {
  const days = new Map(rows.map((row) => [`${row.date} ${row.agent}`, value(row)]));
  const sums = dates.map((date) => agents.reduce<number | undefined>((sum, agent) => plus(sum, days.get(`${date} ${agent}`)), undefined));
  const most = Math.max(...sums.map((sum) => sum ?? 0), 0);
  const total = sums.reduce(plus, undefined);
  const step = WIDTH / dates.length;
  const label = total === undefined ? "No turn reported it." : `${show(total)} in ${dates.length} days, at most ${show(most)} a day`;
  return (
    <figure class="bars">
      <figcaption><strong>{show(total)}</strong> <span class="dim">{total === undefined ? "No turn of these days reported it." : `in all, at most ${show(most)} a day`}</span></figcaption>
      {most > 0 && (
        <>
          <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={label}>
            <path class="base" d={`M0 ${HEIGHT}H${WIDTH}`} />
            {dates.map((date, at) => {
              let y = HEIGHT;
              return (
                <g>
                  <title>{`${date}: ${show(sums[at])}`}</title>
                  {agents.map((agent, series) => {
                    const height = ((days.get(`${date} ${agent}`) ?? 0) / most) * (HEIGHT - 8);
                    y -= height;
                    return height > 0 ? <rect class={`series-${series % 6}`} x={at * step + step * 0.12} y={y} width={step * 0.76} height={height} /> : null;
                  })}
                </g>
              );
            })}
          </svg>
          <p class="dim dates"><span>{dates[0]}</span><span>{dates[dates.length - 1]}</span></p>
        </>
      )}
    </figure>
  );
}
