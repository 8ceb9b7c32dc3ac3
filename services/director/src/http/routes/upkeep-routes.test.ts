import { InvalidStateError } from "@diskmesh/domain";
import { stemcellFile } from "@diskmesh/testkit";
import { expect } from "chai";
import type { HttpClient } from "../../testing/http-client.js";
import { type HttpDirector, startHttpDirector } from "../../testing/http-director.js";
import { CLOUD_CONFIG } from "../../testing/test-director.js";

const WITH_DISKS = `name: web
instance_groups:
- {name: db, instances: 1, azs: [z1], persistent_disk: 100}
`;

type Listed = Readonly<Record<string, unknown>>;

/** route-table.test.ts checks the statuses and errors of each route, route-scopes.test.ts who may call it. */
describe("operators' actions over HTTPS", () => {
  let mesh: HttpDirector;
  let http: HttpClient;
  let instanceId: string;

  before(async () => {
    mesh = await startHttpDirector();
    ({ http } = mesh);
    await mesh.director.configs.updateConfig({ type: "cloud", content: CLOUD_CONFIG });
    mesh.director.cpi.diskUnitMib = 100.5;
    expect((await http.task("POST", "/deployments", { body: WITH_DISKS })).task.state).to.equal("done");
    const [instance] = (await http.json("/deployments/web/instances")) as Listed[];
    instanceId = String(instance?.id);
  });
  after(() => mesh?.director.stop());

  it("take-snapshot repeated while it runs -> the same task, and one snapshot", async () => {
    const path = "/deployments/web/snapshots";
    const gate = mesh.director.cpi.gate("snapshotDisk", "before");
    const first = await http.send("POST", path);
    await gate.reached;
    expect((await http.send("POST", path)).headers.location).to.equal(first.headers.location);
    // A request for another object starts another task.
    const ofInstance = await http.send("POST", "/deployments/web/jobs/db/0/snapshots");
    expect(ofInstance.headers.location).not.to.equal(first.headers.location);
    gate.release();
    const ids = [first, ofInstance].map(({ headers }) => Number(headers.location?.split("/").at(-1)));
    for (const id of ids) await mesh.director.ended(id);
    expect(await http.json(path)).to.have.length(2);
    const later = await http.task("POST", path);
    expect(ids).not.to.include(later.task.id);
    expect((await http.task("DELETE", path)).task.state).to.equal("done");
  });

  it("deployments, deployment -> show their cloud configs and whether newer ones exist", async () => {
    const state = async () => ((await http.json("/deployments")) as Listed[])[0]?.cloud_config;
    const used = async () =>
      ((await http.json("/deployment_configs?deployment[]=web&deployment[]=none")) as Listed[]).map(({ id }) => id);
    const [before] = await used();
    expect(await state()).to.equal("latest");
    const newer = `${CLOUD_CONFIG}\n# newer\n`;
    const { config } = await mesh.director.configs.updateConfig({ type: "cloud", content: newer });
    expect([await state(), await used()]).to.deep.equal(["outdated", [before]]);
    expect((await http.task("POST", "/deployments", { body: WITH_DISKS })).task.state).to.equal("done");
    expect([await state(), await used()]).to.deep.equal(["latest", [config?.configId]]);
  });

  it("cloud-check --auto -> the director chooses the resolutions, and reports the problems", async () => {
    const [vm] = (await http.json("/deployments/web/vms")) as Listed[];
    const { vms, disks } = mesh.director.cpi;
    vms.delete(String(vm?.cid));
    for (const disk of disks.values()) if (disk.vmCid === vm?.cid) disk.vmCid = "";
    const { events } = await http.task("POST", "/deployments/web/scans");
    const found = events.filter(({ stage }) => stage === "Problem found");
    expect(found.map(({ state }) => state)).to.deep.equal(["started", "finished"]);
    expect(found[0]?.task).to.match(/^missing_vm: vm `.*` of db\/.* is gone/);
    const [problem] = (await http.json("/deployments/web/problems")) as Listed[];
    const body = JSON.stringify({ resolutions: { [String(problem?.id)]: null } });
    expect((await http.task("PUT", "/deployments/web/problems", { body })).task.state).to.equal("done");
    expect((await http.json("/deployments/web/vms")) as Listed[]).to.have.length(1);
  });

  it("events -> newest first, by filters, and before an event", async () => {
    const events = (await http.json("/events")) as Listed[];
    const ids = events.map(({ id }) => Number(id));
    expect(events[0]?.id).to.be.a("string");
    expect(ids).to.deep.equal([...ids].sort((a, b) => b - a));
    const older = (await http.json(`/events?before_id=${ids[0]}&deployment=web`)) as Listed[];
    expect(older.length).to.be.within(1, events.length - 1);
    expect(older.every(({ deployment }) => deployment === "web")).to.equal(true);
    expect(await http.json("/events?user=nobody")).to.deep.equal([]);
    expect(await http.json("/events?after_time=4000000000")).to.deep.equal([]);
    await http.task("GET", "/deployments/web/vms?format=full");
    expect((await http.json("/events?action=retrieve_vm_stats")) as Listed[]).to.deep.equal([]);
    expect(await http.json(`/events/${ids[1]}`)).to.deep.equal(events[1]);
    for (const id of ["0", "x"]) expect((await http.send("GET", `/events/${id}`)).status).to.equal(404);
  });

  it("clean-up, --all, --dry-run -> reports its deletions and deletes nothing else; repeated -> nothing", async () => {
    const upload = async (version: string) => {
      const body = await stemcellFile({ name: "toy", version });
      const headers = { "content-type": "application/x-compressed" };
      expect((await http.task("POST", "/stemcells", { headers, body })).task.state).to.equal("done");
    };
    for (const version of ["1.9", "1.10", "1.2"]) await upload(version);
    const left = async () => ((await http.json("/stemcells")) as Listed[]).map(({ version }) => version);
    const cleaned = async (config: object) => {
      const { task, result } = await http.task("POST", "/cleanup", { body: JSON.stringify({ config }) });
      expect([task.state, result]).to.deep.equal(["done", "nothing is left to clean up\n"]);
      return task.description;
    };
    const surplus = async (query = "") => {
      const found = (await http.json(`/cleanup/dryrun?${query}`)) as { stemcells: Listed[]; orphaned_disks: Listed[] };
      return [found.stemcells.map(({ version }) => version), found.orphaned_disks.length];
    };
    expect(await surplus()).to.deep.equal([["1.2"], 0]);
    expect(await surplus("remove_all=true")).to.deep.equal([["1.2", "1.9", "1.10"], 0]);
    expect(await cleaned({ remove_all: false, keep_orphaned_disks: false })).to.equal("clean up");
    expect(await left()).to.have.members(["1.9", "1.10"]);
    expect(await cleaned({ remove_all: false })).to.equal("clean up");
    expect(await left()).to.have.members(["1.9", "1.10"]);
    expect(await cleaned({ remove_all: true })).to.equal("clean up all");
    expect(await left()).to.deep.equal([]);
  });

  it("clean-up continues after failed deletions, and names all of them at the end", async () => {
    for (const version of ["1", "2", "3"]) {
      const body = await stemcellFile({ name: "stuck", version });
      const headers = { "content-type": "application/x-compressed" };
      expect((await http.task("POST", "/stemcells", { headers, body })).task.state).to.equal("done");
    }
    const { cpi } = mesh.director;
    for (const why of ["the moon is full", "the sun is down"])
      cpi.failNext("deleteStemcell", new InvalidStateError(why));
    const body = JSON.stringify({ config: { remove_all: true } });
    const { task, result } = await http.task("POST", "/cleanup", { body });
    expect(task.state).to.equal("error");
    expect(task.result)
      .to.have.length(128)
      .and.match(/^2 deletions failed: stemcell stuck\/1: .*the moon is full/);
    expect(result).to.contain("stemcell stuck/2: ").and.contain("the sun is down");
    const left = ((await http.json("/stemcells")) as Listed[]).map(({ version }) => version);
    expect(left).to.have.members(["1", "2"]);
    expect((await http.task("POST", "/cleanup", { body })).task.state).to.equal("done");
    expect(await http.json("/stemcells")).to.deep.equal([]);
  });

  it("update-config without an az in use -> the diff in the CLI ends with a warning", async () => {
    const content = "azs:\n- name: z2\n";
    const body = JSON.stringify({ type: "cloud", name: "default", content });
    const headers = { "content-type": "application/json" };
    const { status, body: text } = await http.send("POST", "/configs/diff", { headers, body });
    expect(status).to.equal(200);
    expect((JSON.parse(text) as { diff: unknown[] }).diff.at(-1)).to.deep.equal([
      "# Warning: AZ `z1` is in no cloud config but has 1 instances, 1 disks: none of them can be recreated",
      null,
    ]);
  });

  it("update-resurrection -> switches all deployments on or off", async () => {
    const put = async (body: string) => (await http.send("PUT", "/resurrection", { body })).status;
    for (const isOn of [true, false]) {
      expect(await put(JSON.stringify({ resurrection_paused: !isOn }))).to.equal(204);
      expect(await http.json("/resurrection")).to.deep.equal({ resurrection: isOn });
    }
  });

  it("tasks of requests with a context id -> have the id, and are found by it", async () => {
    const headers = { "x-bosh-context-id": "chain-7" };
    const { task } = await http.task("POST", "/deployments/web/scans", { headers });
    expect(task).to.include({ context_id: "chain-7" });
    const found = (await http.json("/tasks?context_id=chain-7&verbose=2")) as Listed[];
    expect(found.map(({ id }) => id)).to.deep.equal([task.id]);
    for (const odd of ["x".repeat(65), "caf\u00e9"]) {
      const answer = await http.send("POST", "/deployments/web/scans", { headers: { "x-bosh-context-id": odd } });
      expect([answer.status, JSON.parse(answer.body).code]).to.deep.equal([400, 70_010]);
    }
  });

  it("a disk of a deleted deployment -> listed as orphaned, and kept or deleted by a clean-up", async () => {
    expect((await http.task("DELETE", "/deployments/web?force=true")).task).to.include({ state: "done" });
    const [disk] = (await http.json("/disks")) as Listed[];
    expect(disk).to.include({ deployment_name: "web", size: 100, instance_name: `db/${instanceId}` });
    expect(disk?.orphaned_at).to.match(/ UTC$/);
    const cleaned = (config: object) => http.task("POST", "/cleanup", { body: JSON.stringify({ config }) });
    const dryRun = (await http.json("/cleanup/dryrun?remove_all=true")) as { orphaned_disks: Listed[] };
    expect(dryRun.orphaned_disks).to.deep.equal([disk]);
    expect((await cleaned({ remove_all: true, keep_orphaned_disks: true })).task.state).to.equal("done");
    expect(await http.json("/disks")).to.deep.equal([disk]);
    expect((await cleaned({ remove_all: true, keep_orphaned_disks: false })).task.state).to.equal("done");
    expect(await http.json("/disks")).to.deep.equal([]);
    expect((await http.task("DELETE", `/disks/${disk?.disk_cid}`)).task.state).to.equal("done");
    expect(await http.json("/orphan_disks")).to.deep.equal([]);
  });
});
