import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Readable } from "node:stream";
import { type LogType, TaskState } from "@diskmesh/api/director";
import { InvalidArgumentError, NotFoundError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { tarEntries, unzipped } from "../stemcells/tar-reader.js";
import { type HttpDirector, httpUsers, startHttpDirector } from "../testing/http-director.js";
import { type AskedLogs, digestsOf, put, sendsLogs } from "../testing/log-sender.js";

const SCOPES = {
  admin: ["bosh.admin"],
  reader: ["bosh.read"],
  team: ["bosh.teams.a.admin"],
};
const LIMITS = { timeoutMs: 60_000, maxBytesPerAgent: 4_000, maxKeptBytes: 6_000, keptMs: 3_600_000 };
const LOGS = "/deployments/web/jobs/db";

describe("logs of instances", () => {
  let mesh: HttpDirector;
  let ca: Buffer;
  let instanceIds: string[];
  /** The last log request to each agent, by agent id. */
  const asked = new Map<string, AskedLogs>();

  before(async () => {
    mesh = await startHttpDirector({ users: await httpUsers(SCOPES) }, { tuning: { agentLogs: LIMITS } });
    ca = readFileSync(mesh.director.certs.files("operator").caFile);
    instanceIds = await mesh.director.deploy("web", 2);
    await eachSends((agentId) => `logs of ${agentId}`);
  });
  after(() => mesh?.director.stop());
  afterEach(() => {
    const drafts = readdirSync(folder()).filter((name) => !/^\d+\.tgz$/.test(name));
    expect(drafts, "nothing is left of what was begun").to.deep.equal([]);
  });

  const folder = () => join(mesh.director.folder, "agent-logs");
  const agents = () => mesh.director.agents.slice(0, 2);
  const agentOf = async (index: number) => {
    const { instances } = await mesh.director.deployments.listInstances({ deployment: "web" });
    const { agentId = "" } = instances.find((each) => each.index === index) ?? {};
    return mesh.director.agent(agentId);
  };

  /** Makes the agent answer log requests with `answer` from now on. */
  async function answers(agent: (typeof mesh.director.agents)[number], answer: (wanted: AskedLogs) => unknown) {
    await agent.stop();
    agent.logMethods = sendsLogs((wanted) => {
      asked.set(agent.agentId, wanted);
      return answer(wanted);
    });
    await agent.start();
  }

  const send = async (wanted: AskedLogs, text: string) => {
    expect(await put(wanted, text, ca)).to.equal(201);
    return { sha1: digestsOf(text) };
  };

  async function eachSends(textOf: (agentId: string) => string) {
    for (const agent of agents()) await answers(agent, (wanted) => send(wanted, textOf(agent.agentId)));
  }

  async function fetch(selection: { group?: string; instance?: string } = {}) {
    const request = { selection: { deployment: "web", ...selection }, wait: true };
    return (await mesh.director.vms.fetchLogs(request)).task;
  }

  async function download(taskId: number): Promise<Buffer> {
    const pieces: Buffer[] = [];
    for await (const { piece } of mesh.director.vms.downloadLogs({ taskId })) pieces.push(piece);
    return Buffer.concat(pieces);
  }

  async function unpacked(tgz: Buffer): Promise<Record<string, string>> {
    const found: Record<string, string> = {};
    for await (const { name, content } of tarEntries(unzipped(Readable.from([tgz])))) {
      const pieces: Buffer[] = [];
      for await (const piece of content) pieces.push(piece);
      found[name] = Buffer.concat(pieces).toString();
    }
    return found;
  }

  it("of one instance, as the bosh CLI requests them -> a task whose result names the agent's unchanged file", async () => {
    const { task } = await mesh.http.task("GET", `${LOGS}/0/logs?type=agent%2Csystem&filters=a.log%2Cweb%2F*.log`);
    expect(task).to.include({ state: "done", result: String(task.id), description: "fetch logs of `web/db/0`" });
    const { agentId } = await agentOf(0);
    expect(asked.get(agentId)).to.deep.include({ log_type: "agent,system", filters: ["a.log", "web/*.log"] });
    const { status, headers, body } = await mesh.http.send("GET", `/resources/${task.result}`);
    expect({ status, body }).to.deep.equal({ status: 200, body: `logs of ${agentId}` });
    expect(headers).to.include({ "content-type": "application/gzip", "content-length": String(body.length) });
    expect((await download(task.id)).toString()).to.equal(body);
  });

  it("of all instances -> a tgz with one file per instance", async () => {
    const { task } = await mesh.http.task("GET", "/deployments/web/jobs/*/*/logs?type=job");
    const files = await unpacked(await download(task.id));
    const names = await Promise.all([0, 1].map(async (index) => (await agentOf(index)).agentId));
    expect(files).to.deep.equal({
      [`db.${instanceIds[0]}.tgz`]: `logs of ${names[0]}`,
      [`db.${instanceIds[1]}.tgz`]: `logs of ${names[1]}`,
    });
  });

  it("an agent that is absent or lacks the method -> reported in the events; alone -> the task fails", async () => {
    const agent = await agentOf(0);
    await agent.stop();
    agent.logMethods = {};
    await agent.start();
    const task = await fetch();
    expect(task).to.include({ state: TaskState.DONE });
    const events = await mesh.director.eventTexts(task?.taskId ?? 0);
    expect(events.join("\n")).to.include(
      `agent ${agent.agentId} does not support the method fetch_logs_with_signed_url`,
    );
    expect((await download(task?.taskId ?? 0)).toString()).to.equal(`logs of ${(await agentOf(1)).agentId}`);
    const alone = await fetch({ group: "db", instance: "0" });
    expect(alone).to.include({ state: TaskState.ERROR });
    expect(alone?.result).to.include("does not support the method");
    await rejection(download(alone?.taskId ?? 0), NotFoundError, "has no fetched logs");
    expect((await mesh.http.send("GET", `/resources/${alone?.taskId}`)).status).to.equal(404);
    await eachSends((agentId) => `logs of ${agentId}`);
  });

  it("an upload -> accepted once, and only from an agent that was asked", async () => {
    const agent = await agentOf(0);
    const statuses: number[] = [];
    await answers(agent, async (wanted) => {
      const wrong = { ...wanted, blobstore_headers: { Authorization: "Bearer x" } };
      const other = {
        ...wanted,
        signed_url: wanted.signed_url.replace(/[^/]+$/, "00000000-0000-4000-8000-000000000000"),
      };
      for (const each of [wrong, { ...wanted, blobstore_headers: {} }, other])
        statuses.push(await put(each, "forged", ca));
      const said = await send(wanted, "mine");
      statuses.push(await put(wanted, "forged", ca));
      return said;
    });
    const task = await fetch({ group: "db", instance: "0" });
    expect(statuses).to.deep.equal([401, 401, 401, 401]);
    expect((await download(task?.taskId ?? 0)).toString()).to.equal("mine");
    expect(await put(asked.get(agent.agentId) as AskedLogs, "late", ca), "after the end").to.equal(401);
    const { Authorization: secret = "" } = asked.get(agent.agentId)?.blobstore_headers ?? {};
    const log = readFileSync(join(mesh.director.folder, "director.log"), "utf8");
    expect(secret).to.match(/^Bearer .{40}/);
    expect(log.includes(secret.slice(7)), "in the log").to.equal(false);
    expect(log).to.include("fetch_logs_with_signed_url");
    const told = log.split("\n").filter((line) => /"audit":"call".*:upload"/.test(line));
    expect(
      told.every((line) => /"method":"PUT".*"status":201/.test(line)),
      told.join("\n"),
    ).to.equal(true);
    expect(told).not.to.deep.equal([]);
  });

  const WRONG: readonly [what: string, answer: (wanted: AskedLogs) => unknown, told: string][] = [
    [
      "too much",
      (wanted) => put(wanted, "x".repeat(5_000), authority()).then(() => ({})),
      "the logs exceed the limit of 4000 bytes",
    ],
    ["nothing", () => ({ sha1: digestsOf("") }), "none arrived at https://127.0.0.1:"],
    [
      "another thing than it says",
      (wanted) => send(wanted, "one").then(() => ({ sha1: digestsOf("two") })),
      "do not have the digest",
    ],
    ["without a digest", (wanted) => send(wanted, "one").then(() => ({ sha1: "" })), "do not have the digest"],
    ["an error", () => Promise.reject(new Error("Making logs tarball")), "Making logs tarball"],
  ];
  const authority = () => ca;
  for (const [what, answer, told] of WRONG)
    it(`an agent that sends ${what} -> an error with the reason`, async () => {
      await answers(await agentOf(0), answer);
      await isTold(told);
    });

  it("an agent that sends half of its logs -> an error once the timeout is over", async () => {
    await answers(await agentOf(0), (wanted) => put(wanted, "half", ca, { sizeBytes: 8 }));
    await mesh.director.restartTuned({ agentLogs: { ...LIMITS, timeoutMs: 4_000 } });
    await isTold("still runs");
    await mesh.director.restartTuned({ agentLogs: LIMITS });
  });

  async function isTold(why: string): Promise<void> {
    const task = await fetch({ group: "db", instance: "0" });
    expect(task).to.include({ state: TaskState.ERROR });
    expect(task?.result).to.include(why);
  }

  it("a task cancelled during an upload -> ends, and accepts no more", async () => {
    let ended: Promise<unknown> = Promise.resolve();
    await answers(await agentOf(0), (wanted) => {
      ended = put(wanted, "half", ca, { sizeBytes: 8 }).catch((error: Error) => error);
      return ended;
    });
    const { task } = await mesh.director.vms.fetchLogs({
      selection: { deployment: "web", group: "db", instance: "0" },
    });
    const taskId = task?.taskId ?? 0;
    const draftOf = () => readdirSync(folder()).find((name) => name.startsWith(`${taskId}.`)) ?? "";
    await eventually(() => draftOf() !== "" && readdirSync(join(folder(), draftOf())).length === 1);
    await mesh.director.tasks.cancelTask({ taskId });
    expect(await mesh.director.ended(taskId)).to.include({ state: TaskState.CANCELLED });
    expect(await ended).to.not.equal(201);
    await eachSends((agentId) => `logs of ${agentId}`);
  });

  it("the director is killed during an upload -> the next director requests the logs again, and no file is left", async () => {
    let tries = 0;
    await answers(await agentOf(0), (wanted) => {
      if (tries++ > 0) return send(wanted, "anew");
      return put(wanted, "half", ca, { sizeBytes: 8 }).catch(() => ({}));
    });
    const { task } = await mesh.director.vms.fetchLogs({
      selection: { deployment: "web", group: "db", instance: "0" },
    });
    const taskId = task?.taskId ?? 0;
    await eventually(() => tries === 1 && readdirSync(folder()).some((name) => name.startsWith(`${taskId}.`)));
    await mesh.director.process.kill();
    await mesh.director.process.start();
    expect(await mesh.director.ended(taskId)).to.include({ state: TaskState.DONE });
    expect((await download(taskId)).toString()).to.equal("anew");
    await eachSends((agentId) => `logs of ${agentId}`);
  });

  it("more files than the limit -> the oldest is deleted, and a download says so", async () => {
    await eachSends(() => "x".repeat(3_500));
    const first = await fetch({ group: "db", instance: "0" });
    const second = await fetch({ group: "db", instance: "1" });
    expect([first?.state, second?.state]).to.deep.equal([TaskState.DONE, TaskState.DONE]);
    expect((await download(second?.taskId ?? 0)).length).to.equal(3_500);
    expect(existsSync(join(folder(), `${first?.taskId}.tgz`))).to.equal(false);
    await rejection(download(first?.taskId ?? 0), NotFoundError, "fetch the logs again");
    const both = await fetch();
    expect(both?.state).to.equal(TaskState.DONE, "one of them is fetched");
    expect((await mesh.director.eventTexts(both?.taskId ?? 0)).join("\n")).to.include("exceed the limit of 6000 bytes");
    await eachSends((agentId) => `logs of ${agentId}`);
  });

  it("another team's admin, a reader, no login -> may neither fetch nor download the logs", async () => {
    const { task } = await mesh.http.task("GET", `${LOGS}/0/logs?type=job`);
    for (const name of ["reader", "team"]) {
      const client = mesh.as(name);
      expect((await client.send("GET", `/resources/${task.id}`)).status, name).to.equal(401);
      expect((await client.send("GET", `${LOGS}/0/logs?type=job`)).status, name).to.equal(401);
    }
    expect((await mesh.http.send("GET", `/resources/${task.id}`, { login: "" })).status).to.equal(401);
    const other = await mesh.as("team").send("GET", "/resources/999999");
    expect(other.status, "nor whether there are any").to.equal(401);
  });

  it("a faulty request -> refused with the reason", async () => {
    const { vms } = mesh.director;
    const wrong = (more: object) => vms.fetchLogs({ selection: { deployment: "web" }, ...more });
    await rejection(wrong({ selection: { deployment: "none" } }), NotFoundError, "none");
    await rejection(wrong({ selection: { deployment: "web", group: "none" } }), NotFoundError, "none");
    for (const filters of [["../x"], ["/etc/shadow"], [""], ["a\nb"], Array(101).fill("a")])
      await rejection(wrong({ filters }), InvalidArgumentError, "filter");
    await rejection(wrong({ logTypes: ["LOG_TYPE_UNSPECIFIED" as LogType] }), InvalidArgumentError, "log_types");
    await rejection(download(1), NotFoundError, "has no fetched logs");
    const none = await mesh.http.send("GET", `${LOGS}/0/logs?type=odd`);
    expect(none.status).to.equal(400);
  });
});
