import { join } from "node:path";
import { Drive, eventually } from "@diskmesh/testkit";
import { reboot, rebootable } from "../mesh/boot-ids.js";
import type { MeshPlan } from "../mesh/plan.js";
import { changeDevices } from "../mesh/steps.js";
import type { TestMesh } from "../mesh/test-mesh.js";
import { done } from "../mesh/typed-lines.js";
import { isolationProblem } from "../namespaces/isolation.js";

const HOST = "host-4";
const DEVICE = { deviceId: `${HOST}-drive`, pool: "drive" };
let drive: Drive | undefined;

/** Returns why no machine with another boot id, or no drive without an identity, can be had here. */
export function whyNoReboot(): string | undefined {
  return isolationProblem() ?? Drive.problem();
}

/** Returns the plan with a machine of its own for host-4, where this machine can provide one. */
export function withReboots(plan: MeshPlan): MeshPlan {
  const launcher = ({ folder }: Pick<TestMesh, "folder">) => rebootable(folder, HOST);
  return { ...plan, processes: plan.processes.map((each) => (each.name === HOST ? { ...each, launcher } : each)) };
}

/** Gives the host a drive without an identity, and reboots the host. */
export async function rebootWithDrive(mesh: TestMesh): Promise<void> {
  drive = await Drive.open(join(mesh.folder, "drive"), 1024 * 1024);
  const device = { ...DEVICE, path: drive.path };
  await changeDevices(mesh, HOST, (devices) => [...devices, device]);
  await done(mesh, `add-device ${HOST} ${DEVICE.deviceId} --accept-unidentified --wait`);
  reboot(mesh.folder, HOST);
  await mesh.process(HOST).restart();
}

/** Takes the drive out of the host. */
export async function takeDriveOut(mesh: TestMesh): Promise<void> {
  await done(mesh, `remove-device ${HOST} ${DEVICE.deviceId} --keep-data --wait`);
  await changeDevices(mesh, HOST, (devices) => devices.filter(({ deviceId }) => deviceId !== DEVICE.deviceId));
  await drive?.close();
  // AddHost would take the drive in again.
  await eventually(() => mesh.clients.registry.purgeDevice({ hostId: HOST, deviceId: DEVICE.deviceId }));
}
