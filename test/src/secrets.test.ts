import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type Task, TaskOutputType } from "@diskmesh/api/director";
import { MIB_BYTES } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually, stemcellFile } from "@diskmesh/testkit";
import { expect } from "chai";
import type { PlacedMesh } from "./mesh/plan.js";
import { TestMesh } from "./mesh/test-mesh.js";
import { uploadOf } from "./mesh/upload-of.js";
import { mbusOf } from "./multi-cpi/configs.js";
import { processesOf } from "./multi-cpi/processes.js";
import { ReferenceCpi } from "./reference-cpi/install.js";
import { canariesOf, formsOf } from "./secrets/canaries.js";
import { TraceCollector } from "./secrets/trace-collector.js";

const DEADLINE_MS = 120_000;

const CPI = canariesOf("cpi", 1);
const HINT = canariesOf("hint", 2);
const ENV = canariesOf("env", 3);
const OWN = canariesOf("dispatcher", 4);
const REGISTRY = canariesOf("registry", 5);
const CANARIES = { CPI, HINT, ENV, OWN, REGISTRY };

const CLOUD = `
azs: [{ name: z1, cpi: talker }]
disk_types: [{ name: small, disk_size: 1 }]
vm_types: [{ name: small }]
networks: [{ name: any, type: dynamic }]
`;
const MANIFEST = `
name: web
stemcells: [{ alias: system, os: ubuntu-noble, version: latest }]
instance_groups:
- { name: vm, instances: 1, azs: [z1], stemcell: system, vm_type: small, networks: [{ name: any }], env: ${JSON.stringify({ ...ENV, bosh: { password: ENV.text } })} }
`;

