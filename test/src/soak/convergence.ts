import { AttachState, HostState } from "@diskmesh/api/registry";
import { messageOf } from "@diskmesh/domain";
import { eventually } from "@diskmesh/testkit";
import { repairDevices } from "./operations/index.js";
import { PATIENCE_MS, type Soak } from "./soak.js";
import type { SoakFleet } from "./soak-fleet.js";
import { underWay } from "./under-way.js";

const LOOK = { timeoutMs: PATIENCE_MS, everyMs: 500 };

/** Requires that the mesh recovers completely once faults and work have ended. */
export async function mustConverge(soak: Soak): Promise<void> {
  const { fleet, violations } = soak;
  const checks: Readonly<Record<string, () => Promise<string[]>>> = {
    "every process is up": async () =>
      [...fleet.supervised.values()].filter((one) => !one.isUp).map(({ name }) => `${name} is not up`),
    "every host is ONLINE": () => hostsNotOnline(fleet),
    "every device of a work host is ATTACHED and clean": async () => {
      await repairDevices(soak);
      return devicesNotReady(fleet);
    },
    "no disk is left": () => disksLeft(fleet),
    "no task is left": () => tasksLeft(fleet),
  };
  for (const [name, check] of Object.entries(checks)) {
    try {
      await underWay(name, (wentWrong) =>
        eventually(async () => {
          const problems = await check();
          if (problems.length === 0) return;
          wentWrong(problems.join("; "));
          throw new Error(problems.join("; "));
        }, LOOK),
      );
    } catch (error) {
      violations.add(`converges: ${name}: not within ${PATIENCE_MS} ms: ${messageOf(error)}`);
    }
  }
}

async function hostsNotOnline({ mesh }: SoakFleet): Promise<string[]> {
  const hosts = await Promise.all(mesh.hostIds.map((hostId) => mesh.clients.registry.getHost({ hostId })));
  return hosts.flatMap(({ host }) => (host?.state === HostState.ONLINE ? [] : [`${host?.hostId} is ${host?.state}`]));
}

async function devicesNotReady({ mesh, workHosts }: SoakFleet): Promise<string[]> {
  const all = { pageSize: 1_000 };
  const lists = await Promise.all(workHosts.map((hostId) => mesh.clients.registry.listDevices({ hostId, ...all })));
  return lists
    .flatMap(({ devices }) => devices)
    .filter(
      ({ attachState, dirty, health }) => attachState !== AttachState.ATTACHED || dirty || health !== "HEALTH_ONLINE",
    )
    .map((one) => `${one.deviceId} ${one.attachState} ${one.health} dirty=${one.dirty} ${one.lastError}`);
}

async function disksLeft({ mesh }: SoakFleet): Promise<string[]> {
  const all = { pageSize: 1_000 };
  const { disks } = await mesh.clients.registry.listDisks(all);
  const { disks: dynamic } = await mesh.clients.disks.listDisks(all);
  const persistent = await mesh.clients.deployments.listPersistentDisks(all);
  return [
    ...disks.map(({ diskId }) => `disk ${diskId}`),
    ...dynamic.map(({ diskName }) => `dynamic disk ${diskName}`),
    ...persistent.disks.map(({ diskCid }) => `persistent disk ${diskCid}`),
  ];
}

async function tasksLeft({ mesh }: SoakFleet): Promise<string[]> {
  const states = ["TASK_STATE_QUEUED", "TASK_STATE_PROCESSING", "TASK_STATE_CANCELLING"] as const;
  const { tasks } = await mesh.clients.tasks.listTasks({
    states: [...states],
    pageSize: 100,
  });
  return tasks.map(({ taskId, type, state }) => `task ${taskId} (${type}) is ${state}`);
}
