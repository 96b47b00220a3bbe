/** Usage by day and agent. */

import { num, str } from "./types.ts";
import type { Obj } from "./types.ts";

export interface Day {
  date: string;
  agent: string;
  tokensIn: number;
  tokensOut: number;
  cost: number;
  turns: number;
}

/** Rows of the same day and agent become one, so that bars can be stacked. */
export function perDay(rows: Obj[]): Day[] {
  const found = new Map<string, Day>();
  for (const row of rows.slice(0, 20_000)) {
    const [date, agent] = [str(row.date), str(row.agent) || "unknown"];
    if (date === "") continue;
    const key = `${date} ${agent}`;
    const day = found.get(key) ?? { date, agent, tokensIn: 0, tokensOut: 0, cost: 0, turns: 0 };
    day.tokensIn += num(row.tokens_in) ?? 0;
    day.tokensOut += num(row.tokens_out) ?? 0;
    day.cost += num(row.cost_usd) ?? 0;
    day.turns += num(row.turns) ?? 0;
    found.set(key, day);
  }
  return [...found.values()];
}

/** The sums of each agent, the largest first. */
export function perAgent(days: Day[], value: (day: Day) => number): Day[] {
  const found = new Map<string, Day>();
  for (const day of days) {
    const sum = found.get(day.agent) ?? { ...day, tokensIn: 0, tokensOut: 0, cost: 0, turns: 0 };
    sum.tokensIn += day.tokensIn;
    sum.tokensOut += day.tokensOut;
    sum.cost += day.cost;
    sum.turns += day.turns;
    found.set(day.agent, sum);
  }
  return [...found.values()].sort((a, b) => value(b) - value(a) || (a.agent < b.agent ? -1 : 1));
}
