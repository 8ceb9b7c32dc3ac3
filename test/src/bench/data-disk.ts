import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { MIB_BYTES } from "@diskmesh/domain";
import { wholeFleet } from "../mesh/fleets.js";
import { addHosts, devicesReady } from "../mesh/steps.js";
import { TestMesh } from "../mesh/test-mesh.js";

const run = promisify(execFile);

export const DISK_BYTES = 256 * MIB_BYTES;
const DEVICE_HOST = "host-1";

export type Where = "local" | "remote";

/** Publishes a disk on a mesh whose agents have the engine node, and measures it at the URI of its NBD socket. */
export async function onDisk<T>(
  report: (line: string) => void,
  where: Where,
  measure: (uri: string) => Promise<T>,
): Promise<T> {
  report("starting a mesh ...");
  const overrides = { "disk-agent": { engine: "node" } };
  const fleet = { hosts: 2, devicesPerHost: 1, deviceSizeBytes: DISK_BYTES + 2 * MIB_BYTES, overrides };
  await using mesh = await TestMesh.start(wholeFleet(fleet));
  await addHosts(mesh);
  await devicesReady(mesh);
  const { registry } = mesh.clients;
  const diskId = `bench-${where}`;
  await registry.createDisk({ diskId, sizeBytes: DISK_BYTES, az: "z1", hostId: DEVICE_HOST });
  const hostId = where === "local" ? DEVICE_HOST : "host-2";
  await registry.publishDisk({ diskId, hostId });
  try {
    return await measure(`nbd+unix:///?socket=${join(mesh.baseFolder(hostId), "exports", `${diskId}.sock`)}`);
  } finally {
    await registry.unpublishDisk({ diskId });
  }
}

/** Resolves once an NBD server answers. */
export async function reads(uri: string): Promise<void> {
  await run("nbdinfo", ["--size", uri]);
}

/** Runs fio on the whole disk. Returns its rate in MiB/s. Throws when an operation failed. */
export async function fio(uri: string, options: readonly string[]): Promise<number> {
  const where = ["--ioengine=nbd", `--uri=${uri}`];
  const usual = ["--name=bench", "--output-format=json", `--size=${DISK_BYTES}`];
  const { stdout } = await run("fio", [...usual, ...where, ...options]);
  const { jobs } = JSON.parse(stdout.slice(stdout.indexOf("{"))) as {
    jobs: { readonly error: number; readonly read: FioSide; readonly write: FioSide }[];
  };
  const [job] = jobs;
  if (job === undefined || job.error !== 0) throw new Error(`fio ended with error ${job?.error}`);
  return (job.read.bw_bytes + job.write.bw_bytes) / MIB_BYTES;
}

interface FioSide {
  readonly bw_bytes: number;
}
