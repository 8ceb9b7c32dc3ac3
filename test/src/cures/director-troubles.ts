import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { MIB_BYTES } from "@diskmesh/domain";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { deployInstances } from "../mesh/steps.js";
import type { TestMesh } from "../mesh/test-mesh.js";
import { done } from "../mesh/typed-lines.js";
import type { Trouble } from "./trouble.js";

const OTHERS = "host-2 host-3 host-4";
const VM = ["vm", "work/worker/0"] as const;

/** Deploys an instance to host-1, unless there is one. */
async function deployed(mesh: TestMesh): Promise<string> {
  await done(mesh, `set-host-state cordoned ${OTHERS} --reason test`);
  const [instanceId = ""] = await deployInstances(mesh, 1);
  await done(mesh, `set-host-state online ${OTHERS}`);
  return instanceId;
}

/** Restores a backup that was made while two tasks were under way. */
async function restored(mesh: TestMesh): Promise<void> {
  const instanceId = await deployed(mesh);
  mesh.process("cpi-dispatcher").signal("SIGSTOP");
  const tasks = await Promise.all(
    ["one", "two"].map(async (diskName) => {
      const disk = { diskName, instanceId, diskPoolName: "default", sizeBytes: MIB_BYTES };
      return (await mesh.clients.disks.provideDynamicDisk({ ...disk, wait: false })).task?.taskId ?? 0;
    }),
  );
  const [file, config] = [join(mesh.folder, "director.backup"), join(mesh.folder, "shipped.yaml")];
  await done(mesh, `backup director ${file}`);
  mesh.process("cpi-dispatcher").signal("SIGCONT");
  for (const taskId of tasks)
    await eventually(async () => {
      expect((await mesh.clients.tasks.getTask({ taskId })).task?.endTime).not.to.equal(undefined);
    });
  await mesh.process("director").stop();
  // Released programs do not accept limits from tests.
  writeFileSync(config, JSON.stringify({ ...mesh.process("director").config, tuning: undefined }));
  await done(mesh, `restore director ${file} --config ${config} --replace`);
  await mesh.process("director").start();
}

const heldTask = async ({ clients: { tasks } }: TestMesh): Promise<readonly [string, string]> => {
  const { tasks: held } = await tasks.listTasks({ states: ["TASK_STATE_HELD"] });
  return ["task", String(held[0]?.taskId)];
};

async function isAbsent({ clients: { deployments } }: TestMesh): Promise<void> {
  const { instances } = await deployments.listInstances({ deployment: "work" });
  expect(instances[0]?.vmCid).to.equal("");
}

const restart = async (mesh: TestMesh) => {
  await done(mesh, "add-host host-1 --wait");
  await mesh.clients.lifecycle.start({ selection: { deployment: "work" }, wait: true });
};

export const DIRECTOR_TROUBLES: readonly Trouble[] = [
  {
    ...{ title: "a task under way in a restored backup", asked: heldTask, reason: "HELD" },
    make: restored,
    cure: /^diskmesh resume /,
  },
  {
    ...{ title: "another task under way in a restored backup", asked: heldTask, reason: "HELD" },
    make: async () => {},
    cure: /^diskmesh cancel /,
  },
  {
    ...{ title: "a host to be removed that is a VM", asked: ["host", "host-1"], reason: "IN_USE" },
    make: async (mesh) => {
      await mesh.typed("remove-host", "host-1");
    },
    cure: /^bosh -d work stop --hard worker\//,
    gone: isAbsent,
    after: restart,
  },
  {
    ...{ title: "a VM whose host was purged", asked: VM, reason: "VM_NOWHERE" },
    make: async (mesh) => {
      await mesh.process("host-1").kill();
      await done(mesh, "purge-host host-1 --force");
    },
    cure: /^bosh -d work cloud-check$/,
    after: (mesh) => mesh.process("host-1").start(),
  },
];
