// An editor, made of ACP's own TypeScript library.
import assert from "node:assert/strict";
import * as acp from "@agentclientprotocol/sdk";
import { opened } from "./transport.mjs";

const { methods } = acp;

export const say = (text) => [{ type: "text", text }];

/** Runs an agent and a client of it, until `work` is done. */
export async function editor(record, target, allow, work) {
  const { stream, end, ...transport } = opened(record, target);
  const updates = [];
  const asked = [];
  const app = acp
    .client({ name: "test" })
    .onRequest(methods.client.session.requestPermission, async ({ params, signal }) => {
      asked.push(params);
      const kind = { yes: "allow_once", no: "reject_once" }[allow.now];
      if (kind === undefined) {
        allow.asked();
        await new Promise((resolve) => signal?.addEventListener("abort", resolve));
        return { outcome: { outcome: "cancelled" } };
      }
      const { optionId } = params.options.find((option) => option.kind === kind);
      return { outcome: { outcome: "selected", optionId } };
    })
    .onNotification(methods.client.session.update, ({ params }) => void updates.push(params.update));
  const text = (kind = "agent_message_chunk") =>
    updates.filter((update) => update.sessionUpdate === kind).map((update) => update.content.text).join("");
  await app.connectWith(stream, async (agent) => {
    const told = await agent.request(methods.agent.initialize, {
      protocolVersion: 2,
      clientCapabilities: { elicitation: { form: {} }, session: { notices: {} } },
    });
    assert.equal(told.protocolVersion, 1);
    await work({ agent, updates, asked, text, ...transport });
  });
  await end();
}
