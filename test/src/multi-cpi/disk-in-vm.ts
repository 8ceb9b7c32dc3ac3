import { open } from "node:fs/promises";
import { join } from "node:path";
import type { Instance } from "@diskmesh/api/director";
import { NbdClient } from "@diskmesh/disk-agent/nbd-client";
import type { AgentClient } from "@diskmesh/mbus";
import { eventually } from "@diskmesh/testkit";
import { type FiveCpis, HOSTS } from "./five-cpis.js";

/** A dynamic disk as a VM's programs see it. */
export interface DiskInVm extends AsyncDisposable {
  write(text: string): Promise<void>;
  read(lengthBytes: number): Promise<string>;
}

/** Opens the disk: on a host an NBD export, in a VM of the reference CPI a file behind a link of its agent. */
export async function openDisk(
  five: FiveCpis,
  agents: AgentClient,
  { az, agentId, vmCid, usesRegistry }: Instance,
  diskCid: string,
): Promise<DiskInVm> {
  if (HOSTS.has(agentId)) return exportedDisk(five.mesh.dynamicDisk(agentId, diskCid));
  const installed = five.installed[{ z1: 0, z2: 1, z3: 2 }[az] as 0 | 1 | 2];
  if (!usesRegistry) return fileDisk(join(installed.vmFolder(vmCid), "dynamic_disks", diskCid));
  // With API version 1 no call reports dynamic disks to the agent, which finds them in its settings in the
  // bosh-registry.
  await agents.call(agentId, "mount_disk", [diskCid]);
  const disk = await fileDisk(installed.imageFile(diskCid));
  return {
    ...disk,
    async [Symbol.asyncDispose]() {
      await disk[Symbol.asyncDispose]();
      await agents.call(agentId, "unmount_disk", [diskCid]);
    },
  };
}

async function fileDisk(path: string): Promise<DiskInVm> {
  const file = await open(path, "r+");
  return {
    async write(text) {
      await file.write(Buffer.from(text), 0, undefined, 0);
    },
    async read(lengthBytes) {
      return (await file.read(Buffer.alloc(lengthBytes), 0, lengthBytes, 0)).buffer.toString();
    },
    [Symbol.asyncDispose]: () => file.close(),
  };
}

async function exportedDisk(socketPath: string): Promise<DiskInVm> {
  // An export may be reported shortly before it accepts clients.
  const client = await eventually(() => NbdClient.connect({ socketPath }));
  return {
    write: (text) => client.write(0, Buffer.from(text), { fua: true }),
    read: async (lengthBytes) => (await client.read(0, lengthBytes)).toString(),
    [Symbol.asyncDispose]: () => client.disconnect(),
  };
}
