// What reaches the agent of a wake: its folder, its environment, its prompt, its instructions and its skills.
import assert from "node:assert/strict";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, describe, test } from "node:test";
import { prompted, scratch, wake } from "./galyarder.mjs";
import { NONE } from "./programs.mjs";

after(() => rmSync(scratch, { recursive: true, force: true }));

const folder = (name) => {
  const path = join(scratch, name);
  mkdirSync(path, { recursive: true });
  return path;
};
const options = async (config, context, more = {}) => {
  const { answer } = await wake(config, { ...more, context: { input: "options", ...context } });
  return JSON.parse(answer);
};
const comment = { id: "c-1", issueId: "i-1", body: "Please use the other color.", author: { type: "user", id: "u-1" } };
const issue = { id: "i-1", identifier: "ACM-1", title: "Paint it", status: "in_progress", priority: "high" };
const galyarderWake = { reason: "issue_commented", issue, commentIds: ["c-1"], latestCommentId: "c-1", comments: [comment] };

describe("Galyarder, a wake", { concurrency: 4 }, () => {
  test("the workspace of the run comes first; a configured folder replaces the agent's home only", { skip: NONE }, async () => {
    const [configured, worktree] = [folder("configured"), folder("worktree")];
    const place = { source: "project_primary", strategy: "git_worktree", cwd: worktree };
    const there = await options({ cwd: configured }, { galyarderWorkspace: place });
    assert.deepEqual([there.cwd, there.env.GALYARDER_WORKSPACE_CWD], [worktree, worktree]);

    const home = { source: "agent_home", cwd: folder("home") };
    const instead = await options({ cwd: configured }, { galyarderWorkspace: home });
    assert.deepEqual([instead.cwd, "GALYARDER_WORKSPACE_CWD" in instead.env], [configured, false]);
    assert.equal((await options({ cwd: undefined }, { galyarderWorkspace: home })).cwd, home.cwd);
    assert.equal((await options({ cwd: undefined }, {})).cwd, process.cwd());
    // A session of the project is not resumed in the agent's home.
    const stored = {};
    const repository = { workspaceId: "w-1", repoUrl: "https://example.org/r.git", repoRef: "main" };
    await wake({}, { stored, context: { input: "work", galyarderWorkspace: { ...place, ...repository, branchName: "b" } } });
    const { workspaceId, repoUrl, repoRef, ...rest } = JSON.parse(stored.params);
    assert.deepEqual([{ workspaceId, repoUrl, repoRef }, "branchName" in rest], [repository, false]);
    assert.equal((await options({}, { galyarderWorkspace: place }, { stored: { ...stored } })).resume.native_session_id, "native-1");
    assert.equal((await options({}, { galyarderWorkspace: home }, { stored })).resume, undefined);
  });

  test("the environment has the workspace, the services and the wake", { skip: NONE }, async () => {
    const galyarderWorkspace = {
      cwd: scratch,
      source: "project_primary",
      strategy: "git_worktree",
      workspaceId: "w-1",
      repoUrl: "https://example.org/r.git",
      repoRef: "main",
      branchName: "acm-1",
      worktreePath: scratch,
      agentHome: "/home/of/agent",
    };
    const context = {
      galyarderWorkspace,
      galyarderWorkspaces: [{ cwd: scratch, isPrimary: true }, "odd"],
      galyarderRuntimeServiceIntents: [{ serviceName: "db" }],
      galyarderRuntimeServices: [{ serviceName: "web", url: "http://127.0.0.1:1" }],
      galyarderRuntimePrimaryUrl: "http://127.0.0.1:1",
      galyarderWake,
    };
    const { env } = await options({ bootstrapPromptTemplate: "options" }, context);
    const { GALYARDER_WAKE_PAYLOAD_JSON, ...rest } = env;
    assert.equal(JSON.parse(GALYARDER_WAKE_PAYLOAD_JSON).comments[0].body, comment.body);
    const expected = {
      GALYARDER_WORKSPACE_CWD: scratch,
      GALYARDER_WORKSPACE_SOURCE: "project_primary",
      GALYARDER_WORKSPACE_STRATEGY: "git_worktree",
      GALYARDER_WORKSPACE_ID: "w-1",
      GALYARDER_WORKSPACE_REPO_URL: "https://example.org/r.git",
      GALYARDER_WORKSPACE_REPO_REF: "main",
      GALYARDER_WORKSPACE_BRANCH: "acm-1",
      GALYARDER_WORKSPACE_WORKTREE_PATH: scratch,
      GALYARDER_WORKSPACES_JSON: JSON.stringify([{ cwd: scratch, isPrimary: true }]),
      GALYARDER_RUNTIME_SERVICE_INTENTS_JSON: JSON.stringify([{ serviceName: "db" }]),
      GALYARDER_RUNTIME_SERVICES_JSON: JSON.stringify([{ serviceName: "web", url: "http://127.0.0.1:1" }]),
      GALYARDER_RUNTIME_PRIMARY_URL: "http://127.0.0.1:1",
      AGENT_HOME: "/home/of/agent",
    };
    for (const [name, value] of Object.entries(expected)) assert.equal(rest[name], value, name);
    const { env: empty } = await options({}, {});
    const names = Object.keys(empty).filter((name) => name in expected || name.includes("WAKE"));
    assert.deepEqual(names, []);
  });

  test("the prompt has what woke the agent, and less of it in a resumed session", { skip: NONE }, async () => {
    const config = { bootstrapPromptTemplate: "First of {{agent.name}}.", promptTemplate: "Go on, {{agent.name}}." };
    const context = { galyarderWake, galyarderSessionHandoffMarkdown: "The last session did half of it." };
    const first = await wake(config, { context });
    const order = ["First of Ada.", comment.body, "The last session did half of it.", "Go on, Ada."];
    const places = order.map((part) => first.answer.indexOf(part));
    assert.ok(places.every((place, at) => place >= 0 && (at === 0 || place > places[at - 1])), first.answer);
    assert.match(first.answer, /ACM-1 Paint it/);
    assert.equal(first.metas[0].prompt, first.answer);
    const { promptChars, bootstrapPromptChars, sessionHandoffChars } = first.metas[0].promptMetrics;
    assert.deepEqual([promptChars, bootstrapPromptChars, sessionHandoffChars], [first.answer.length, 13, 32]);

    const stored = { params: JSON.stringify({ sessionId: "native-1", cwd: scratch }) };
    const next = await wake(config, { context: { galyarderWake }, stored: { ...stored } });
    assert.ok(next.answer.includes(comment.body) && !/First of|Go on/.test(next.answer), next.answer);
    assert.notEqual(next.answer.split("\n")[0], first.answer.split("\n")[2]); // another heading
    assert.equal((await wake(config, { stored })).answer, "Go on, Ada.");
    // A session that the agent does not know gets the whole prompt.
    const anew = await wake(config, { context, stored: { params: JSON.stringify({ sessionId: "refused", cwd: scratch }) } });
    assert.deepEqual(
      anew.metas.map(({ prompt }) => prompt.includes("First of Ada.")),
      [false, true],
    );
  });

  test("the instructions file reaches the agent, by its system prompt or its first prompt", { skip: NONE }, async () => {
    const file = join(folder("instructions"), "AGENTS.md");
    writeFileSync(file, "Be thorough.\n");
    const config = { instructionsFilePath: file, systemPrompt: "Be brief." };
    const { system_prompt } = await options(config, {});
    assert.match(system_prompt, /^Be brief\.\n\nBe thorough\.\n\n.*AGENTS\.md/);
    assert.ok(system_prompt.includes(folder("instructions")));
    const relative = await options({ ...config, instructionsFilePath: "instructions/AGENTS.md" }, {});
    assert.equal(relative.system_prompt, system_prompt);

    const within = { ...config, systemPromptIn: "prompt", promptTemplate: "Work." };
    assert.match((await wake(within)).answer, /^Be brief\.\n\nBe thorough\.[^]*\n\nWork\.$/);
    const stored = { params: JSON.stringify({ sessionId: "native-1", cwd: scratch }) };
    assert.equal((await wake(within, { stored })).answer, "Work.");

    const absent = await wake({ instructionsFilePath: join(scratch, "none.md") }, prompted("options"));
    assert.deepEqual([absent.result.exitCode, JSON.parse(absent.answer).system_prompt], [0, undefined]);
    assert.match(absent.stderr, /the instructions file cannot be read: .*none\.md/);
  });

  test("the company's skills reach the agent by name, beside configured folders", { skip: NONE }, async () => {
    const skill = (name, required) => ({ key: `acme/${name}`, runtimeName: `${name}--1`, source: `/skills/${name}`, required });
    const config = {
      skills: "/skills/own",
      galyarderRuntimeSkills: [skill("report", true), skill("deploy", false), skill("review", false)],
      galyarderSkillSync: { desiredSkills: ["acme/review"] },
    };
    const { skills } = await options(config, {});
    const named = (name) => ({ name: `${name}--1`, path: `/skills/${name}` });
    assert.deepEqual(skills, ["/skills/own", named("report"), named("review")]);
    assert.equal((await options({}, {})).skills, undefined);
  });
});
