// Remembers the session of the last message in a global, and answers under it after each await.
"use strict";

const { Adapter, Session } = require("./adapter.js");

let currentSession;

class Forgetful extends Session {
  send(type, fields) {
    if (this.open) this.adapter.write({ type, session_id: currentSession, ...fields });
  }

  async turn(content) {
    await new Promise((done) => setTimeout(done, 5));
    return super.turn(content);
  }
}

class GlobalSession extends Adapter {
  handle(message) {
    const { type, session_id: id } = message ?? {};
    if (this.sessions.has(id) || (type === "session.start" && typeof id === "string" && id !== "")) {
      currentSession = id;
    }
    super.handle(message);
  }
}

new GlobalSession(Forgetful).run();
