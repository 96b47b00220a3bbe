// An editor, made of ACP's own TypeScript library.
import assert from "node:assert/strict";
import * as acp from "@agentclientprotocol/sdk";
import { opened } from "./transport.mjs";

const { methods } = acp;

export const say = (text) => [{ type: "text", text }];

/**
 * Runs an agent and a client of it, until `work` is done. `person` answers: permissions as its `now` says (`yes`, `no`,
 * else not before it is cancelled, and `asked` is called), forms by its `form`. `version` is what the client offers.
 */
export async function editor(record, target, person, work, version = 2) {
  const { stream, end, ...transport } = opened(record, target);
  const updates = [];
  const asked = [];
  const app = acp
    .client({ name: "test" })
    .onRequest(methods.client.session.requestPermission, async ({ params, signal }) => {
      asked.push(params);
      const kind = { yes: "allow_once", no: "reject_once" }[person.now];
      if (kind === undefined) {
        person.asked();
        await new Promise((resolve) => signal?.addEventListener("abort", resolve));
        return { outcome: { outcome: "cancelled" } };
      }
      const { optionId } = params.options.find((option) => option.kind === kind);
      return { outcome: { outcome: "selected", optionId } };
    })
    .onRequest(methods.client.elicitation.create, ({ params }) => person.form(params))
    .onNotification(methods.client.session.update, ({ params }) => void updates.push(params.update));
  const text = (kind = "agent_message_chunk") =>
    updates.filter((update) => update.sessionUpdate === kind).map((update) => update.content.text).join("");
  await app.connectWith(stream, async (context) => {
    const agent = {
      notify: (...notification) => context.notify(...notification),
      /** The library hands on an answer while updates that came before it are still on their way. */
      async request(...request) {
        const settled = () => new Promise((resolve) => setImmediate(resolve));
        return context.request(...request).finally(settled);
      },
    };
    const told = await agent.request(methods.agent.initialize, {
      protocolVersion: version,
      clientCapabilities: { elicitation: { form: {} }, session: { notices: {}, compaction: {}, configOptions: { boolean: {} } } },
    });
    assert.equal(told.protocolVersion, 1);
    await work({ agent, updates, asked, text, can: told.agentCapabilities, ...transport });
  });
  await end();
}
