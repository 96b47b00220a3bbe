// Clients by the TypeScript package, for `people.py`: `node people.mjs '{"urls", "token", "sessions", "lanes", "longest", "pause"}'`.
// It says what it is shown, one JSON a line, and stops to give inputs at a line of its stdin.
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const { Client, eventsOf, webSocket } = await import(pathToFileURL(`${process.env.TRUNKLINE_SDK}/client.js`));
const { urls, token, sessions, lanes, longest, pause } = JSON.parse(process.argv[2]);
const say = (what, session, more = {}) => process.stdout.write(JSON.stringify({ what, session, ...more }) + "\n");
const random = (least, most) => least + Math.random() * (most - least);
let [isOver, number] = [false, 0];

async function speak(session) {
  try {
    while (!isOver) {
      const kind = Math.random() < 0.4 ? "echo" : `work ${random(0.2, longest).toFixed(1)}`;
      const text = `${kind} ts-${process.pid}-${number++}`;
      say("input", session.id, { text });
      const { end } = await session.turn(text);
      say("end", session.id, { end });
      await new Promise((resolve) => setTimeout(resolve, random(0, pause * 1000)));
    }
  } catch (error) {
    say("wrong", session.id, { why: `a turn is lost: ${error}` });
  }
}

// Half of them by the pipe, half by Server-Sent Events beside it.
async function listen(session, entries) {
  try {
    for await (const entry of entries) if (entry.seq !== undefined) say("entry", session.id, { entry });
    say("wrong", session.id, { why: "its entries end" });
  } catch (error) {
    say("wrong", session.id, { why: `its entries end: ${error}` });
  }
}

const client = await Client.connect(webSocket(urls, token));
const speaking = [];
for (let each = 0; each < sessions; each++) {
  const byPipe = each % 2 === 0;
  const session = await client.open({}, { listen: byPipe });
  say("session", session.id);
  void listen(session, byPipe ? session.events() : eventsOf(urls, session.id, { token }));
  for (let lane = 0; lane < lanes; lane++) speaking.push(speak(session));
}
say("opened");
createInterface({ input: process.stdin }).on("line", async () => {
  isOver = true;
  await Promise.all(speaking);
  say("finished");
});
