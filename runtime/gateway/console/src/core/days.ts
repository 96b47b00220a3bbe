/** Usage by day and agent. A figure that no turn reported is unknown, and not 0. */

import { num, str } from "./types.ts";
import type { Obj } from "./types.ts";

export interface Figures {
  tokensIn: number | undefined;
  tokensOut: number | undefined;
  cost: number | undefined;
  /** Whether a part of the cost is estimated. */
  isEstimated: boolean;
  turns: number;
}

export interface Day extends Figures {
  date: string;
  agent: string;
}

const NONE: Figures = { tokensIn: undefined, tokensOut: undefined, cost: undefined, isEstimated: false, turns: 0 };

/** Adds figures; the sum of unknown ones is unknown. */
export function plus(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined ? b : b === undefined ? a : a + b;
}

function sum<F extends Figures>(a: F, b: Figures): F {
  return {
    ...a,
    tokensIn: plus(a.tokensIn, b.tokensIn),
    tokensOut: plus(a.tokensOut, b.tokensOut),
    cost: plus(a.cost, b.cost),
    isEstimated: a.isEstimated || b.isEstimated,
    turns: a.turns + b.turns,
  };
}

/** Rows of the same day and agent become one, so that bars can be stacked. */
export function perDay(rows: Obj[]): Day[] {
  const found = new Map<string, Day>();
  for (const row of rows.slice(0, 20_000)) {
    const [date, agent] = [str(row.date), str(row.agent) || "unknown"];
    if (!/^\d{4}-\d{2}-\d{2}$/.test(date)) continue;
    const key = `${date} ${agent}`;
    const day: Figures = {
      tokensIn: num(row.tokens_in), tokensOut: num(row.tokens_out), cost: num(row.cost_usd), isEstimated: row.is_estimated === true, turns: num(row.turns) ?? 0,
    };
    found.set(key, sum(found.get(key) ?? { date, agent, ...NONE }, day));
  }
  return [...found.values()];
}

/** The sums of each agent, the largest first. */
export function perAgent(days: Day[], value: (day: Day) => number | undefined): Day[] {
  const found = new Map<string, Day>();
  for (const day of days) found.set(day.agent, sum(found.get(day.agent) ?? { ...day, ...NONE }, day));
  return [...found.values()].sort((a, b) => (value(b) ?? 0) - (value(a) ?? 0) || (a.agent < b.agent ? -1 : 1));
}

/** The last `count` days up to today, and to the last day that has figures: a day without any has its place, too. */
export function axis(days: Day[], count: number, today: string): string[] {
  const last = days.reduce((late, day) => (day.date > late ? day.date : late), today);
  const end = Date.parse(`${last}T00:00:00Z`);
  if (Number.isNaN(end)) return [];
  return [...Array(count)].map((_, at) => new Date(end - (count - 1 - at) * 86_400_000).toISOString().slice(0, 10));
}
