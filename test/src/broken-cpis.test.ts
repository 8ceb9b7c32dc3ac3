import { chmodSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Task, TaskState } from "@diskmesh/api/director";
import { MIB_BYTES } from "@diskmesh/domain";
import { eventually, leaveToVerify, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { wholeFleet } from "./mesh/fleets.js";
import { addHosts, devicesReady } from "./mesh/steps.js";
import { TestMesh } from "./mesh/test-mesh.js";
import { processesOf } from "./multi-cpi/processes.js";

const PATIENCE_MS = 120_000;
/** Half of them have to do with the CPI that works, too; more than there are workers for either. */
const DEPLOYS_OF_EACH = 10;

const INFO = `'{"result":{"api_version":2,"needs_vm_spec":false},"error":null,"log":""}'`;
const ANSWERS_INFO = (otherwise: string) =>
  `case "$(cat)" in '{"method":"info"'*) echo ${INFO} ;; *) ${otherwise} ;; esac`;

/** What each of them does when it is run. */
const BROKEN = {
  mute: "sleep 600",
  stubborn: ANSWERS_INFO(`trap '' TERM; while true; do sleep 1; done`),
  crashing: "exit 1",
  babbling: "echo garbage",
  flooding: "exec yes >&2",
  missing: undefined,
} as const;
type BrokenCpi = keyof typeof BROKEN;
const NAMES = Object.keys(BROKEN) as BrokenCpi[];

/** One story: each step goes on where the one before it ended. */
describe("a mesh with six broken CPIs and one that works", () => {
  const folder = temporaryFolder();
  let mesh: TestMesh;
  const tasksOf = new Map<BrokenCpi, number[]>();

  before(async function () {
    leaveToVerify(this);
    const executables = { jobsFolder: folder, runFolder: join(folder, "runs") };
    mesh = await TestMesh.start(
      wholeFleet({
        hosts: 2,
        devicesPerHost: 1,
        deviceSizeBytes: MIB_BYTES,
        overrides: { "cpi-dispatcher": { registry: { address: "127.0.0.1:1" }, executables } },
      }),
    );
    await addHosts(mesh);
    await devicesReady(mesh);
    const registry = mesh.address("disk-registry");
    const cpis = NAMES.map((name) => `- { name: ${name}, type: script, exec_path: ${executableOf(name)} }\n`);
    await update(
      "cpi",
      `cpis:\n${cpis.join("")}- { name: good, type: fleet, properties: { registry_address: "${registry}" } }\n`,
    );
    const azs = [...NAMES.map((name) => `- { name: az-${name}, cpi: ${name} }\n`), "- { name: z1, cpi: good }\n"];
    await update("cloud", `azs:\n${azs.join("")}`);
  });
  after(async () => {
    await mesh?.[Symbol.asyncDispose]();
    await eventually(() => expect(processesOf(folder)).to.deep.equal([]), { timeoutMs: PATIENCE_MS });
  });

  function executableOf(name: BrokenCpi): string {
    const path = join(folder, name);
    if (BROKEN[name] === undefined) return path;
    writeFileSync(path, `#!/bin/sh\necho run >> ${path}.runs\n${BROKEN[name]}\n`);
    chmodSync(path, 0o755);
    return path;
  }
  const runsOf = (name: BrokenCpi): number =>
    existsSync(join(folder, `${name}.runs`))
      ? readFileSync(join(folder, `${name}.runs`), "utf8").split("\n").length - 1
      : 0;
  const update = (type: string, content: string) => mesh.clients.configs.updateConfig({ type, content });
  const running = (name: BrokenCpi) => processesOf(join(folder, name));

  async function deploy(name: string, azs: readonly string[], wait: boolean): Promise<Task> {
    const manifest = `name: ${name}\ninstance_groups:\n- { name: vm, instances: 1, azs: [${azs.join(", ")}] }\n`;
    const { task } = await mesh.clients.deployments.deploy({ manifest, wait }, { deadlineMs: PATIENCE_MS });
    return task as Task;
  }
  const taskOf = async (taskId: number) => (await mesh.clients.tasks.getTask({ taskId })).task as Task;
  const ended = (taskId: number) =>
    eventually(
      async () => {
        const task = await taskOf(taskId);
        if (task.endedAt === undefined) throw new Error(`task ${taskId} is ${task.state}`);
        return task;
      },
      { timeoutMs: PATIENCE_MS, everyMs: 200 },
    );
  const worksWell = async (): Promise<void> => {
    expect(await deploy("well", ["z1"], true)).to.include({ state: TaskState.DONE });
    const { task } = await mesh.clients.deployments.deleteDeployment(
      { deployment: "well", wait: true },
      { deadlineMs: PATIENCE_MS },
    );
    expect(task).to.include({ state: TaskState.DONE });
  };

  it("however many deploys wait for those, one with the CPI that works is done, and its deletion", async () => {
    for (const name of NAMES) {
      const tasks = [];
      for (let index = 0; index < DEPLOYS_OF_EACH; index++) {
        const azs = index % 2 === 0 ? [`az-${name}`] : [`az-${name}`, "z1"];
        tasks.push((await deploy(`${name}-${index}`, azs, false)).taskId);
      }
      tasksOf.set(name, tasks);
    }
    await eventually(() => running("mute").length > 0 && running("stubborn").length > 0, { timeoutMs: PATIENCE_MS });
    await worksWell();
  });

  for (const [name, says] of [
    ["crashing", /there is none: the CPI ended with exit code 1/],
    ["babbling", /is not JSON/],
    ["flooding", /wrote more than 33554432 bytes to standard error and was killed/],
    ["missing", /cannot be run \(ENOENT\): install it there/],
  ] as const)
    it(`deploys with the ${name} one fail at the first try, and say why`, async () => {
      for (const taskId of tasksOf.get(name) as number[]) {
        const task = await ended(taskId);
        expect(task.state).to.equal(TaskState.ERROR);
        expect(task.result).to.match(says);
      }
      if (BROKEN[name] !== undefined) expect(runsOf(name)).to.be.within(1, DEPLOYS_OF_EACH);
      expect(running(name)).to.deep.equal([]);
    });

  it("cancelled -> the process is gone, even one that does not heed SIGTERM, and the task says what is not known", async () => {
    for (const name of ["mute", "stubborn"] as const) {
      const tasks = tasksOf.get(name) as number[];
      for (const taskId of [...tasks].reverse()) await mesh.clients.tasks.cancelTask({ taskId }).catch(() => {});
      for (const taskId of tasks) {
        const task = await ended(taskId);
        // One that hangs in its info is given up by itself, too.
        if (name === "mute" && task.state === TaskState.ERROR) expect(task.result).to.include("infoTimeoutMs");
        else expect(task.state).to.equal(TaskState.CANCELLED);
        if (name === "stubborn" && task.result !== "cancelled by operator")
          expect(task.result).to.match(/^cancelled by operator; CPI createVm failed: .*what it has done is not known/);
      }
      await eventually(() => expect(running(name)).to.deep.equal([]), { timeoutMs: PATIENCE_MS });
    }
    const { possibleOrphans } = await mesh.clients.deployments.listPossibleOrphans({});
    expect(possibleOrphans.map(({ cpi }) => cpi)).to.include("stubborn");
    await worksWell();
  });

  it("the dispatcher is killed in the middle of a call -> nothing of that is left, and the CPI that works goes on", async () => {
    const { taskId } = await deploy("stubborn-0", ["az-stubborn"], false);
    await eventually(() => running("stubborn").length > 0, { timeoutMs: PATIENCE_MS });
    const before = running("stubborn").map(({ pid }) => pid);
    const dispatcher = mesh.process("cpi-dispatcher");
    await dispatcher.kill();
    await dispatcher.start();
    expect(running("stubborn").filter(({ pid }) => before.includes(pid))).to.deep.equal([]);
    const task = await ended(taskId);
    expect(task.state).to.equal(TaskState.ERROR);
    await worksWell();
  });
});
