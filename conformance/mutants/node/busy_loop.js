// Waits in a loop, in which no event is handled.
"use strict";

const { Adapter, Session } = require("./adapter.js");

class BusyLoop extends Session {
  pause(ms) {
    const next = Date.now() + ms;
    while (Date.now() < next);
  }
}

new Adapter(BusyLoop).run();
