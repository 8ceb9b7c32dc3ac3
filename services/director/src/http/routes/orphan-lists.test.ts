import { InvalidStateError, TimeoutError } from "@diskmesh/domain";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import type { HttpClient } from "../../testing/http-client.js";
import { type HttpDirector, startHttpDirector } from "../../testing/http-director.js";
import { OpenPage } from "../../testing/open-page.js";
import { CLOUD_CONFIG } from "../../testing/test-director.js";

const MANIFEST = "name: web\ninstance_groups:\n- {name: db, instances: 1, azs: [z1], persistent_disk: 100}\n";

type Listed = Readonly<Record<string, unknown>>;

/** The requests are those of `orphaned-vms`, `disks --orphaned`, `clean-up`, `delete-vm` and `delete-disk`. */
describe("possible orphans over HTTPS", () => {
  let mesh: HttpDirector;
  let http: HttpClient;

  before(async () => {
    mesh = await startHttpDirector();
    ({ http } = mesh);
    await mesh.director.configs.updateConfig({ type: "cloud", content: CLOUD_CONFIG });
  });
  after(() => mesh?.director.stop());
  beforeEach(async () => {
    const { director } = mesh;
    await http.task("DELETE", "/deployments/web");
    for (const { disk_cid } of await disks()) await http.task("DELETE", `/disks/${disk_cid}`).catch(() => {});
    const { possibleOrphans } = await director.deployments.listPossibleOrphans({});
    for (const { token } of possibleOrphans) await director.deployments.forgetPossibleOrphan({ token });
    director.cpi.vms.clear();
    director.cpi.disks.clear();
    director.cpi.findsByToken = true;
  });

  const vms = async () => (await http.json("/orphaned_vms")) as Listed[];
  const disks = async () => (await http.json("/disks")) as Listed[];
  const deploy = () => http.task("POST", "/deployments", { body: MANIFEST });
  const cleanUp = (config: object) => http.task("POST", "/cleanup", { body: JSON.stringify({ config }) });
  const dryRun = async (query: string) => (await http.json(`/cleanup/dryrun?${query}`)) as Record<string, Listed[]>;

  /** Deletes the deployment by force while its CPI deletes neither VM nor disk; returns their CIDs. */
  async function leaveBehind() {
    const { cpi } = mesh.director;
    expect((await deploy()).task.state).to.equal("done");
    cpi.failNext("deleteVm", new InvalidStateError("no quota"));
    const { task, result } = await http.task("DELETE", "/deployments/web?force=true");
    expect([task.state, result]).to.deep.equal(["done", result]);
    expect(result).to.contain("(see `bosh orphaned-vms`)");
    const [diskCid = ""] = cpi.disks.keys();
    for (const disk of cpi.disks.values()) disk.vmCid = "";
    cpi.failNext("deleteDisk", new InvalidStateError("no quota"));
    const forgotten = await http.task("DELETE", `/disks/${diskCid}?force=true`);
    expect(forgotten.result).to.contain("(see `bosh disks --orphaned`)");
    const [vmCid = ""] = cpi.vms.keys();
    return { vmCid, diskCid };
  }

  it("a VM and a disk left behind -> listed as orphans; clean-up deletes the VM, with --all the disk, too", async () => {
    const { vmCid, diskCid } = await leaveBehind();
    const [vm] = await vms();
    expect(vm).to.include({ cid: vmCid, az: "z1", deployment_name: "web" });
    expect(vm?.ip_addresses).to.deep.equal([]);
    expect([vm?.instance_name, vm?.orphaned_at].join(" ")).to.match(/^db\/[0-9a-f-]+ 20\S+ \S+ UTC$/);
    const [disk] = await disks();
    expect(disk).to.include({ disk_cid: diskCid, size: null, az: "z1", deployment_name: "web" });
    expect((await dryRun("remove_all=false")).orphaned_vms).to.deep.equal([vm]);
    expect((await dryRun("remove_all=false")).orphaned_disks).to.deep.equal([]);
    expect((await dryRun("remove_all=true")).orphaned_disks).to.deep.equal([disk]);
    expect((await dryRun("remove_all=true&keep_orphaned_disks=true")).orphaned_disks).to.deep.equal([]);
    expect((await cleanUp({ remove_all: false })).task.state).to.equal("done");
    expect([mesh.director.cpi.vms.size, mesh.director.cpi.disks.size]).to.deep.equal([0, 1]);
    expect([await vms(), (await disks()).length]).to.deep.equal([[], 1]);
    expect((await cleanUp({ remove_all: true, keep_orphaned_disks: true })).task.state).to.equal("done");
    expect(await disks()).to.have.length(1);
    expect((await cleanUp({ remove_all: true })).task.state).to.equal("done");
    expect(await disks()).to.deep.equal([]);
    expect(mesh.director.cpi.disks.size).to.equal(0);
  });

  it("delete-vm and delete-disk -> deleted with the CPI, and no longer listed", async () => {
    const { vmCid, diskCid } = await leaveBehind();
    expect((await http.task("DELETE", `/vms/${vmCid}`)).result).to.contain(`deleted vm \`${vmCid}\``);
    expect((await http.task("DELETE", `/disks/${diskCid}`)).result).to.contain(`deleted disk \`${diskCid}\``);
    expect([await vms(), await disks()]).to.deep.equal([[], []]);
    expect([mesh.director.cpi.vms.size, mesh.director.cpi.disks.size]).to.deep.equal([0, 0]);
  });

  it("the page -> shows them, deletes one after a dry run, and forgets one", async () => {
    const { vmCid, diskCid } = await leaveBehind();
    const page = new OpenPage(http);
    const shown = () => [...page.rows].filter(([name, row]) => name.startsWith("orphan ") && row !== null);
    const [vm, disk] = await eventually(() => {
      const rows = shown();
      const tokens = [vmCid, diskCid].map((cid) => rows.find(([, row]) => row?.objectCid === cid)?.[0].split(" ")[1]);
      expect(tokens).to.not.include(undefined);
      return tokens;
    });
    const act = async (path: string, isDry: boolean) => {
      const body = JSON.stringify({ dry_run: isDry });
      return JSON.parse((await http.send("POST", `/page/orphans/${path}`, { body })).body).lines?.[0];
    };
    expect(await act(`${vm}/delete`, true)).to.equal(`vm ${vmCid} and its data are deleted with the CPI that has it`);
    expect(await act(`${disk}/forget`, true)).to.contain(`disk ${diskCid} is taken from this list`);
    expect([(await vms()).length, (await disks()).length]).to.deep.equal([1, 1]);
    expect(await act(`${vm}/delete`, false)).to.match(/^task \d+ deletes vm /);
    await act(`${disk}/forget`, false);
    await eventually(() => expect(shown()).to.deep.equal([]));
    page.close();
    expect([mesh.director.cpi.vms.size, mesh.director.cpi.disks.size]).to.deep.equal([0, 1]);
    const gone = await http.send("POST", `/page/orphans/${vm}/delete`, { body: JSON.stringify({ dry_run: true }) });
    expect(gone.status).to.equal(404);
  });

  it("clean-up fails to delete one -> its error, and it stays listed", async () => {
    const { vmCid } = await leaveBehind();
    mesh.director.cpi.failNext("deleteVm", new InvalidStateError("no quota"));
    const { task, result } = await cleanUp({ remove_all: false });
    expect([task.state, result]).to.deep.equal(["error", result]);
    expect(result).to.contain("no quota");
    expect((await vms()).map(({ cid }) => cid)).to.deep.equal([vmCid]);
  });

  it("a VM whose CID nobody knows -> listed with its token; clean-up leaves it", async () => {
    const { cpi } = mesh.director;
    cpi.findsByToken = false;
    cpi.failNext("createVm", new TimeoutError("no answer"), "after");
    const { task, events } = await deploy();
    expect(task.state).to.equal("error");
    expect(JSON.stringify(events)).to.contain("see `bosh orphaned-vms`");
    const [made] = cpi.vms.values();
    expect((await vms()).map(({ cid }) => cid)).to.deep.equal([`unknown (token ${made?.request.agentId})`]);
    expect((await cleanUp({ remove_all: true })).task.state).to.equal("done");
    expect(await vms()).to.have.length(1);
    expect(cpi.vms.size).to.equal(1);
  });

  it("its CID belongs to a recorded VM by now -> not deleted, and the error says what to do", async () => {
    const { vmCid } = await leaveBehind();
    mesh.director.cpi.cidsToGive.set("createVm", vmCid);
    const [left] = (await mesh.director.deployments.listPossibleOrphans({})).possibleOrphans.filter(
      ({ cid }) => cid === vmCid,
    );
    mesh.director.cpi.vms.clear();
    expect((await deploy()).task.state).to.equal("done");
    mesh.director.cpi.cidsToGive.clear();
    const { task, result } = await cleanUp({ remove_all: false });
    expect(task.state).to.equal("error");
    expect(result).to.contain("belongs to the vm of db/").and.contain(`\`diskmesh forget-orphan ${left?.token}\``);
    expect(mesh.director.cpi.vms.has(vmCid)).to.equal(true);
  });
});
