import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { count, duration } from "../core/format.ts";
import { visible } from "../core/safe.ts";
import { titlePage } from "../core/title.ts";
import { list, num, obj, str } from "../core/types.ts";
import type { Obj } from "../core/types.ts";
import type { Api } from "../core/api.ts";
import { Fault, State } from "./bits.tsx";
import { usePoll } from "./hooks.ts";

interface Cluster {
  hosts: Obj[];
  fault: string;
}

/** The hosts, as the daemon of this page sees them; none where it is alone. */
export function useHosts(api: Api, ms: number): Cluster {
  const [state, set] = useState<Cluster>({ hosts: [], fault: "" });
  usePoll(async () => {
    try {
      set({ hosts: await api.hosts(), fault: "" });
    } catch (error) {
      set((before) => ({ ...before, fault: error instanceof Error ? error.message : "not loaded" }));
    }
  }, ms, [ms]);
  return state;
}

export function Hosts({ hosts, fault }: Cluster): JSX.Element {
  useEffect(() => {
    titlePage("Hosts");
  }, []);
  return (
    <main class="page hosts" aria-label="Hosts" tabIndex={0}>
      <h1>Hosts</h1>
      <Fault text={fault} />
      <div class="cards">{hosts.map((host) => <Host key={str(host.id)} host={host} />)}</div>
      {hosts.length === 0 && fault === "" && <p class="empty">This daemon is alone.</p>}
    </main>
  );
}

const SEVERITY: { [state: string]: string } = { draining: "is-warning", lost: "is-error" };

function Host({ host }: { host: Obj }): JSX.Element {
  const id = visible(str(host.id));
  const [sessions, heard] = [num(host.sessions), num(host.heard_ms)];
  const labels = Object.entries(obj(host.labels)).map(([key, value]) => `${key}=${str(value)}`);
  const words = (name: string): string => list(host[name]).map(str).join(", ");
  const facts: [string, string][] = [
    ["sessions", sessions === undefined ? "" : count(sessions)],
    ["agents", words("agents")],
    ["storage", words("storage")],
    ["labels", labels.join(", ")],
    ["heard of", heard === undefined || host.is_this === true ? "" : `${duration(heard)} ago`],
    ["version", str(host.version)],
  ];
  return (
    <section class={`card ${SEVERITY[str(host.state)] ?? ""}`} aria-label={id}>
      <header>
        <h2>{id}</h2>
        {host.is_this === true && <span class="badge">this one</span>}
        <State state={str(host.state)} />
      </header>
      <dl class="grid">
        {facts.filter(([, value]) => value !== "").map(([name, value]) => <div><dt>{name}</dt><dd>{visible(value)}</dd></div>)}
      </dl>
    </section>
  );
}
