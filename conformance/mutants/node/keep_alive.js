// Keeps a timer for housekeeping, which keeps the process alive as well.
"use strict";

const { Adapter } = require("./adapter.js");

const adapter = new Adapter();
const tidy = () =>
  adapter.sessions.forEach((session) => session.open || adapter.sessions.delete(session.id));
setInterval(tidy, 10_000);
adapter.run();
