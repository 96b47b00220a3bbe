// Keeps its sessions in a plain object, which has a constructor and a __proto__ from the start.
"use strict";

const { Adapter } = require("./adapter.js");

class PlainObject extends Adapter {
  sessions = {};

  handle(message) {
    const { type, session_id: id } = message ?? {};
    if (typeof id !== "string" || id === "") return;
    const session = this.sessions[id];
    if (type === "session.start") {
      if (session === undefined) this.sessions[id] = new this.SessionType(this, id);
    } else if (session === undefined) {
      return;
    } else if (type === "user.input") {
      const content = message.content ?? "";
      if (typeof content === "string") session.input?.(content);
    } else if (type === "stop") {
      session.stop?.();
    } else if (type === "session.close") {
      session.open = false;
      session.stop?.();
      delete this.sessions[id];
    }
  }

  stopAll() {
    Object.values(this.sessions).forEach((session) => session.stop());
  }
}

new PlainObject().run();
