import { once } from "node:events";
import { request as httpRequest } from "node:http";
import { connect } from "node:net";
import { PersistentDiskState, TaskState } from "@diskmesh/api/director";
import { eventually, freePort, stemcellFile } from "@diskmesh/testkit";
import { expect } from "chai";
import fc from "fast-check";
import { CLOUD_CONFIG, TestDirector } from "../testing/test-director.js";

const PASSWORD = "registry-pa55";
const WRONG_PASSWORD = "gue55ed-password";
const CANARY = "canary-s3ttings";
const BASIC = `Basic ${Buffer.from(`admin:${PASSWORD}`).toString("base64")}`;

const asJson = (value: unknown): string => JSON.stringify(value);

interface Reply {
  readonly code: number;
  readonly body: { readonly status: string; readonly settings?: string; readonly message?: string };
}

describe("the bosh-registry", () => {
  let director: TestDirector;
  let port: number;

  before(async () => {
    port = await freePort();
    const boshRegistry = { listen: { host: "127.0.0.1", port }, user: "admin", password: PASSWORD };
    const limits = { maxSettingsBytes: 2_000, maxInstances: 3, requestTimeoutMs: 5_000, maxConnections: 20 };
    director = await TestDirector.start({
      boshRegistry,
      agents: { settings: { ntp: ["0.pool"] }, readyTimeoutMs: 30_000 },
      tuning: { boshRegistry: limits, agents: { detachTimeoutMs: 500 } },
    });
    await director.configs.updateConfig({ type: "cloud", content: CLOUD_CONFIG });
  });
  after(() => director?.stop());
  afterEach(async () => {
    director.cpi.apiVersions.clear();
    await director.deployments.deleteDeployment({ deployment: "web", wait: true });
  });

  const call = (method: string, path: string, options: { auth?: string | undefined; body?: string } = {}) =>
    new Promise<Reply>((resolve, reject) => {
      const { auth = BASIC, body } = options;
      const headers = auth === "" ? {} : { authorization: auth };
      const request = httpRequest({ host: "127.0.0.1", port, method, path, headers, agent: false }, (response) => {
        let text = "";
        response.on("data", (piece: Buffer) => {
          text += piece.toString();
        });
        response.on("end", () => resolve({ code: response.statusCode ?? 0, body: JSON.parse(text) as Reply["body"] }));
      });
      request.on("error", reject);
      request.end(body);
    });
  const put = (id: string, settings: object) =>
    call("PUT", `/instances/${id}/settings`, { body: JSON.stringify(settings) });
  const get = (id: string, auth?: string) => call("GET", `/instances/${id}/settings`, { auth });
  const manifest = (instances: number, more = "") =>
    `name: web\nstemcells: [{alias: old, name: ubuntu, version: "1"}]\ninstance_groups:\n- {name: db, instances: ${instances}, azs: [z1]${more}}\n`;
  const deploy = async (text: string) => {
    const { task } = await director.deployments.deploy({ manifest: text, wait: true });
    expect(task?.result).to.equal("/deployments/web");
  };
  const instance = async () => (await director.deployments.listInstances({ deployment: "web" })).instances[0];

  it("CPI and stemcell of version 2 -> the bosh-registry is unused, and env contains the settings", async () => {
    await deploy(manifest(1));
    expect((await instance())?.usesRegistry).to.equal(false);
    expect([...director.cpi.vms.values()][0]?.request.env).to.have.nested.property("bosh.ntp");
  });

  it("a CPI of version 1 -> settings are served during create_vm; env lacks them; disks have no hint; the settings go with the VM", async () => {
    director.cpi.apiVersions.set("", 1);
    const gate = director.cpi.gate("createVm", "before");
    const deploying = deploy(manifest(1, ", persistent_disk: 64"));
    await gate.reached;
    expect((await put("vm-x", { agent_id: "someone", disks: {} })).body).to.deep.equal({ status: "ok" });
    gate.release();
    await deploying;
    const made = await instance();
    expect(made).to.include({ usesRegistry: true, cpiApiVersion: 1 });
    const vm = director.cpi.vms.get(made?.vmCid ?? "");
    expect(vm?.request.env).to.not.have.nested.property("bosh.ntp");
    const { disks } = await director.deployments.listPersistentDisks({
      deployment: "web",
    });
    expect(disks[0]).to.include({ state: PersistentDiskState.MOUNTED, diskHint: undefined });
    expect(director.agent("host-1").calls).to.deep.equal([`mount ${disks[0]?.diskCid}`]);
    const token = vm?.request.agentId ?? "";
    const settings = { agent_id: token, env: { password: CANARY } };
    expect((await put("i-0123", settings)).code).to.equal(200);
    expect((await get("i-0123")).body).to.deep.equal({ status: "ok", settings: JSON.stringify(settings) });
    await director.deployments.deleteDeployment({ deployment: "web", wait: true });
    expect(await get("i-0123")).to.deep.equal({ code: 404, body: { status: "not_found" } });
    expect((await get("vm-x")).code).to.equal(200, "another VM's stay");
    expect((await call("DELETE", "/instances/vm-x/settings")).body).to.deep.equal({ status: "ok" });
    expect((await get("vm-x")).code).to.equal(404);
  });

  it("silent connections -> limited in number and closed by a timeout, and then others are served", async () => {
    director.cpi.apiVersions.set("", 1);
    await deploy(manifest(1));
    const sockets = Array.from({ length: 40 }, () =>
      connect(port, "127.0.0.1")
        .on("error", () => {})
        .resume(),
    );
    await Promise.all(sockets.map((socket) => once(socket, "close")));
    expect((await get("nobody")).code).to.equal(404);
  });

  it("a stemcell of version 1 with a CPI of version 2 -> the bosh-registry is used", async () => {
    expect((await director.upload(stemcellFile({ version: "1", api_version: null }))).state).to.equal(TaskState.DONE);
    await deploy(manifest(1, ", stemcell: old"));
    expect(await instance()).to.include({ usesRegistry: true, cpiApiVersion: 2, stemcellApiVersion: 1 });
  });

  it("the director restarts -> stored settings are served", async () => {
    director.cpi.apiVersions.set("", 1);
    await deploy(manifest(1));
    await put("kept", { agent_id: "a" });
    await director.process.kill();
    await director.process.start();
    expect((await get("kept")).code).to.equal(200);
    // The CPI now answers API version 2. Existing VMs keep the registry; only new VMs do without.
    director.cpi.apiVersions.set("", 2);
    await deploy(manifest(2));
    const { instances } = await director.deployments.listInstances({ deployment: "web" });
    expect(instances.map((each) => each.usesRegistry)).to.deep.equal([true, false]);
    await deploy(manifest(0));
    await call("DELETE", "/instances/kept/settings");
  });

  it("the CPI switches to version 2 -> VMs and disks stay; disks then move by hints, and new VMs do without the bosh-registry", async () => {
    const disk = async () => {
      const all = { deployment: "web" };
      const { disks } = await director.deployments.listPersistentDisks(all);
      return disks.find((each) => each.orphanTime === undefined);
    };
    director.cpi.apiVersions.set("", 1);
    await deploy(manifest(1, ", persistent_disk: 64"));
    const [before, disk1] = [await instance(), await disk()];
    await put("settings-of-v1", { agent_id: director.cpi.vms.get(before?.vmCid ?? "")?.request.agentId });
    director.cpi.apiVersions.set("", 2);
    director.cpi.calls.length = 0;
    director.agent("host-1").calls.length = 0;
    await deploy(manifest(1, ", persistent_disk: 64"));
    expect([await instance(), await disk()]).to.deep.equal([before, disk1]);
    expect([director.cpi.calls, director.agent("host-1").calls]).to.deep.equal([[], []]);
    await deploy(manifest(1, ", persistent_disk: 128"));
    const cid = disk1?.diskCid ?? "";
    expect(director.agent("host-1").calls.slice(-2)).to.deep.equal([`add_persistent ${cid}`, `mount ${cid}`]);
    expect(await instance()).to.deep.equal(before);
    expect((await get("settings-of-v1")).code).to.equal(200, "the VM reads them still");
    await deploy(manifest(1, ", persistent_disk: 128, env: {anew: true}"));
    const now = await instance();
    expect(now).to.include({ usesRegistry: false, cpiApiVersion: 2, instanceId: before?.instanceId });
    expect(director.cpi.vms.get(now?.vmCid ?? "")?.request.env).to.have.nested.property("bosh.ntp");
    expect(await disk()).to.include({ diskCid: cid, vmCid: now?.vmCid, state: PersistentDiskState.MOUNTED });
    expect((await get("settings-of-v1")).code).to.equal(404);
  });

  describe("the bosh-registry's HTTP API", () => {
    before(async () => {
      director.cpi.apiVersions.set("", 1);
      await deploy(manifest(1));
      await put("mine", { agent_id: "a", networks: { n: { ip: "127.0.0.1" } }, secret: CANARY });
      await put("other", { agent_id: "b", networks: { n: { ip: "10.9.9.9" } }, secret: CANARY });
    });

    const OBJECT = JSON.stringify({ agent_id: "c" });
    const ROWS: [string, () => Promise<Reply>, number, string, RegExp?][] = [
      ["GET with credentials", () => get("other"), 200, "ok"],
      ["GET without, from the VM's own address", () => get("mine", ""), 200, "ok"],
      ["GET without, from elsewhere", () => get("other", ""), 401, "access_denied"],
      ["GET with wrong credentials", () => get("mine", "Basic eDp5"), 401, "access_denied"],
      ["GET of unknown settings, with credentials", () => get("nobody"), 404, "not_found"],
      ["GET of unknown settings, without credentials", () => get("nobody", ""), 401, "access_denied"],
      [
        "PUT without credentials",
        () => call("PUT", "/instances/mine/settings", { auth: "", body: "{}" }),
        401,
        "access_denied",
      ],
      [
        "DELETE without credentials",
        () => call("DELETE", "/instances/mine/settings", { auth: "" }),
        401,
        "access_denied",
      ],
      [
        "PUT of a text that is no JSON",
        () => call("PUT", "/instances/new/settings", { body: "{" }),
        400,
        "error",
        /not JSON/,
      ],
      [
        "PUT of very deep nesting",
        () => call("PUT", "/instances/new/settings", { body: `{"a":${"[".repeat(500)}${"]".repeat(500)}}` }),
        400,
        "error",
        /nested more than 40 deep/,
      ],
      [
        "PUT of a list",
        () => call("PUT", "/instances/new/settings", { body: "[]" }),
        400,
        "error",
        /not a JSON object/,
      ],
      [
        "PUT above the limit",
        () => put("new", { text: "x".repeat(300_000) }),
        413,
        "error",
        /exceed the limit of 2000 bytes/,
      ],
      ["PUT of a third", () => call("PUT", "/instances/a%20b/settings", { body: OBJECT }), 200, "ok"],
      [
        "PUT beyond the limit of instances",
        () => call("PUT", "/instances/fourth/settings", { body: OBJECT }),
        507,
        "error",
        /of 3 instances, its limit/,
      ],
      ["another method", () => call("POST", "/instances/mine/settings"), 404, "not_found"],
      ["another path", () => call("GET", "/instances/mine"), 404, "not_found"],
      ["a path that is no text", () => call("GET", "/instances/%ff/settings"), 404, "not_found"],
    ];
    for (const [cause, start, code, status, message] of ROWS) {
      it(`${cause} -> ${code} ${status}`, async () => {
        const reply = await start();
        expect([reply.code, reply.body.status]).to.deep.equal([code, status]);
        if (message === undefined) expect(reply.body.message).to.equal(undefined);
        else expect(reply.body.message).to.match(message);
      });
    }

    it("any id and any settings -> stored and served as they are, or refused", async () => {
      const id = fc.oneof(fc.constantFrom("..", "a/b", "%", "a\0b", "__proto__"), fc.string({ maxLength: 260 }));
      const settings = fc.oneof(
        fc.json({ maxDepth: 8 }),
        fc.dictionary(fc.string(), fc.jsonValue()).map(asJson),
        fc.string(),
      );
      await call("DELETE", "/instances/a%20b/settings");
      await fc.assert(
        fc.asyncProperty(id, settings, async (name, body) => {
          const path = `/instances/${encodeURIComponent(name)}/settings`;
          const stored = await call("PUT", path, { body });
          const served = await call("GET", path);
          if (stored.code === 200) expect(served.body.settings).to.equal(body);
          else expect([400, 404, 413]).to.include(stored.code);
          if (stored.code === 200) expect((await call("DELETE", path)).code).to.equal(200);
        }),
        { numRuns: 100 },
      );
    });

    it("each PUT and DELETE -> a log line with the instance and without the settings", async () => {
      const lines = () =>
        director.process.logs.split("\n").filter((line) => /"audit":"call".*"instance":"other"/.test(line));
      const before = lines().length;
      await call("DELETE", "/instances/other/settings");
      await put("other", { agent_id: "b", secret: CANARY });
      await eventually(() => expect(lines()).to.have.length(before + 2));
      for (const [index, method] of ["DELETE", "PUT"].entries()) {
        const line = JSON.parse(lines()[before + index] ?? "") as Readonly<Record<string, unknown>>;
        expect(line).to.include({ method, code: 200, remoteAddress: "127.0.0.1" });
        expect(JSON.stringify(line)).to.not.contain(CANARY);
      }
    });

    it("a refused request -> a log line with the reason, and no error line", async () => {
      await eventually(() => expect(director.process.logs).to.match(/"code":507.*"bosh-registry request refused"/));
      expect(director.process.logs).to.not.contain('"level":"error"');
    });

    it("a refused login -> a log line with address and reason; repeated guesses delay the correct login, too", async () => {
      const lines = () => director.process.logs.split("\n").filter((line) => line.includes('"audit":"refused"'));
      const wrong = `Basic ${Buffer.from(`admin:${WRONG_PASSWORD}`).toString("base64")}`;
      await eventually(async () => {
        await get("mine", wrong);
        expect((await get("mine")).code, "nobody learns whether a guess was right").to.equal(429);
      });
      await eventually(async () => expect((await get("mine")).code).to.equal(200));
      await eventually(() => {
        const told = lines().map((line) => JSON.parse(line) as Readonly<Record<string, unknown>>);
        const by = (code: number, error: string) => told.filter((each) => each.code === code && each.error === error);
        expect(by(401, "the name or the password is wrong")).not.to.be.empty;
        const [late] = by(429, "too many logins from this address failed: wait, then try again");
        expect(late).to.include({ method: "GET", instance: "mine", remoteAddress: "127.0.0.1", level: "warn" });
      });
      expect(director.process.logs).to.not.contain(WRONG_PASSWORD).and.not.contain(wrong.split(" ")[1]);
    });

    it("after all that -> the director's logs contain no secret", async () => {
      await eventually(async () => director.process.logs.includes("bosh-registry server started"));
      expect(director.process.logs).to.not.contain(CANARY).and.not.contain(PASSWORD);
    });
  });
});