describe("secrets in a mesh whose CPI and agents print all their data, in every form", function () {
  this.timeout(600_000);
  let mesh: TestMesh;
  let traces: TraceCollector;
  let cpi: ReferenceCpi;
  /** Readable texts of logs, files and arguments, by place. */
  const seen = new Map<string, string>();

  before(async () => {
    traces = await TraceCollector.start();
    const everything = { log: { level: "trace" }, telemetry: { otlpEndpoint: traces.url } };
    const director = (prepared: PlacedMesh) => ({
      ...everything,
      agents: { settings: { mbus: mbusOf(prepared.address("nats"), prepared.vmAgentFiles) } },
      boshRegistry: { listen: prepared.listen("vm-registry"), user: "cpi", password: REGISTRY.quoted },
      tuning: { cpi: { retryTimeoutMs: 2_000 }, agents: { attachTimeoutMs: 10_000 } },
    });
    const dispatcher = ({ folder }: PlacedMesh) => {
      cpi = new ReferenceCpi(join(folder, "cpi"));
      const properties = { ...OWN, state_folder: cpi.stateFolder };
      return { ...everything, cpis: [{ name: "own", type: "reference", execPath: cpi.execPath, properties }] };
    };
    mesh = await TestMesh.start({
      processes: [
        { service: "cpi-dispatcher", config: dispatcher },
        { service: "director", config: director },
      ],
      listeners: ["vm-registry"],
      vmAgents: true,
      deadlineMs: DEADLINE_MS,
    });
  });

  after(async () => {
    await cpi?.stopVms();
    await mesh?.[Symbol.asyncDispose]();
    await traces?.close();
  });

  it("are in no log, task, trace, error, list, file or argument", async () => {
    const { configs, deployments, disks, stemcells, tasks, cpis } = mesh.clients;
    const see = (where: string, what: unknown) =>
      seen.set(
        `${seen.size} ${where}`,
        what instanceof Error ? `${what.stack} ${JSON.stringify(what)}` : JSON.stringify(what),
      );
    const failing = async (what: string, call: Promise<unknown>) => {
      see(what, await rejection(call));
    };
    const ended = async (state: string, starting: Promise<{ task?: Task | undefined }>) => {
      const { task } = await starting;
      expect(task?.state, task?.result).to.equal(`TASK_STATE_${state}`);
      see(`task ${task?.taskId}`, task);
    };

    const properties = { ...CPI, state_folder: cpi.stateFolder, hint: "object", hint_secrets: HINT };
    const config = JSON.stringify({
      cpis: [{ name: "talker", type: "reference", exec_path: cpi.execPath, properties }],
    });
    await failing("no YAML", configs.updateConfig({ type: "cpi", content: `${config} ${JSON.stringify(CPI.quoted)}` }));
    await failing("no cpi-config", configs.updateConfig({ type: "cpi", content: config.replace('"type"', '"kind"') }));
    await configs.updateConfig({ type: "cpi", content: config });
    see("diff", await configs.diffConfig({ type: "cpi", content: config.replace("7f3a", "other") }));
    see("configs", await configs.listConfigs({ type: "cpi" }));
    await configs.updateConfig({ type: "cloud", content: CLOUD });

    await ended("DONE", stemcells.uploadStemcell(uploadOf(stemcellFile())));
    await failing("no manifest", deployments.deploy({ manifest: `${MANIFEST}\n  env: {`, wait: true }));
    for (const how of ["tells", "garbage"]) {
      cpi.misbehave({ create_vm: how });
      await ended("ERROR", deployments.deploy({ manifest: MANIFEST, wait: true }));
    }
    see("CPIs", await cpis.listCpis({}));
    cpi.misbehave({ "*": "tells" });
    await failing("the dispatcher's own, telling", cpis.hasVm({ vmCid: "i-1" }));

    cpi.misbehave({});
    await ended("DONE", deployments.deploy({ manifest: MANIFEST, wait: true }));
    const { instances } = await deployments.listInstances({ deployment: "web" });
    see("instances", instances);
    const [instanceId = ""] = instances.map((instance) => instance.instanceId);
    const disk = { diskName: "data", instanceId, diskPoolName: "small", sizeBytes: MIB_BYTES, wait: true };
    // The hanging CPI process stays until the test has read its arguments and environment.
    cpi.misbehave({ create_disk: "hangs" });
    const providing = disks.provideDynamicDisk(disk);
    const looking = () => {
      const run = join(mesh.folder, "run");
      const [running, files] = [processesOf(run), filesBelow(run)];
      expect([running.length, files.length]).not.to.include(0);
      for (const { pid } of processesOf(mesh.folder)) see(`process ${pid}`, argumentsOf(pid));
      for (const [file, text] of files) see(file, text);
    };
    await eventually(looking);
    cpi.misbehave({});
    await ended("DONE", providing);
    // The agent does not find the disk, and its error contains the hint.
    await ended("DONE", disks.detachDynamicDisk({ diskName: "data", wait: true }));
    cpi.misbehave({ attach_disk: "hides" });
    await ended("ERROR", disks.provideDynamicDisk(disk));

    for (const task of (await tasks.listTasks({})).tasks)
      for (const type of [TaskOutputType.EVENT, TaskOutputType.RESULT, TaskOutputType.DEBUG, TaskOutputType.CPI])
        see(`${type} of ${task.taskId}`, await tasks.getTaskOutput({ taskId: task.taskId, type, maxLines: 1_000 }));
    for (const name of ["director", "cpi-dispatcher"]) await mesh.process(name).stop();
    see("traces", traces.received);
    for (const [file, text] of filesBelow(mesh.folder).filter(([file]) => file.endsWith(".log"))) see(file, text);

    // Proves that the secrets occurred, and that the search covered the places in which they occurred.
    const places = [...seen.keys()].join("\n");
    for (const place of ["director.log", "cpi-dispatcher.log", "process", "run/"]) expect(places).to.include(place);
    const texts = [...seen.values()].join("\n");
    for (const said of ["told 0.key, one line: <redacted>", "told 1.5.text, Base64: <redacted>", "CreateVm"])
      expect(texts).to.include(said);
    expect(texts).to.match(/nowhere to be found: .*told 0\.text, raw: <redacted>/);
    const found = [...seen].flatMap(([where, text]) =>
      [...formsOf(CANARIES)]
        .filter((one) => [one.text, inJson(one.text)].some((form) => text.includes(form)))
        .map(({ form }) => `${form} in ${where}`),
    );
    expect(found).to.deep.equal([]);
  });
});

const inJson = (text: string): string => JSON.stringify(text).slice(1, -1);

function argumentsOf(pid: number): string {
  return ["cmdline", "environ"].map((name) => readOrNothing(`/proc/${pid}/${name}`)).join("\n");
}

function filesBelow(folder: string): [file: string, text: string][] {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return files.map((entry) => join(entry.parentPath, entry.name)).map((file) => [file, readOrNothing(file)]);
}

function readOrNothing(file: string): string {
  try {
    return readFileSync(file, "latin1");
  } catch {
    // The process, or its file, has disappeared since the listing.
    return "";
  }
}
