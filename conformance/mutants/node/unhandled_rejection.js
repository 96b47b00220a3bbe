// Handles messages in an async function, whose rejection no one handles and which ends the process.
"use strict";

const { Adapter } = require("./adapter.js");

class UnhandledRejection extends Adapter {
  async handle(message) {
    if (message?.type === "user.input" && this.sessions.has(message.session_id)) {
      const content = (message.content ?? "").replaceAll("\r\n", "\n");
      return super.handle({ ...message, content });
    }
    return super.handle(message);
  }
}

new UnhandledRejection().run();
