import { execFile } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { skipBecause, stemcellFile, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { type HttpDirector, startHttpDirector } from "../testing/http-director.js";
import { CLOUD_CONFIG } from "../testing/test-director.js";

interface Outcome {
  readonly code: number;
  /** Rows of all tables. */
  readonly rows: readonly Readonly<Record<string, string>>[];
  /** Everything that was printed beside the tables. */
  readonly text: string;
}

const MANIFEST = `name: dep
releases: []
stemcells: []
update: {canaries: 1, max_in_flight: 1, canary_watch_time: 1000-60000, update_watch_time: 1000-60000}
instance_groups:
- {name: web, instances: 2, azs: [z1], jobs: [], persistent_disk: 100, vm_type: large}
`;
const CLOUD = `
vm_types: [{name: large, cloud_properties: {ram: 2}}]
${CLOUD_CONFIG}`;
const CPI_CONFIG = "cpis:\n- {name: proc, type: proc, exec_path: /bin/true, properties: {password: canary}}\n";

describe("the stock bosh CLI", () => {
  let mesh: HttpDirector;
  let folder: string;
  let environment: NodeJS.ProcessEnv;

  before(async function () {
    folder = temporaryFolder();
    environment = {
      PATH: process.env.PATH,
      HOME: folder,
      BOSH_CONFIG: join(folder, "bosh.yml"),
      BOSH_NON_INTERACTIVE: "true",
    };
    if ((await bosh("--version")).code !== 0) skipBecause(this, "bosh is not on PATH");
    mesh = await startHttpDirector();
    const { certs } = mesh.director;
    environment = {
      ...environment,
      BOSH_ENVIRONMENT: `https://127.0.0.1:${mesh.http.port}`,
      BOSH_CA_CERT: certs.files("operator").caFile,
      BOSH_CLIENT: "admin",
      BOSH_CLIENT_SECRET: "pw-admin",
      BOSH_DEPLOYMENT: "dep",
    };
    for (const [name, text] of Object.entries({
      cloud: CLOUD,
      cpi: CPI_CONFIG,
      manifest: MANIFEST,
      any: "a: 1",
    }))
      writeFileSync(file(name), text);
    writeFileSync(file("stemcell"), await stemcellFile({ name: "toy", version: "1.5" }));
  });
  after(() => mesh?.director.stop());

  const file = (name: string): string => join(folder, name);

  function bosh(...parameters: readonly string[]): Promise<Outcome> {
    return new Promise((resolve) => {
      execFile("bosh", [...parameters, "--json"], { env: environment, cwd: folder }, (error, stdout, stderr) => {
        const code = error === null ? 0 : typeof error.code === "number" ? error.code : 127;
        const [, json] = /(\{\n[\s\S]*\n\})/.exec(stdout) ?? [];
        const { Tables, Lines, Blocks } = json === undefined ? {} : JSON.parse(json);
        const rows = (Tables ?? []).flatMap(({ Rows }: { Rows: object[] | null }) => Rows ?? []);
        resolve({ code, rows, text: [...(Blocks ?? []), ...(Lines ?? []), stderr].join("\n") });
      });
    });
  }

  /** Fails unless the command succeeds. */
  async function run(line: string, ...more: readonly string[]): Promise<Outcome> {
    const outcome = await bosh(...line.split(" "), ...more);
    expect(outcome.code, `${line}: ${outcome.text}`).to.equal(0);
    return outcome;
  }

  /** Fails unless the command fails with this message. */
  async function refused(line: string, said: RegExp): Promise<void> {
    const { code, text } = await bosh(...line.split(" "));
    expect(text).to.match(said);
    expect(code, line).to.equal(1);
  }

  const column = ({ rows }: Outcome, name: string): (string | undefined)[] => rows.map((row) => row[name]);
  const instances = async () => (await run("instances --details")).rows;

  it("env, log-in", async () => {
    expect((await run("env --details")).rows[0]).to.include({ name: "diskmesh", user: "admin" });
    await run("log-in");
    environment.BOSH_CLIENT_SECRET = "wrong";
    await refused("log-in", /Invalid credentials|not authori/i);
    environment.BOSH_CLIENT_SECRET = "pw-admin";
  });

  it("configs of all kinds, their versions and differences", async () => {
    await run("update-cloud-config", file("cloud"));
    await run("update-config --type=mine --name=x", file("any"));
    expect(column(await run("configs"), "type")).to.deep.equal(["cloud", "mine"]);
    expect((await run("cloud-config")).text).to.contain("disk_types");
    const old = (await run("config --type=cloud --name=default")).rows[0]?.id;
    writeFileSync(file("cloud-2"), `${CLOUD}- {name: huge, disk_size: 9000}\n`);
    await run("update-cloud-config", file("cloud-2"));
    const latest = (await run("config --type=cloud --name=default")).rows[0]?.id;
    const diff = JSON.stringify((await run(`diff-config --from-id=${old} --to-id=${latest}`)).rows);
    expect(diff).to.match(/[+].*name: huge/);
    const ofFiles = `diff-config --from-content=${file("cloud-2")} --to-content=${file("cloud")}`;
    expect(JSON.stringify((await run(ofFiles)).rows)).to.match(/-.*name: huge/);
    await run(`delete-config ${latest}`);
    expect((await run("config --type=cloud --name=default")).rows[0]?.id).to.equal(old);
    await run("update-cpi-config", file("cpi"));
    expect((await run("cpi-config")).text).to.contain("canary");
    await run("delete-config --type=cpi --name=default");
    await run("delete-config --type=mine --name=x");
    writeFileSync(file("rules"), "rules: [{enabled: false, include: {deployments: [web]}}]\n");
    await run("update-config --type=resurrection --name=web", file("rules"));
    await refused(`update-config --type=resurrection --name=web ${file("any")}`, /rules/);
    expect(column(await run("config --type=resurrection --name=web"), "content")[0]).to.contain("enabled: false");
    await run("delete-config --type=resurrection --name=web");
    await refused(`update-runtime-config ${file("any")}`, /does not support configs of type runtime/);
    await refused("runtime-config", /No .*runtime config/);
  });

  it("upload-stemcell, stemcells, delete-stemcell", async () => {
    await run("upload-stemcell", file("stemcell"));
    await run("upload-stemcell", file("stemcell"));
    await run("upload-stemcell --fix", file("stemcell"));
    expect((await run("stemcells")).rows[0]).to.include({ name: "toy", version: "1.5" });
    await run("delete-stemcell toy/1.5");
    await run("delete-stemcell toy/1.5");
    expect((await run("stemcells")).rows).to.deep.equal([]);
  });

  it("deploy, and the commands that show the deployment", async () => {
    const told = (await run("deploy", file("manifest"))).text;
    expect(told)
      .to.match(/Creating missing vms: web\/[0-9a-f-]+ \(\d\d:\d\d:\d\d\)/)
      .and.not.contain("()");
    expect(column(await run("deployments"), "name")).to.deep.equal(["dep"]);
    expect((await run("deployment")).rows).to.have.length(1);
    expect((await run("manifest")).text).to.contain("name: dep");
    expect((await run("vms --vitals")).rows.every((row) => row.vm_cid?.startsWith("vm-"))).to.equal(true);
    expect((await run("vms --vitals")).rows[0])
      .to.have.property("vm_created_at")
      .that.matches(/^\w{3} \w{3} .* UTC 20/);
    expect((await run("vms --cloud-properties")).rows[0]).to.include({ vm_type: "large", cloud_properties: "ram: 2" });
    expect(await instances()).to.have.length(2);
    expect((await instances())[0]).to.include({ vm_type: "large" });
    writeFileSync(
      file("old"),
      MANIFEST.replace("[]\nupdate", "[{alias: default, os: noble, version: '1.5'}]\nupdate").replace(
        "jobs:",
        "stemcell: default, jobs:",
      ),
    );
    await refused(`deploy ${file("old")}`, /no stemcell of OS `noble`, version `1.5`: upload it/);
    await refused(`deploy --dry-run ${file("old")}`, /no stemcell of OS `noble`, version `1.5`: upload it/);
    for (const list of ["locks", "variables", "errands", "releases", "networks --orphaned", "orphaned-vms"])
      expect((await run(list)).rows, list).to.deep.equal([]);
    await refused("run-errand x", /has no errands/);
    await run(`deploy --recreate --fix --canaries=2 --max-in-flight=3 --skip-drain ${file("manifest")}`);
  });

  it("stop, start, restart, recreate, ignore", async () => {
    const [first] = await instances();
    for (const line of ["stop", "start web", "restart web/0", `recreate ${first?.instance}`]) await run(line);
    for (const verb of ["recreate", "stop", "start", "restart"]) await run(`${verb} ${first?.instance} --no-converge`);
    await run("stop --hard web/1");
    expect((await instances()).map(({ state }) => state).sort()).to.deep.equal(["detached", "started"]);
    await run("start");
    await run(`ignore ${first?.instance}`);
    expect((await instances()).map(({ ignore }) => ignore).sort()).to.deep.equal(["false", "true"]);
    await run(`unignore ${first?.instance}`);
    await refused("stop nothing", /has no instance group/);
  });

  it("logs", async () => {
    const [first] = await instances();
    for (const which of ["", " web", ` ${first?.instance}`, " web/1 --agent", " --all-logs --only=a.log"])
      expect((await run(`logs${which}`)).text).to.match(/Fetching logs: web\/[0-9a-f-]+[\s\S]*\(\d\d:\d\d:\d\d\)/);
    const files = readdirSync(folder).filter((name) => name.endsWith(".tgz"));
    expect(files.filter((name) => /^dep\.web\.1-/.test(name))).to.have.length(1);
    const texts = files.map((name) => readFileSync(file(name), "latin1"));
    expect(texts.filter((text) => /^logs of host-\d$/.test(text))).to.have.length(2);
    expect(texts.filter((text) => text.startsWith("\x1f\x8b"))).to.have.length(3);
    await refused("logs nothing", /has no instance group/);
  });

  it("disks and snapshots", async () => {
    const [first] = await instances();
    const disk = first?.disk_cids ?? "";
    // The director refuses, as BOSH's does, but the CLI reports success: it assumes that a disk is deleted when no list
    // of orphaned disks contains it.
    await run(`delete-disk ${disk}`);
    expect((await instances())[0]?.disk_cids).to.equal(disk);
    await run("take-snapshot");
    await run(`take-snapshot ${first?.instance}`);
    const snapshots = await run("snapshots");
    expect(snapshots.rows).to.have.length(3);
    await run(`delete-snapshot ${snapshots.rows[0]?.snapshot_cid}`);
    await run("delete-snapshots");
    expect((await run("snapshots")).rows).to.deep.equal([]);
    expect((await run("disks --orphaned")).rows).to.deep.equal([]);
  });

  it("cloud-check", async () => {
    const broken = async (): Promise<void> => {
      const [vm] = (await run("vms")).rows;
      const { vms, disks } = mesh.director.cpi;
      vms.delete(vm?.vm_cid ?? "");
      for (const disk of disks.values()) if (disk.vmCid === vm?.vm_cid) disk.vmCid = "";
    };
    expect((await run("cck --report")).rows).to.deep.equal([]);
    await broken();
    await refused("cck --report", /1 problem\(s\) found/);
    const mended = (await run("cck --auto")).text;
    expect(mended).to.contain("Problem found: missing_vm").and.not.contain("()");
    expect((await run("cck --report")).rows).to.deep.equal([]);
    await broken();
    await run("cck --resolution=recreate_vm");
    expect((await run("cck --report")).rows).to.deep.equal([]);
  });

  it("tasks, events", async () => {
    const tasks = await run("tasks --recent=200 --all");
    const id = tasks.rows.find(({ description }) => description === "create deployment `dep`")?.id;
    for (const type of ["", " --event", " --result", " --debug", " --cpi"]) await run(`task ${id}${type}`);
    await refused("task 99999", /there is no task 99999/);
    await refused(`cancel-task ${id}`, /has ended/);
    await run("cancel-tasks --type=update_deployment --state=queued");
    expect((await run("tasks")).rows).to.deep.equal([]);
    const [event] = (await run(`events --task=${id} --action=create --object-type=vm`)).rows;
    const eventId = event?.id?.split(" ")[0];
    expect((await run(`event ${eventId}`)).rows[0]).to.include({ action: "create", object_type: "vm" });
    expect(column(await run(`events --before-id=${eventId}`), "id").every((each) => each !== event?.id)).to.equal(true);
    expect(column(await run("events"), "action")).not.to.include("retrieve_vm_stats");
    await refused("event 99999", /the event does not exist/);
  });

  it("dynamic disks by curl", async () => {
    const [first] = await instances();
    const instance_id = first?.instance?.split("/")[1];
    writeFileSync(file("disk"), JSON.stringify({ disk_name: "d", instance_id, disk_pool_name: "fast", disk_size: 64 }));
    const curl = async (...parameters: string[]) =>
      JSON.parse((await bosh("curl", ...parameters)).text.split("\n")[0] ?? "");
    const header = ["-H", "Content-Type: application/json"];
    const steps = [
      ["-X", "POST", ...header, "--body", file("disk"), "/dynamic_disks/provide"],
      ["-X", "POST", "/dynamic_disks/d/detach"],
      ["-X", "DELETE", "/dynamic_disks/d"],
    ];
    const ids: number[] = [];
    for (const step of steps) {
      const { id } = await curl(...step);
      await run(`task ${id}`);
      ids.push(id);
    }
    expect((await run(`task ${ids[0]} --result`)).text).to.match(/^\{"disk_cid":"[^"]+"\}$/m);
    expect(await curl("/dynamic_disks")).to.deep.equal([]);
  });

  it("delete-vm, delete-deployment, and the orphaned disks", async () => {
    const [vm] = (await run("vms")).rows;
    await run(`delete-vm ${vm?.vm_cid}`);
    await run("delete-vm vm-none");
    await run("delete-deployment");
    await run("delete-deployment --force");
    const disks = column(await run("disks --orphaned"), "disk_cid");
    expect(disks).to.have.length(2);
    await run(`delete-disk ${disks[0]}`);
    expect((await run("clean-up --all --dry-run")).rows).to.have.length(1);
    await run("clean-up");
    await run("clean-up --all");
    await run("update-resurrection on");
    await run("update-resurrection off");
    expect((await run("disks --orphaned")).rows).to.deep.equal([]);
  });
});
