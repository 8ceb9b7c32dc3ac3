import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type Instance, type Task, TaskState } from "@diskmesh/api/director";
import { MIB_BYTES } from "@diskmesh/domain";
import type { AgentClient } from "@diskmesh/mbus";
import { eventually, leaveToVerify, skipBecause, stemcellFile } from "@diskmesh/testkit";
import { expect } from "chai";
import type { Clients } from "./mesh/clients.js";
import { addHosts, devicesReady } from "./mesh/steps.js";
import { uploadOf } from "./mesh/upload-of.js";
import { AZS, type AzName, CPIS, type CpiConfigInput, cloudConfig, cpiConfig, manifest } from "./multi-cpi/configs.js";
import { type DiskInVm, openDisk } from "./multi-cpi/disk-in-vm.js";
import { CELLS, type CellName, FiveCpis, HOSTS } from "./multi-cpi/five-cpis.js";
import { processesOf } from "./multi-cpi/processes.js";
import { done } from "./process-vms/process-vms.js";

const STEMCELL = { name: "ubuntu", version: "1.10" };

/** The tests build on each other in order. */
describe("five CPIs in one mesh: executables of version 1, 2 and 3, and two cells", () => {
  let five: FiveCpis;
  let operator: Clients;
  let agents: AgentClient;
  let failed = false;
  let cpis = CPIS;
  let instances: readonly Instance[] = [];
  /** Instance with the disk, by az. */
  const holders = new Map<AzName, Instance>();

  before(async function () {
    leaveToVerify(this);
    five = await FiveCpis.start();
    operator = five.mesh.clients;
    agents = await five.mesh.agents();
  });

  function step(title: string, run: () => Promise<void>): void {
    it(title, async function () {
      if (failed) skipBecause(this, "an earlier step of the story failed");
      failed = true;
      await run();
      failed = false;
    });
  }

  after(async () => {
    await five?.[Symbol.asyncDispose]();
    if (five) await eventually(() => expect(processesOf(five.mesh.folder)).to.deep.equal([]));
  });

  step("a cpi-config and a cloud config make five CPIs, each with its az", async () => {
    await configure();
    const listed = await eventually(async () => {
      const all = await listCpis();
      expect(all.map(({ azs }) => azs.join())).to.include.members([...AZS]);
      return all;
    });
    const shown = listed.map(({ name, type, apiVersion, stemcellFormats, azs, lastError }) =>
      [name, type, apiVersion, stemcellFormats.join("+"), azs.join("+"), lastError].join(" "),
    );
    expect(shown).to.deep.equal([
      "cell-1 fleet 2  z4 ",
      "cell-2 fleet 2  z5 ",
      "first reference 1  z1 ",
      "second reference 2 raw z2 ",
      "third reference 3 raw+qcow2 z3 ",
    ]);
  });

  step("a stemcell reaches every CPI that takes its formats", async () => {
    await upload({ ...STEMCELL, stemcell_formats: ["raw"] });
    await upload({ ...STEMCELL, version: "1.9", stemcell_formats: ["qcow2"] });
    const { stemcells } = await operator.stemcells.listStemcells({});
    // A CPI of version 1 declares no formats, so stemcells are sent to it. Cells accept every stemcell without
    // importing it.
    expect(stemcells.map(({ version, cpi }) => `${version} ${cpi || "default"}`)).to.deep.equal([
      "1.10 default",
      "1.10 cell-1",
      "1.10 cell-2",
      "1.10 first",
      "1.10 second",
      "1.10 third",
      "1.9 default",
      "1.9 cell-1",
      "1.9 cell-2",
      "1.9 first",
      "1.9 third",
    ]);
  });

  step("a deployment has two VMs in every az, whose agents answer", async () => {
    for (const cell of Object.keys(CELLS) as CellName[]) await addHostsOf(cell);
    await done(operator.deployments.deploy({ manifest: manifest({ late: false }), wait: true }));
    instances = await listInstances();
    for (const az of AZS)
      for (const instance of inAz(az)) {
        expect(instance).to.include({ cpi: CPIS[az], usesRegistry: az === "z1" });
        expect(instance.cpiApiVersion).to.equal({ z1: 1, z2: 2, z3: 3, z4: 2, z5: 2 }[az]);
        expect(await agents.call(instance.agentId, "ping", []), az).to.equal("pong");
      }
    expect(inAz("z4").map(({ agentId }) => HOSTS.get(agentId))).to.deep.equal(["cell-1", "cell-1"]);
    expect(inAz("z5").map(({ agentId }) => HOSTS.get(agentId))).to.deep.equal(["cell-2", "cell-2"]);
  });

  step(
    "an agent of version 1 has its settings from the bosh-registry alone, and finds its persistent disk there",
    async () => {
      for (const { vmCid, agentId } of inAz("z1")) {
        const userData = readFileSync(join(five.installed[0].vmFolder(vmCid), "user-data.json"), "utf8");
        expect(Object.keys(JSON.parse(userData)).sort()).to.deep.equal(["ip", "registryUrl"]);
        expect(await agents.call(agentId, "list_disk", [])).to.have.length(1);
      }
      const { endpoint } = five.vmRegistry;
      // Requests from an address that no VM has, without credentials.
      const answer = await fetch(`${endpoint}/instances/${inAz("z1")[0]?.vmCid}/settings`);
      expect(answer.status).to.equal(401);
    },
  );

  step("a disk in each az moves from one VM to the other with its bytes", async () => {
    await Promise.all(
      AZS.map(async (az) => {
        await provide(az);
        await write(az);
        await move(az);
        expect(await read(az), az).to.equal(bytesOf(az));
      }),
    );
  });

  step("a disk is not attached to a VM of another az", async () => {
    await detach("z1");
    for (const az of ["z2", "z4"] as const) {
      const [elsewhere] = inAz(az);
      const instanceId = elsewhere?.instanceId ?? "";
      const request = { diskName: diskOf("z1"), instanceId, wait: true };
      expect(await failure(operator.disks.attachDynamicDisk(request))).to.equal(
        `disk \`${diskOf("z1")}\` is in AZ \`z1\`, not in AZ \`${az}\``,
      );
    }
    await attach("z1");
    expect(await read("z1")).to.equal(bytesOf("z1"));
  });

  step("a CPI that was renamed keeps its VMs and disks, and new ones are made by the new name", async () => {
    const before = inAz("z2");
    const pids = before.map(({ vmCid }) => five.installed[1].pidOf(vmCid));
    cpis = { ...CPIS, z2: "renamed" };
    await configure();
    await move("z2");
    expect(await read("z2")).to.equal(bytesOf("z2"));
    await done(operator.deployments.deploy({ manifest: manifest({ late: true }), wait: true }));
    instances = await listInstances();
    const late = inAz("z2").find(({ group }) => group === "late") as Instance;
    expect(late.cpi).to.equal("renamed");
    const kept = inAz("z2").filter(({ group }) => group !== "late");
    expect(kept.map(({ vmCid }) => vmCid)).to.deep.equal(before.map(({ vmCid }) => vmCid));
    expect(kept.map(({ vmCid }) => five.installed[1].pidOf(vmCid))).to.deep.equal(pids);
    // Moves the disk from a VM under the CPI's old name to a VM under its new name: the CPI is the same.
    await move("z2", late);
    expect(await read("z2")).to.equal(bytesOf("z2"));
    await detach("z2");
    await done(operator.disks.deleteDynamicDisk({ diskName: diskOf("z2"), wait: true }));
    // Provides the disk near a VM under the CPI's old name.
    await provide("z2");
    const { disk } = await operator.disks.getDynamicDisk({ diskName: diskOf("z2") });
    expect(disk?.cpi).to.equal("renamed");
    await write("z2");
  });

  const broken: { az: AzName; how: string; breakIt(): unknown; reason: RegExp; repair(): unknown }[] = [
    {
      az: "z3",
      how: "an executable that is gone",
      breakIt: () => five.installed[2].uninstall(),
      reason: /the CPI's executable \S+ cannot be run \(ENOENT\): install it there/,
      repair: () => five.installed[2].install(),
    },
    {
      az: "z2",
      how: "an executable that crashes",
      breakIt: () => five.installed[1].misbehave({ "*": "crash" }),
      reason: /the CPI wrote no answer and ended with signal SIGKILL/,
      repair: () => five.installed[1].misbehave({}),
    },
    {
      az: "z1",
      how: "an executable that fails and tells all it knows",
      breakIt: () => five.installed[0].misbehave({ detach_disk: "tells" }),
      reason: /Bosh::Clouds::CloudError.*<redacted>/s,
      repair: () => five.installed[0].misbehave({}),
    },
    {
      az: "z5",
      how: "a cell whose registry was killed",
      breakIt: () => five.mesh.process("cell-2").kill(),
      reason: /DiskRegistryService/,
      repair: () => five.mesh.process("cell-2").start(),
    },
    {
      az: "z4",
      how: "a cell whose registry has no address",
      breakIt: () => configure({ cells: ["nowhere", five.cpiConfigInput.cells[1]] }),
      reason: /CPI cell-1 cannot be used, because its description is wrong: .*registry_address/,
      repair: () => configure(),
    },
  ];
  for (const { az, how, breakIt, reason, repair } of broken)
    step(`${how} fails by itself, and works again after its repair`, async () => {
      await breakIt();
      const failing = failure(operator.disks.detachDynamicDisk({ diskName: diskOf(az), wait: true }));
      await Promise.all(AZS.filter((other) => other !== az).map((other) => move(other)));
      expect(await failing).to.match(reason);
      const complaining = (await listCpis()).filter(({ lastError }) => lastError !== "").map(({ name }) => name);
      expect(complaining).to.deep.equal([cpis[az]]);
      await repair();
      await move(az);
      expect(await read(az)).to.equal(bytesOf(az));
    });

  step("an executable that hangs holds up its own az alone", async () => {
    five.installed[0].misbehave({ create_disk: "hangs" });
    const names = ["waits-1", "waits-2", "waits-3"];
    const place = { deployment: "everywhere", az: "z1", diskPoolName: "small", sizeBytes: MIB_BYTES };
    const making = names.map((diskName) =>
      operator.disks.createDynamicDisk({ ...place, diskName, metadata: undefined, wait: true }),
    );
    await eventually(async () => (await tasksIn(TaskState.PROCESSING)).length === 2);
    await Promise.all((["z2", "z3", "z4", "z5"] as const).map((az) => move(az)));
    expect(await tasksIn(TaskState.PROCESSING, TaskState.QUEUED)).to.have.length(names.length);
    five.installed[0].misbehave({});
    await Promise.all(making.map(done));
    for (const diskName of names) await done(operator.disks.deleteDynamicDisk({ diskName, wait: true }));
    await move("z1");
    expect(await read("z1")).to.equal(bytesOf("z1"));
  });

  step("all is deleted, and nothing is left of it", async () => {
    await done(operator.deployments.deleteDeployment({ deployment: "everywhere", wait: true }));
    for (const { diskCid } of (await operator.deployments.listPersistentDisks({})).disks)
      await done(operator.deployments.deleteOrphanedDisk({ diskCid, wait: true }));
    for (const version of ["1.9", "1.10"])
      await done(operator.stemcells.deleteStemcell({ ...STEMCELL, version, wait: true }));
    expect((await operator.deployments.listPersistentDisks({})).disks).to.deep.equal([]);
    expect((await operator.disks.listDynamicDisks({})).disks).to.deep.equal([]);
    for (const installed of five.installed) expect(installed.things(), installed.execPath).to.deep.equal([]);
    for (const cell of Object.keys(CELLS) as CellName[]) {
      const { disks } = await five.cell(cell).listDisks({ pageSize: 100 });
      const { hosts } = await five.cell(cell).listHosts({ pageSize: 100 });
      expect([disks.length, hosts.filter(({ assignment }) => assignment).length], cell).to.deep.equal([0, 0]);
    }
    const services = [five.mesh.nats.pid, ...[...five.mesh.processes.values()].map(({ pid }) => pid)].sort();
    await eventually(() =>
      expect(
        processesOf(five.mesh.folder)
          .map(({ pid }) => pid)
          .sort(),
      ).to.deep.equal(services),
    );
    // The mark by which a dispatcher's next life finds that it was killed.
    expect(readdirSync(join(five.mesh.folder, "run"))).to.deep.equal(["dispatcher-runs.json"]);
  });

  const diskOf = (az: AzName): string => `data-${az}`;
  const bytesOf = (az: AzName): string => `written in ${az}`;
  const inAz = (az: AzName): readonly Instance[] => instances.filter((instance) => instance.az === az);

  async function configure(change: Partial<CpiConfigInput> = {}): Promise<void> {
    const content = cpiConfig({ ...five.cpiConfigInput, nameInZ2: cpis.z2, ...change });
    await operator.configs.updateConfig({ type: "cpi", content });
    await operator.configs.updateConfig({ type: "cloud", content: cloudConfig(cpis) });
  }

  /** Returns the CPIs of the cpi-config, ordered by name. */
  async function listCpis() {
    const { cpis: all } = await operator.cpis.listCpis({});
    return all.filter(({ directorId }) => directorId !== "");
  }

  async function listInstances(): Promise<readonly Instance[]> {
    return (await operator.deployments.listInstances({ deployment: "everywhere" })).instances;
  }

  async function upload(about: object): Promise<void> {
    await done(operator.stemcells.uploadStemcell(uploadOf(stemcellFile(about))));
  }
  async function addHostsOf(cell: CellName): Promise<void> {
    const hostIds = [...HOSTS.keys()].filter((hostId) => HOSTS.get(hostId) === cell);
    const ofCell = { clients: { ...operator, registry: five.cell(cell) }, hostIds };
    await addHosts(ofCell);
    await devicesReady(ofCell);
  }
  async function provide(az: AzName): Promise<void> {
    const to = inAz(az)[0] as Instance;
    const size = { diskPoolName: "small", sizeBytes: MIB_BYTES };
    const request = { diskName: diskOf(az), instanceId: to.instanceId, ...size, metadata: undefined, wait: true };
    await done(operator.disks.provideDynamicDisk(request));
    holders.set(az, to);
  }

  async function detach(az: AzName): Promise<void> {
    await done(operator.disks.detachDynamicDisk({ diskName: diskOf(az), wait: true }));
  }

  async function attach(az: AzName, to = holders.get(az) as Instance): Promise<void> {
    const request = { diskName: diskOf(az), instanceId: to.instanceId, wait: true };
    await done(operator.disks.attachDynamicDisk(request));
    holders.set(az, to);
  }

  /** Moves the disk to the other VM of its az. */
  async function move(az: AzName, to = inAz(az).find((each) => each !== holders.get(az)) as Instance): Promise<void> {
    await detach(az);
    await attach(az, to);
  }

  async function write(az: AzName): Promise<void> {
    await using disk = await open(az);
    await disk.write(bytesOf(az));
  }

  async function read(az: AzName): Promise<string> {
    await using disk = await open(az);
    return disk.read(bytesOf(az).length);
  }

  async function open(az: AzName): Promise<DiskInVm> {
    const { disk } = await operator.disks.getDynamicDisk({ diskName: diskOf(az) });
    const holder = holders.get(az) as Instance;
    expect(disk).to.include({ vmCid: holder.vmCid, az });
    return openDisk(five, agents, holder, disk?.diskCid ?? "");
  }

  /** Returns the tasks in these states; all tasks when none is given. */
  async function tasksIn(...states: TaskState[]): Promise<Task[]> {
    return (await operator.tasks.listTasks({ states, pageSize: 1_000 })).tasks;
  }
});

/** Returns the error of a failed task. */
async function failure(start: Promise<{ task?: Task | undefined }>): Promise<string> {
  const { task } = await start;
  expect(task?.state, task?.result).to.equal("TASK_STATE_ERROR");
  return task?.result ?? "";
}
