import { createHash } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { stemcellFile } from "@diskmesh/testkit";
import { expect } from "chai";
import type { FollowedTask, HttpAnswer, HttpClient, HttpRequest } from "../testing/http-client.js";
import { type HttpDirector, startHttpDirector } from "../testing/http-director.js";
import { CLOUD_CONFIG } from "../testing/test-director.js";

const YAML = { "content-type": "text/yaml" };
const JSON_TYPE = { "content-type": "application/json" };
const TGZ = { "content-type": "application/x-compressed" };

/** As the CLI writes it: keys in order, with what a deploy of BOSH's own director needs. */
const MANIFEST = `instance_groups:
- azs:
  - z1
  env:
    password: canary-in-env
  instances: 2
  jobs: []
  name: web
name: dep
releases: []
stemcells: []
update:
  canaries: 1
  canary_watch_time: 1000-60000
  max_in_flight: 1
  update_watch_time: 1000-60000
`;
const CPI_CONFIG = `cpis:
- exec_path: /bin/true
  name: proc
  properties:
    password: canary-in-cpi-config
  type: proc
`;

type ConfigObject = { readonly [name: string]: unknown; readonly id: string; readonly content: string };

/** Each command's requests in the order, and with the headers, in which the stock CLI was seen to send them. */
describe("the requests of the bosh CLI", () => {
  let mesh: HttpDirector;
  let http: HttpClient;

  before(async () => {
    mesh = await startHttpDirector({}, { stemcells: { allowPrivateAddresses: true } });
    ({ http } = mesh);
  });
  after(() => mesh?.director.stop());

  /** Before each command the CLI asks who is there, without saying who asks. */
  async function command<T>(requests: () => Promise<T>): Promise<T> {
    expect((await http.send("GET", "/info", { login: "" })).status).to.equal(200);
    return requests();
  }

  const posted = (path: string, value: object): Promise<HttpAnswer> =>
    http.send("POST", path, { headers: JSON_TYPE, body: JSON.stringify(value) });
  const parsed = <T>(answer: HttpAnswer): T => JSON.parse(answer.body) as T;

  async function updateConfig(type: string, name: string, content: string): Promise<ConfigObject> {
    const diff = parsed<{ from: { id: string }; diff: unknown[] }>(
      await posted("/configs/diff", { type, name, content }),
    );
    expect(diff.from.id).to.be.a("string");
    const answer = await posted("/configs", { type, name, content, expected_latest_id: diff.from.id });
    expect(answer.status).to.equal(201);
    return parsed<ConfigObject>(answer);
  }

  it("update-config, update-cloud-config -> versions with ids that are texts, and a diff without what is the same", () =>
    command(async () => {
      const first = await updateConfig("cloud", "default", CLOUD_CONFIG);
      expect(first).to.include({ type: "cloud", name: "default", team: null, current: true, content: CLOUD_CONFIG });
      expect(first.created_at).to.match(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$/);
      expect((await updateConfig("cloud", "default", CLOUD_CONFIG)).id).to.equal(first.id);
      const changed = CLOUD_CONFIG.replace("z2", "z3");
      const diff = await http.send("POST", "/cloud_configs/diff?name=", { headers: YAML, body: changed });
      expect(parsed<{ diff: unknown[] }>(diff).diff).to.deep.include.members([
        ["  - name: z2", "removed"],
        ["  - name: z3", "added"],
      ]);
      expect(await http.send("POST", "/cloud_configs?name=", { headers: YAML, body: changed })).to.include({
        status: 201,
        body: "",
      });
      const stale = { type: "cloud", name: "default", content: CLOUD_CONFIG, expected_latest_id: first.id };
      const refused = await posted("/configs", stale);
      expect(refused.status).to.equal(412);
      expect(parsed(refused)).to.include({ expected_latest_id: first.id });
      expect((await http.send("POST", "/cloud_configs?name=", { headers: YAML, body: CLOUD_CONFIG })).status).to.equal(
        201,
      );
    }));

  it("configs, config, config ID, cloud-config -> the latest ones; of type deploy none", () =>
    command(async () => {
      const [config] = (await http.json("/configs?latest=true&limit=1&name=default&type=cloud")) as ConfigObject[];
      expect(config?.content).to.equal(CLOUD_CONFIG);
      expect(await http.json("/configs?latest=true&limit=1")).to.have.length(1);
      expect(await http.json("/configs?latest=false&limit=2&type=cloud")).to.have.length(2);
      expect(await http.json("/configs?latest=true&limit=1&type=deploy")).to.deep.equal([]);
      expect(await http.json(`/configs/${config?.id}`)).to.deep.equal(config);
      expect((await http.send("GET", "/configs/999")).status).to.equal(404);
      const [legacy] = (await http.json("/cloud_configs?limit=1&name=")) as {
        properties: string;
        created_at: string;
      }[];
      expect(legacy?.properties).to.equal(CLOUD_CONFIG);
      expect(await http.json("/runtime_configs?limit=1&name=")).to.deep.equal([]);
    }));

  it("configs of CPIs -> secrets in no diff, and for administrators alone; delete-config", () =>
    command(async () => {
      const diff = await posted("/configs/diff", { type: "cpi", name: "proc", content: CPI_CONFIG });
      expect(diff.body).to.contain("<redacted>").and.not.to.contain("canary-in-cpi-config");
      await updateConfig("cpi", "proc", CPI_CONFIG);
      const path = "/configs?latest=true&limit=1&name=proc&type=cpi";
      expect(((await http.json(path)) as ConfigObject[])[0]?.content).to.equal(CPI_CONFIG);
      const reader = mesh.as("reader");
      expect((await reader.send("GET", path)).body)
        .to.contain("<redacted>")
        .and.not.to.contain("canary-in");
      expect((await reader.send("GET", "/cpi_configs?limit=1")).status).to.equal(401);
      expect((await http.send("DELETE", "/configs?name=proc&type=cpi")).status).to.equal(204);
      const again = await http.send("DELETE", "/configs?name=proc&type=cpi");
      expect(again.status).to.equal(404);
      expect(parsed(again)).to.include({ code: 440_012 });
    }));

  it("config of a type of one's own, delete-config ID, diff-config -> kept; the version before holds again", () =>
    command(async () => {
      const first = await updateConfig("mine", "x", "a: 1\n");
      const second = await updateConfig("mine", "x", "a: 2\n");
      const diff = async (from: object, to: object) =>
        parsed<{ diff: unknown[] }>(await posted("/configs/diff", { from, to })).diff;
      const changed = [
        ["a: 1", "removed"],
        ["a: 2", "added"],
      ];
      expect(await diff({ id: first.id, content: "" }, { id: second.id, content: "" })).to.deep.equal(changed);
      expect(await diff({ id: "", content: "a: 1" }, { id: second.id, content: "" })).to.deep.equal(changed);
      expect(await diff({ id: "", content: "a: 1" }, { id: "", content: "a: 2" })).to.deep.equal(changed);
      expect(await diff({ id: first.id, content: "" }, { id: first.id, content: "" })).to.deep.equal([]);
      for (const odd of [{}, { id: "x" }, { content: "[" }, { content: "- 1" }, { id: "999" }])
        expect((await posted("/configs/diff", { from: { id: first.id }, to: odd })).status).to.be.oneOf([400, 404]);
      const path = "/configs?latest=true&limit=1&name=x&type=mine";
      expect((await http.send("DELETE", `/configs/${second.id}`)).status).to.equal(204);
      expect(await http.json(path)).to.deep.equal([{ ...first, current: true }]);
      const again = await http.send("DELETE", `/configs/${second.id}`);
      expect([again.status, parsed<{ code: number }>(again).code]).to.deep.equal([404, 440_012]);
      expect((await http.send("DELETE", `/configs/${first.id}`)).status).to.equal(204);
      expect(await http.json(path)).to.deep.equal([]);
    }));

  it("delete-config ID of the latest cloud config -> the one before it is heeded again", () =>
    command(async () => {
      const more = CLOUD_CONFIG.replace("z2", "z9");
      const { id } = await updateConfig("cloud", "default", more);
      expect((await http.send("DELETE", `/configs/${id}`)).status).to.equal(204);
      const diff = await http.send("POST", "/cloud_configs/diff?name=", { headers: YAML, body: more });
      expect(parsed<{ diff: unknown[] }>(diff).diff).to.deep.include.members([["  - name: z9", "added"]]);
    }));

  it("a config that is none, or of a type that is not heeded here -> an error that says so", () =>
    command(async () => {
      const bad = await posted("/configs", { type: "cloud", name: "default", content: "azs: 7" });
      expect(bad.status).to.equal(400);
      expect(parsed(bad)).to.include({ code: 440_010 });
      expect(
        (await http.send("POST", "/runtime_configs?name=", { headers: YAML, body: "addons: []" })).status,
      ).to.equal(501);
      expect((await posted("/configs", { type: "resurrection", name: "x", content: "a: 1" })).status).to.equal(501);
    }));

  const upload = (path: string, body: Buffer): Promise<FollowedTask> => http.task("POST", path, { headers: TGZ, body });

  it("upload-stemcell, stemcells, delete-stemcell -> needed only once", () =>
    command(async () => {
      const needed = async () =>
        parsed<{ needed: boolean }>(await posted("/stemcell_uploads", { stemcell: { name: "toy", version: "1.5" } }))
          .needed;
      expect(await needed()).to.equal(true);
      const file = await stemcellFile({ name: "toy", version: "1.5" });
      const { task, result } = await upload("/stemcells", file);
      expect(task).to.include({ state: "done", user: "admin" });
      expect(result).to.equal("/stemcells/toy/1.5\n");
      expect(await needed()).to.equal(false);
      // So it asks when it was given an address alone.
      expect(parsed(await posted("/stemcell_uploads", { stemcell: { name: "", version: "" } }))).to.deep.equal({
        needed: true,
      });
      expect((await upload("/stemcells?fix=true", file)).task.state).to.equal("done");
      const [stemcell] = (await http.json("/stemcells")) as object[];
      expect(stemcell).to.include({ name: "toy", version: "1.5", cpi: "" });
      expect((await http.task("DELETE", "/stemcells/toy/1.5")).task.state).to.equal("done");
      const gone = await http.send("DELETE", "/stemcells/toy/1.5");
      expect([gone.status, parsed<{ code: number }>(gone).code]).to.deep.equal([404, 50_003]);
    }));

  it("upload-stemcell URL -> got from there, if it is what the digest says", async () => {
    const file = await stemcellFile({ name: "far", version: "2" });
    const server = createServer((_request, response) => response.end(file));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const location = `http://127.0.0.1:${(server.address() as AddressInfo).port}/far.tgz?signature=canary-in-url`;
    const fetched = (fields: object) =>
      http.task("POST", "/stemcells", { headers: JSON_TYPE, body: JSON.stringify({ location, ...fields }) });
    try {
      const damaged = await fetched({ sha1: "0".repeat(40) });
      expect(damaged.task).to.include({ state: "error" });
      expect(damaged.task.result).to.match(/has the sha1 .*, not 0{40}/);
      expect(await http.json("/stemcells")).to.deep.equal([]);
      const { task, result, events } = await fetched({ sha1: createHash("sha1").update(file).digest("hex") });
      expect([task.state, result]).to.deep.equal(["done", "/stemcells/far/2\n"]);
      expect(JSON.stringify([task, events])).not.to.contain("canary-in-url");
      expect(events[0]).to.include({ stage: "Update stemcell", task: "Downloading remote stemcell" });
      expect((await http.json("/stemcells")) as object[]).to.have.length(1);
    } finally {
      server.close();
    }
    expect((await fetched({})).task.result).to.match(/cannot be got from 127.0.0.1/);
    for (const odd of [{}, { location: "file:///x" }, { location, sha1: "x" }, "[", "x".repeat(70_000)]) {
      const body = typeof odd === "string" ? odd : JSON.stringify(odd);
      expect((await http.send("POST", "/stemcells", { headers: JSON_TYPE, body })).status).to.equal(400);
    }
    expect((await http.task("DELETE", "/stemcells/far/2")).task.state).to.equal("done");
  });

  it("upload-stemcell of what is none -> 400, and the next one works", () =>
    command(async () => {
      for (const body of ["", "no tgz"]) {
        const answer = await http.send("POST", "/stemcells", { headers: TGZ, body });
        expect(answer.status).to.equal(400);
      }
      const reader = mesh.as("reader");
      expect((await reader.send("POST", "/stemcells", { headers: TGZ, body: Buffer.alloc(1_000) })).status).to.equal(
        401,
      );
    }));

  async function deploy(manifest: string, options = ""): Promise<FollowedTask> {
    expect(await http.json("/configs?latest=true&limit=1&type=deploy")).to.deep.equal([]);
    const diff = await http.send("POST", "/deployments/dep/diff?redact=true", { headers: YAML, body: manifest });
    const { context } = parsed<{ context: object }>(diff);
    const query = `${options}context=${encodeURIComponent(JSON.stringify(context))}`;
    return http.task("POST", `/deployments?${query}`, { headers: YAML, body: manifest });
  }

  it("deploy -> the diff, redacted, then the task; deployments, deployment, manifest", () =>
    command(async () => {
      const shown = await http.send("POST", "/deployments/dep/diff?redact=true", { headers: YAML, body: MANIFEST });
      expect(shown.status).to.equal(200);
      expect(shown.body)
        .to.contain('["name: dep","added"]')
        .and.contain("<redacted>")
        .and.not.to.contain("canary-in-env");
      const { task, result, events } = await deploy(MANIFEST);
      expect([task.state, result]).to.deep.equal(["done", "/deployments/dep\n"]);
      expect(events.length).to.be.above(1);
      const [deployment] = (await http.json("/deployments?exclude_configs=true")) as object[];
      expect(deployment).to.deep.include({ name: "dep", teams: [], releases: [], stemcells: [], locked: false });
      const configs = (await http.json("/deployment_configs?deployment[]=dep")) as { config: object }[];
      expect(configs.map(({ config }) => config)).to.have.length(1);
      expect(await http.json("/deployments/dep")).to.deep.equal({ manifest: MANIFEST });
      const more = await http.send("POST", "/deployments/dep/diff?redact=true", {
        headers: YAML,
        body: MANIFEST.replace("instances: 2", "instances: 1"),
      });
      expect(parsed<{ diff: unknown[] }>(more).diff).to.deep.include.members([
        ["    instances: 2", "removed"],
        ["    instances: 1", "added"],
      ]);
    }));

  it("vms, instances -> a line of JSON for each, with what its agent says; one that is away is told as such", () =>
    command(async () => {
      await mesh.director.agent("host-2").stop();
      try {
        for (const what of ["vms", "instances"]) {
          const { task, result } = await http.task("GET", `/deployments/dep/${what}?format=full`);
          expect(task).to.include({ state: "done", description: "retrieve vm-stats" });
          const lines = result
            .trimEnd()
            .split("\n")
            .map((line) => JSON.parse(line) as Record<string, unknown>);
          expect(lines.map(({ job_name, index, job_state }) => [job_name, index, job_state])).to.deep.equal([
            ["web", 0, "running"],
            ["web", 1, "unresponsive agent"],
          ]);
          expect(lines[0]).to.deep.include({ active: true, az: "z1", state: "started", processes: [], stemcell: null });
        }
      } finally {
        await mesh.director.agent("host-2").start();
      }
      const [vm] = (await http.json("/deployments/dep/vms")) as object[];
      expect(vm).to.include({ job: "web", index: 0, active: true });
      expect(await http.json("/deployments/dep/instances")).to.have.length(2);
      for (const what of ["vms", "vms?format=full", "instances?format=full"])
        expect((await http.send("GET", `/deployments/none/${what}`)).status).to.equal(404);
    }));

  it("stop, start, restart, recreate of all, a group or an instance, and ignore -> tasks, and the state told", () =>
    command(async () => {
      const put = (path: string, query: string) =>
        http.task("PUT", `/deployments/dep/jobs/${path}?${query}`, { headers: YAML });
      const states = async () =>
        (await http.task("GET", "/deployments/dep/instances?format=full")).result
          .trimEnd()
          .split("\n")
          .map((line) => JSON.parse(line) as Record<string, unknown>);
      expect((await put("*", "state=stopped")).task.state).to.equal("done");
      expect((await states()).map(({ state }) => state)).to.deep.equal(["stopped", "stopped"]);
      expect((await put("web", "state=started&canaries=1&max_in_flight=50%25")).task.state).to.equal("done");
      const [first] = await states();
      expect(first?.state).to.equal("started");
      expect((await put("web/0", "state=restart&skip_drain=true")).task.state).to.equal("done");
      const one = `/deployments/dep/instance_groups/web/${first?.id}`;
      expect(
        (await http.task("POST", `${one}/actions/stop?hard=true&skip_drain=true`, { headers: YAML })).task.state,
      ).to.equal("done");
      expect((await states())[0]).to.include({ state: "detached", vm_cid: null });
      expect((await http.task("POST", `${one}/actions/start`, { headers: YAML })).task.state).to.equal("done");
      for (const ignored of [true, false]) {
        const body = JSON.stringify({ ignore: ignored });
        expect((await http.send("PUT", `${one}/ignore`, { headers: JSON_TYPE, body })).status).to.equal(200);
        expect((await states())[0]).to.include({ ignore: ignored, state: "started" });
      }
      for (const query of ["state=odd", "", "state=constructor"])
        expect((await http.send("PUT", `/deployments/dep/jobs/*?${query}`)).status).to.equal(400);
      const dryRun = await put("*", "state=stopped&dry_run=true&skip_drain=web%2Cdb");
      expect(dryRun.events.map(({ task }) => task)).to.include(`web/${first?.id} would be stopped`);
      expect((await states()).map(({ state }) => state)).to.deep.equal(["started", "started"]);
      expect((await http.send("PUT", "/deployments/none/jobs/*?state=stopped")).status).to.equal(404);
      expect((await mesh.as("reader").send("PUT", "/deployments/dep/jobs/*?state=stopped")).status).to.equal(401);
    }));

  it("deploy of what has changed since the diff, is no manifest, or with ways that are not offered -> refused", () =>
    command(async () => {
      const send = (query: string, body = MANIFEST) =>
        http.send("POST", `/deployments?${query}`, { headers: YAML, body });
      expect((await send(`context=${encodeURIComponent('{"cloud_config_ids":[99]}')}`)).status).to.equal(409);
      expect((await send("recreate_persistent_disks=true")).status).to.equal(501);
      const fewer = MANIFEST.replace("instances: 2", "instances: 1");
      const { task, events } = await http.task("POST", "/deployments?dry_run=true", { headers: YAML, body: fewer });
      expect([task.state, task.description]).to.deep.equal(["done", "create deployment `dep` (dry run)"]);
      expect(events.filter(({ task: told }) => / would be deleted$/.test(String(told)))).to.have.length(2);
      expect(await http.json("/deployments/dep/instances")).to.have.length(2);
      const bad = await send("", "name: [");
      expect([bad.status, parsed<{ code: number }>(bad).code]).to.deep.equal([400, 440_001]);
      const diff = await http.send("POST", "/deployments/dep/diff?redact=true", { headers: YAML, body: "name: [" });
      expect(diff.status).to.equal(200);
      expect(parsed<{ error: string }>(diff).error).to.be.a("string");
      const none = await http.send("GET", "/deployments/none");
      expect(parsed(none)).to.deep.equal({ code: 70_000, description: "Deployment 'none' doesn't exist" });
    }));

  it("lists of what there is none of, and what is not done here -> empty, and an error in BOSH's shape", () =>
    command(async () => {
      for (const path of [
        "/releases",
        "/locks",
        "/orphaned_vms",
        "/networks?orphaned=true",
        "/deployments/dep/variables",
        "/deployments/dep/errands",
        "/deployments/dep/snapshots",
      ])
        expect(await http.json(path)).to.deep.equal([]);
      const refused: [string, string, HttpRequest][] = [
        ["POST", "/deployments/dep/errands/web/runs", { headers: JSON_TYPE, body: '{"instances":[]}' }],
        ["POST", "/releases", { headers: TGZ, body: "x" }],
      ];
      for (const [method, path, request] of refused) {
        const answer = await http.send(method, path, request);
        expect(answer.status).to.equal(501);
        expect(parsed(answer)).to.have.keys("code", "description");
      }
    }));

  it("tasks, task, cancel-task, cancel-tasks", () =>
    command(async () => {
      const recent = (await http.json("/tasks?limit=30&verbose=1")) as { id: number; description: string }[];
      expect(recent.map(({ description }) => description)).to.include("create deployment `dep`");
      const id = recent[0]?.id;
      for (const type of ["event", "result", "debug", "cpi"]) {
        const { status } = await http.send("GET", `/tasks/${id}/output?type=${type}`, {
          headers: { range: "bytes=0-" },
        });
        expect([206, 416]).to.include(status);
      }
      expect((await http.send("DELETE", `/task/${id}`)).status).to.equal(400);
      expect((await http.send("POST", "/tasks/cancel", { headers: JSON_TYPE, body: "{}" })).status).to.equal(204);
    }));

  it("a reader -> sees all that, and changes none of it", () =>
    command(async () => {
      const reader = mesh.as("reader");
      for (const path of ["/configs", "/deployments", "/deployments/dep", "/stemcells", "/locks", "/tasks"])
        expect((await reader.send("GET", path)).status).to.equal(200);
      for (const [method, path] of [
        ["POST", "/configs"],
        ["POST", "/configs/diff"],
        ["POST", "/cloud_configs"],
        ["DELETE", "/configs?type=cloud&name=default"],
        ["POST", "/deployments"],
        ["POST", "/deployments/dep/diff"],
        ["DELETE", "/deployments/dep"],
        ["POST", "/stemcells"],
        ["DELETE", "/stemcells/a/1"],
        ["POST", "/tasks/cancel"],
        ["POST", "/releases"],
      ] as const)
        expect((await reader.send(method, path, { body: "{}" })).status).to.equal(401);
      for (const path of ["/configs", "/deployments", "/stemcells", "/locks", "/tasks"])
        expect((await mesh.as("nobody").send("GET", path)).status).to.equal(401);
    }));

  it("delete-deployment -> the task, twice", () =>
    command(async () => {
      expect((await http.task("DELETE", "/deployments/dep")).task.state).to.equal("done");
      expect(await http.json("/deployments")).to.deep.equal([]);
      expect((await http.task("DELETE", "/deployments/dep")).task.state).to.equal("done");
    }));
});
