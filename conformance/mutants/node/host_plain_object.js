// Keeps its sessions in a plain object, so that `constructor` and `toString` are sessions that no one opened.
'use strict';

const { Relay } = require('./host_relay.js');

class PlainObject extends Relay {
  table() {
    const sessions = {};
    return {
      get: (sid) => sessions[sid],
      set: (sid, session) => (sessions[sid] = session),
      delete: (sid) => delete sessions[sid],
      entries: () => Object.entries(sessions),
    };
  }

  hear(agent, line) {
    try {
      const sid = JSON.parse(line).session_id;
      const stranger = this.sessions.get(sid);
      if (typeof stranger === 'function') {
        Object.assign(stranger, { agent, inputs: [], turn: false, requests: new Set() });
      }
    } catch {
      return;
    }
    super.hear(agent, line);
  }
}

new PlainObject().run();
