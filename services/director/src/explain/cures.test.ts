import { type Cause, SubjectKind } from "@diskmesh/api/common";
import { TaskState } from "@diskmesh/api/director";
import { InvalidStateError } from "@diskmesh/domain";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { type HttpDirector, startHttpDirector } from "../testing/http-director.js";
import type { TestDirector } from "../testing/test-director.js";
import { typeBosh } from "../testing/type-bosh.js";

const CLOUD = "azs: [{name: z1}]\ndisk_types: [{name: fast, disk_size: 64}]\n";
const MANIFEST = "name: web\ninstance_groups:\n- {name: db, instances: 1, azs: [z1]}\n";
const DB = { deployment: "web", group: "db", instance: "0" };
const HEARTBEAT_MS = 200;

type Trouble = readonly [
  what: string,
  make: (director: TestDirector) => Promise<unknown>,
  reason: string,
  cure: RegExp,
];

const deploy = ({ deployments }: TestDirector) => deployments.deploy({ manifest: MANIFEST, wait: true });

/** Recreates the instance's VM, and kills the task while it calls the CPI. */
async function interrupted(director: TestDirector, method: "createVm" | "deleteVm"): Promise<void> {
  const gate = director.cpi.gate(method, "before");
  const { task } = await director.lifecycle.recreate({ selection: DB });
  await gate.reached;
  await director.tasks.cancelTask({ taskId: task?.taskId ?? 0 });
  await director.ended(task?.taskId ?? 0);
  gate.release();
}

/** Stops the agent of the instance's VM. The agent of a new VM runs. */
async function stopAgent(director: TestDirector): Promise<void> {
  const { instances } = await director.deployments.listInstances({ deployment: "web" });
  const agent = director.agent(instances[0]?.agentId ?? "");
  await agent.stop();
  const gate = director.cpi.gate("createVm", "after");
  void gate.reached.then(async () => {
    await agent.start();
    gate.release();
  });
}

async function lose(director: TestDirector): Promise<void> {
  await stopAgent(director);
  await director.lifecycle.restart({ selection: DB, wait: true });
}

async function failToCreate(director: TestDirector): Promise<void> {
  await director.deployments.deleteDeployment({ deployment: "web", wait: true });
  director.cpi.failNext("createVm", new InvalidStateError("no room"));
  await deploy(director);
}

/** Rows: the trouble of a VM, how it comes about, the cause that is shown, and the offered command. */
const TROUBLES: readonly Trouble[] = [
  ["ignored", ({ lifecycle }) => lifecycle.ignore({ selection: DB }), "IGNORED", /unignore db\//],
  ["never created", failToCreate, "NO_VM", /cloud-check$/],
  ["never created", failToCreate, "NO_VM", /^deploy again/],
  ["stopped", ({ lifecycle }) => lifecycle.stop({ selection: DB, wait: true }), "STOPPED", /start db\//],
  ["deleted", ({ lifecycle }) => lifecycle.stop({ selection: DB, hard: true, wait: true }), "STOPPED", /start db\//],
  ["perhaps created", (director) => interrupted(director, "createVm"), "VM_UNSETTLED", /cloud-check$/],
  ["perhaps created", (director) => interrupted(director, "createVm"), "VM_UNSETTLED", /^deploy again/],
  ["perhaps deleted", (director) => interrupted(director, "deleteVm"), "VM_UNSETTLED", /cloud-check$/],
  ["lost", lose, "VM_LOST", /cloud-check$/],
  ["lost", lose, "VM_LOST", /^deploy again/],
  ["without an agent that is heard", stopAgent, "AGENT_SILENT", /recreate db\//],
  [
    "not told that a disk was detached",
    async (director) => {
      const { instances } = await director.deployments.listInstances({ deployment: "web" });
      await director.provide("owed", instances[0]?.instanceId ?? "");
      await stopAgent(director);
      await director.detach("owed");
    },
    "OWES_REMOVALS",
    /recreate db\//,
  ],
];

describe("the cures that explain offers for a VM", () => {
  let { director, http }: Partial<HttpDirector> = {};

  before(async () => {
    const agents = { requestTimeoutMs: 2_000, detachTimeoutMs: 500, lostAfterMs: 2_000, unresponsiveAfterMs: 2_000 };
    ({ director, http } = await startHttpDirector({}, { agents: { readyTimeoutMs: 30_000 }, tuning: { agents } }));
    await director.configs.updateConfig({ type: "cloud", content: CLOUD });
  });
  after(() => director?.stop());

  for (const [what, make, reason, cure] of TROUBLES)
    it(`${what}: ${cure.source} ends ${reason}`, async () => {
      if (director === undefined || http === undefined) throw new Error("there is no director");
      const { why } = director;
      for (const agent of director.agents) {
        agent.heartbeatIntervalMs = HEARTBEAT_MS;
        await agent.stop();
        await agent.start();
      }
      await director.deployments.deleteDeployment({ deployment: "web", wait: true });
      await deploy(director);
      const causes = (): Promise<readonly Cause[]> => why.call(director, SubjectKind.VM, "web/db/0");
      await eventually(async () => expect(await causes()).to.deep.equal([]));
      await make(director);
      const command = await eventually(async () => {
        const offered = (await causes()).filter((each) => each.reason === reason).flatMap(({ cures }) => cures);
        const found = offered.find((each) => cure.test(each.command) || cure.test(each.what));
        if (found === undefined) throw new Error(`no cure ${cure} among ${JSON.stringify(await causes())}`);
        return cure.test(found.command) ? found.command : found.what;
      });
      if (command.startsWith("bosh ")) await typeBosh(http, command);
      else expect((await deploy(director)).task?.state).to.equal(TaskState.DONE);
      await eventually(async () => expect(await causes()).to.deep.equal([]));
    });
});
