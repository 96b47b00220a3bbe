// A small core-only relay host: hub on stdin and stdout, one process for each agent. The broken hosts change a method.
'use strict';

const { spawn } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { StringDecoder } = require('node:string_decoder');

const REQUIRED = {
  __proto__: null,
  output: ['content'],
  'turn.complete': [],
  'file.output': ['file_path'],
  'permission.request': ['request_id', 'tool'],
};
const OPTIONAL = { __proto__: null, output: ['channel'], 'file.output': ['file_name', 'file_mime_type'] };
const PASSED = ['HOME', 'PATH', 'TERM', 'LANG', 'USER', 'LOGNAME', 'SHELL'];

class Relay {
  constructor() {
    const option = (name) => {
      const at = process.argv.indexOf(name);
      return at < 0 ? null : process.argv[at + 1];
    };
    const commands = [option('--adapter'), option('--adapter2')].filter((command) => command !== null);
    this.agents = commands.map((command) => ({ command, child: null }));
    this.folder = fs.mkdtempSync(path.join(os.tmpdir(), 'relay-'));
    this.sessions = this.table();
    this.copies = 0;
  }

  // What the broken hosts change.

  table() {
    return new Map();
  }

  // Calls `each` with every line of a stream, as text.
  lines(stream, each) {
    const decoder = new StringDecoder('utf8');
    let rest = [];
    stream.on('data', (chunk) => {
      const pieces = decoder.write(chunk).split('\n');
      for (let at = 0; at < pieces.length - 1; at++) {
        rest.push(pieces[at]);
        each(rest.join(''));
        rest = [];
      }
      rest.push(pieces[pieces.length - 1]);
    });
  }

  watch(agent, child) {
    child.on('error', (error) => this.ended(agent, child, String(error)));
    child.on('close', (code, signal) => this.ended(agent, child, `the adapter ended: ${signal ?? code}`));
  }

  response(sid, request, approved) {
    return { type: 'permission.response', session_id: sid, request_id: request, approved };
  }

  // The hub.

  say(message) {
    process.stdout.write(JSON.stringify(message) + '\n');
  }

  run() {
    this.lines(process.stdin, (line) => {
      let message;
      try {
        message = JSON.parse(line.replace(/^\ufeff/, ''));
      } catch {
        return;
      }
      if (message !== null && typeof message === 'object' && typeof message.session_id === 'string') {
        this.obey(message, message.session_id);
      }
    });
    process.stdin.on('end', () => this.end());
    process.stdout.on('error', () => this.end());
    process.on('SIGTERM', () => this.end());
  }

  obey(message, sid) {
    const session = this.sessions.get(sid);
    if (message.type === 'session.start' && session === undefined && sid !== '') {
      const agent = this.agents[message.agent_id === 'second' && this.agents.length > 1 ? 1 : 0];
      const opened = { agent, child: null, inputs: [], turn: false, requests: new Set(), restarted: false };
      this.sessions.set(sid, opened);
      this.open(sid, opened);
      return;
    }
    if (session === undefined) {
      return;
    }
    const content = message.content ?? '';
    if (message.type === 'user.input' && typeof content === 'string') {
      session.inputs.push(content);
      this.advance(sid, session);
    } else if (message.type === 'file.input' && typeof message.file_path === 'string') {
      this.write(session, {
        type: 'file.input',
        session_id: sid,
        file_name: message.file_name ?? path.basename(message.file_path),
        file_mime_type: message.file_mime_type ?? 'application/octet-stream',
        file_path: message.file_path,
      });
    } else if (message.type === 'stop' && session.turn) {
      this.write(session, { type: 'stop', session_id: sid });
      this.deny(sid, session);
    } else if (message.type === 'permission.response' && session.requests.delete(message.request_id)) {
      this.write(session, this.response(sid, message.request_id, message.approved === true));
    } else if (message.type === 'session.close') {
      this.sessions.delete(sid);
      this.write(session, { type: 'session.close', session_id: sid });
    }
  }

  deny(sid, session) {
    for (const request of session.requests) {
      this.write(session, this.response(sid, request, false));
    }
    session.requests.clear();
  }

