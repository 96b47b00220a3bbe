import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { clock, who } from "../core/format.ts";
import { visible } from "../core/safe.ts";
import { num, str } from "../core/types.ts";
import type { Obj } from "../core/types.ts";
import { Fault } from "./bits.tsx";
import { useShell } from "./hooks.ts";

/** The rules by which requests are allowed without a question, with the means to remove them. */
export function Rules(): JSX.Element | null {
  const { api, me } = useShell();
  const [rules, know] = useState<Obj[]>([]);
  const [fault, fail] = useState("");
  const may = me?.may_approve === true && me.scope !== "observe";
  const load = (): Promise<void> => api.rules().then(know, () => undefined);
  useEffect(() => {
    if (may) void load();
  }, [may]);
  if (!may || rules.length === 0) return null;
  const remove = async (id: string): Promise<void> => {
    fail("");
    try {
      await api.removeRule(id);
    } catch (error) {
      fail(error instanceof Error ? error.message : "not removed");
    }
    await load();
  };
  return (
    <section class="card rules" aria-label="Lasting rules">
      <header><h2>Lasting rules</h2></header>
      <p class="dim">Requests that fit are allowed in every session, without a question. A deny rule of the agent wins.</p>
      <Fault text={fault} />
      <ul>
        {rules.map((rule) => (
          <li key={str(rule.id)}>
            <code>{visible(str(rule.pattern))}</code>
            <span class="dim">{visible(str(rule.agent))}, by {visible(who(str(rule.by), me?.name ?? ""))}, {clock(new Date((num(rule.created) ?? 0) * 1000).toISOString())}</span>
            <button type="button" class="small" aria-label={`Remove the rule ${visible(str(rule.pattern))}`} onClick={() => void remove(str(rule.id))}>Remove</button>
          </li>
        ))}
      </ul>
    </section>
  );
}
