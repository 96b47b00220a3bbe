// Leaves out what is falsy, so that an empty answer has no content.
"use strict";

const { Adapter, Session } = require("./adapter.js");

class UndefinedContent extends Session {
  say(content) {
    this.send("output", { content: content || undefined });
  }
}

new Adapter(UndefinedContent).run();
