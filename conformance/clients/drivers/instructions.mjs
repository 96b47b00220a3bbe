// The instructions of the judge, run by the TypeScript client. Uses nothing of Node, so that a page can load it.

/**
 * A driver of `sdk`, the package's module for Node or for browsers: a function that runs one instruction. `report` receives the
 * replies and events, `given` returns what the client takes for a file, and `log` receives the stderr of commands.
 */
export function makeDriver({ sdk, report, given, log }) {
  const { Client, ClientError, RequestSettled, UnsupportedAbility } = sdk;

  let client;
  const sessions = new Map(); // of the client, by id
  const files = new Map(); // entries of files, by session and number
  const turns = new Map(); // inputs, by the judge's name
  const waiting = new Map(); // callbacks, by session and request

  const key = (session, id) => JSON.stringify([session, id]);

  function errorOf(error) {
    const { status, category, message } = error;
    return { class: error instanceof ClientError && !error.isPermanent ? "temporary" : "permanent", status, category, message };
  }

  const BECAUSE = { answered: "decided", withdrawn: "withdrawn", turn_ended: "withdrawn" };

  // A callback: waits for `decide`, or for the signal of the client.
  function callback(kind) {
    return (request, session, { signal }) => {
      const [id, name] = [session.id, request.request_id];
      report({ event: "asked", session: id, request: name, kind });
      return new Promise((resolve) => {
        waiting.set(key(id, name), resolve);
        signal.addEventListener("abort", () => {
          waiting.delete(key(id, name));
          const { how, by, person, approved } = signal.reason instanceof RequestSettled ? signal.reason : {};
          report({ event: "asked.end", session: id, request: name, because: BECAUSE[how] ?? "ended", by, name: person, approved });
          resolve(undefined);
        });
      });
    };
  }

  async function follow(session) {
    try {
      for await (const entry of session.events()) {
        if (entry.type === "lag") report({ event: "lag", session: session.id, from: entry.from, to: entry.to });
        else if (entry.seq !== undefined) report({ event: "entry", session: session.id, entry });
        if (entry.type === "file.output") files.set(key(session.id, entry.seq), entry);
      }
      report({ event: "ended", session: session.id });
    } catch (error) {
      report({ event: "ended", session: session.id, error: errorOf(error) });
    }
  }

  function entered(session) {
    sessions.set(session.id, session);
    void follow(session);
    return { session: session.id };
  }

  async function sessionOf(id) {
    const session = sessions.get(id);
    if (!session) throw new Error(`the driver has no session ${id}`);
    return session;
  }

  const TRANSPORTS = {
    http: ({ url, urls, token, times }) => sdk.overHttp(urls ?? url, token, times),
    websocket: ({ url, urls, token, times }) => sdk.webSocket(urls ?? url, token, times),
    // The module for browsers has neither of these.
    ...(sdk.unixSocket && { socket: ({ path }) => sdk.unixSocket(path) }),
    ...(sdk.spawned && { command: ({ command }) => sdk.spawned(command[0], command.slice(1), { onStderr: log }) }),
  };

  const INSTRUCTIONS = {
    async connect({ transport, requests = "callback", limits = {}, ...address }) {
      if (!(transport in TRANSPORTS)) return { unsupported: "a page opens no sockets and starts no programs" };
      const times = {};
      if (limits.answer !== undefined) times.answersWithin = limits.answer;
      if (limits.silence !== undefined) times.silentFor = limits.silence;
      const isNetwork = transport === "http" || transport === "websocket";
      const options = {
        onPermission: requests === "leave" ? "leave" : callback("permission"),
        onQuestion: requests === "leave" ? "leave" : callback("question"),
        onAnswerRefused: (error, request, session) =>
          report({ event: "answer.refused", session: session.id, request: request.request_id, error: errorOf(error) }),
        onState: ({ state }) => state !== "closed" && report({ event: "connection", state: state === "open" ? "back" : "lost" }),
      };
      if (limits.retry !== undefined) options.retryFor = limits.retry;
      client = await Client.connect(TRANSPORTS[transport]({ ...address, times }), options);
      const applied = ["retry", ...(isNetwork ? ["answer", "silence"] : [])];
      return { limits: Object.keys(limits).filter((limit) => applied.includes(limit)) };
    },
    open: async ({ agent, options = {} }) => entered(await client.open(agent === undefined ? options : { ...options, agent_id: agent }, { listen: true })),
    attach: async ({ session, ...options }) => void entered(await client.attach(session, { ...options, listen: true })),
    async send({ session, turn, text, files }) {
      const sent = (await sessionOf(session)).send(text, files ? { files: files.map(given) } : {});
      turns.set(turn, { sent, session });
      sent.done.then(
        ({ text, end: { status, error } }) => report({ event: "turn", turn, status: status ?? "completed", text, category: error?.category }),
        (error) => report({ event: "turn", turn, error: errorOf(error) }),
      );
    },
    steer: async ({ turn, text }) => ({ delivered: await (await sessionOf(turns.get(turn).session)).steer(text) }),
    async stop({ session, turn }) {
      (await sessionOf(session ?? turns.get(turn).session)).stop();
    },
    async withdraw({ turn }) {
      void turns.get(turn).sent.withdraw();
    },
    async decide({ session, request, ...answer }) {
      const resolve = waiting.get(key(session, request));
      if (!resolve) throw new Error("no callback waits for the request");
      waiting.delete(key(session, request));
      resolve("values" in answer ? answer.values : answer.cancelled ? null : answer);
    },
    answer: async ({ session, request, ...answer }) => void (await client.answer(session, request, answer)),
    history: ({ session, ...options }) => client.history(session, options),
    sessions: ({ filter }) => client.sessions(filter),
    agents: async () => ({ agents: await client.agents() }),
    async changes() {
      const changes = client.watch();
      // What the transport lacks is the reply.
      const first = await Promise.race([changes.next().catch((error) => error), new Promise((resolve) => setTimeout(resolve, 1000))]);
      if (first instanceof UnsupportedAbility) throw first;
      void (async () => {
        try {
          if (first instanceof Error) throw first;
          if (first?.value) report({ event: "change", change: first.value });
          for await (const change of changes) report({ event: "change", change });
          report({ event: "changes.ended" });
        } catch (error) {
          report({ event: "changes.ended", error: errorOf(error) });
        }
      })();
    },
    put_file: async ({ session, path }) => ({ sha256: (await client.upload(session, given(path))).sha256 }),
    async get_file({ session, seq }) {
      const data = await (await sessionOf(session)).file(files.get(key(session, seq)));
      return { sha256: await sha256(data), size: data.length };
    },
    settings: ({ session, options }) => client.settings(session, options),
    edit: ({ session, ...changes }) => client.edit(session, changes),
    fork: async ({ session, ...options }) => entered(await client.fork(session, { ...options, listen: true })),
    close: async ({ session }) => (await sessionOf(session)).close(),
    remove: ({ session }) => client.remove(session),
    search: ({ text }) => client.search(text),
    leave: () => client.close(),
  };

  return async function run({ id, do: name, ...members }) {
    try {
      if (!Object.hasOwn(INSTRUCTIONS, name)) return report({ id, unsupported: `the client has no \`${name}\`` });
      const ok = (await INSTRUCTIONS[name](members)) ?? {};
      report(ok.unsupported ? { id, ...ok } : { id, ok });
    } catch (error) {
      if (error instanceof UnsupportedAbility) report({ id, unsupported: error.message });
      else report({ id, error: errorOf(error) });
    }
  };
}

async function sha256(data) {
  const sum = new Uint8Array(await crypto.subtle.digest("SHA-256", data));
  return Array.from(sum, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
