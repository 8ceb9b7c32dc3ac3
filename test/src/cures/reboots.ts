import { spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Drive, eventually } from "@diskmesh/testkit";
import type { MeshPlan } from "../mesh/plan.js";
import type { TestMesh } from "../mesh/test-mesh.js";
import { done, PATIENCE } from "./trouble.js";

const HOST = "host-4";
const BOOT_ID = "/proc/sys/kernel/random/boot_id";
const DEVICE = { deviceId: `${HOST}-drive`, pool: "drive" };
/** Reads boot ids from a file in place of the machine's. */
const LAUNCHER = ["unshare", "--mount", "--propagation", "slave", "sh", "-c"];
const SCRIPT = `mount --bind "$0" ${BOOT_ID} && exec "$@"`;

let drive: Drive | undefined;

const bootFile = ({ folder }: Pick<TestMesh, "folder">): string => join(folder, "boot-id");

/** Returns why no machine with another boot id, or no drive without an identity, can be had here. */
export function whyNoReboot(): string | undefined {
  const { status } = spawnSync("unshare", ["--mount", "true"]);
  return status === 0 ? Drive.problem() : "no mount namespace can be made here";
}

/** Returns the plan with a machine of its own for host-4, where this machine can provide one. */
export function withReboots(plan: MeshPlan): MeshPlan {
  if (whyNoReboot() !== undefined) return plan;
  const processes = plan.processes.map((each) => ({
    ...each,
    ...(each.name === HOST && {
      launcher: (mesh: Pick<TestMesh, "folder">) => {
        writeFileSync(bootFile(mesh), randomUUID());
        return [...LAUNCHER, SCRIPT, bootFile(mesh)];
      },
    }),
  }));
  return { ...plan, processes };
}

/** Gives the host a drive without an identity, and reboots the host. */
export async function rebootWithDrive(mesh: TestMesh): Promise<void> {
  drive = await Drive.open(join(mesh.folder, "drive"), 1024 * 1024);
  const agent = mesh.process(HOST);
  const { devices } = agent.config as { readonly devices: readonly object[] };
  await agent.restart({ ...agent.config, devices: [...devices, { ...DEVICE, path: drive.path }] });
  await done(mesh, `add-device ${HOST} ${DEVICE.deviceId} --accept-unidentified --wait`);
  writeFileSync(bootFile(mesh), randomUUID());
  await agent.restart();
}

/** Takes the drive out of the host. */
export async function takeDriveOut(mesh: TestMesh): Promise<void> {
  await done(mesh, `remove-device ${HOST} ${DEVICE.deviceId} --keep-data --wait`);
  const agent = mesh.process(HOST);
  const { devices } = agent.config as { readonly devices: readonly { readonly deviceId: string }[] };
  const others = devices.filter(({ deviceId }) => deviceId !== DEVICE.deviceId);
  await agent.restart({ ...agent.config, devices: others });
  await drive?.close();
  // AddHost would take the drive in again.
  await eventually(() => mesh.clients.registry.purgeDevice({ hostId: HOST, deviceId: DEVICE.deviceId }), PATIENCE);
}