  open(sid, session) {
    const { agent } = session;
    if (agent.child === null) {
      const env = { TMPDIR: fs.mkdtempSync(path.join(this.folder, 'tmp-')) };
      for (const name of PASSED) {
        if (process.env[name] !== undefined) {
          env[name] = process.env[name];
        }
      }
      const child = spawn('/bin/sh', ['-c', `exec ${agent.command}`], { env, detached: true });
      agent.child = child;
      this.watch(agent, child);
      child.stdin.on('error', () => {});
      child.stderr.resume();
      this.lines(child.stdout, (line) => this.hear(agent, line));
    }
    if (session.restarted) {
      this.say({ type: 'output', session_id: sid, content: 'the context is lost', channel: 'system' });
    }
    session.restarted = true;
    session.child = agent.child;
    this.write(session, { type: 'session.start', session_id: sid });
  }

  write(session, message) {
    session.child?.stdin.write(JSON.stringify(message) + '\n');
  }

  advance(sid, session) {
    if (!session.turn && session.inputs.length > 0) {
      if (session.child === null) {
        this.open(sid, session);
      }
      session.turn = true;
      this.write(session, { type: 'user.input', session_id: sid, content: session.inputs.shift() });
    }
  }

  // The adapters.

  hear(agent, line) {
    let message;
    try {
      message = JSON.parse(line.replace(/^\ufeff/, ''));
    } catch {
      return;
    }
    const required = REQUIRED[message?.type];
    if (required === undefined || !['session_id', ...required].every((name) => typeof message[name] === 'string')) {
      return;
    }
    const sid = message.session_id;
    const session = this.sessions.get(sid);
    if (session === undefined || session.agent !== agent) {
      return;
    }
    let told = { type: message.type, session_id: sid };
    for (const name of required) {
      told[name] = message[name];
    }
    for (const name of OPTIONAL[message.type] ?? []) {
      if (typeof message[name] === 'string' && message[name] !== '') {
        told[name] = message[name];
      }
    }
    if (message.type === 'turn.complete') {
      if (!session.turn) {
        return;
      }
      session.turn = false;
      this.deny(sid, session);
    } else if (message.type === 'permission.request') {
      if (session.requests.has(message.request_id)) {
        return;
      }
      session.requests.add(message.request_id);
      for (const [name, ours] of [['description', `${message.tool} asks`], ['resource', '']]) {
        told[name] = typeof message[name] === 'string' ? message[name] : ours;
      }
    } else if (message.type === 'file.output' && !this.copy(told)) {
      told = { type: 'output', session_id: sid, content: 'a file was refused', channel: 'system' };
    }
    this.say(told);
    this.advance(sid, session);
  }

  copy(told) {
    try {
      const real = fs.realpathSync(told.file_path);
      const meta = fs.lstatSync(told.file_path);
      const inside = real.startsWith(this.folder) || real.startsWith(process.cwd());
      if (!meta.isFile() || !inside || meta.size > 10 * 1024 * 1024) {
        return false;
      }
      this.copies += 1;
      const copy = path.join(this.folder, String(this.copies));
      fs.copyFileSync(real, copy);
      told.file_name ??= path.basename(told.file_path);
      told.file_mime_type ??= 'application/octet-stream';
      told.file_path = copy;
      return true;
    } catch {
      return false;
    }
  }

  ended(agent, child, why) {
    if (agent.child === child) {
      agent.child = null;
    }
    for (const [sid, session] of this.sessions.entries()) {
      if (session.child === child) {
        session.child = null;
        session.requests.clear();
        this.say({ type: 'output', session_id: sid, content: why, channel: 'system' });
        const waiting = session.inputs.length + Number(session.turn);
        session.inputs = [];
        session.turn = false;
        for (let turn = 0; turn < waiting; turn++) {
          this.say({ type: 'turn.complete', session_id: sid });
        }
      }
    }
  }

  end() {
    if (this.ending) {
      return;
    }
    this.ending = true;
    for (const [sid, session] of this.sessions.entries()) {
      this.write(session, { type: 'session.close', session_id: sid });
      if (session.turn) {
        this.say({ type: 'turn.complete', session_id: sid });
      }
    }
    this.sessions = new Map();
    const children = this.agents.map((agent) => agent.child).filter((child) => child !== null);
    const leave = () => {
      if (children.every((child) => child.exitCode !== null || child.signalCode !== null)) {
        fs.rmSync(this.folder, { recursive: true, force: true });
        process.exit(0);
      }
    };
    for (const child of children) {
      child.on('exit', leave);
      child.stdin.end();
    }
    setTimeout(() => children.forEach((child) => child.kill('SIGKILL')), 2000);
    leave();
  }
}

module.exports = { Relay };

if (require.main === module) {
  new Relay().run();
}
