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

type Engine = "node" | "qemu";
type Where = "local" | "remote";

/** A place that fio reads and writes: an NBD socket or a block device. */
export type Place = { readonly socket: string } | { readonly device: string };

/** A disk that is served. */
export interface DataDisk {
  /** Path of the NBD socket. */
  readonly socket: string;
  /** Path of the block device. */
  readonly device: string;
}

/** Publishes a disk on a mesh whose agents have this engine, and measures it. */
export async function onDisk<T>(
  report: (line: string) => void,
  engine: Engine,
  where: Where,
  measure: (disk: DataDisk) => Promise<T>,
): Promise<T> {
  report(`starting a mesh with engine ${engine} ...`);
  const overrides = { "disk-agent": { engine } };
  const fleet = { hosts: 2, devicesPerHost: 1, deviceSizeBytes: DISK_BYTES + 2 * MIB_BYTES, overrides };
  await using mesh = await TestMesh.start(wholeFleet(fleet));
  await addHosts(mesh);
  await devicesReady(mesh);
  const { registry } = mesh.clients;
  const diskId = `bench-${where}`;
  await registry.createDisk({ diskId, sizeBytes: DISK_BYTES, az: "z1", hostId: DEVICE_HOST });
  const hostId = where === "local" ? DEVICE_HOST : "host-2";
  await registry.publishDisk({ diskId, hostId });
  const path = join(mesh.baseFolder(hostId), "exports", diskId);
  try {
    return await measure({ socket: `${path}.sock`, device: `${path}.device` });
  } finally {
    await registry.unpublishDisk({ diskId });
  }
}

/** Runs fio on the whole disk. Returns its rate in MiB/s. Throws when an operation failed. */
export async function fio(place: Place, options: readonly string[]): Promise<number> {
  const where =
    "socket" in place
      ? ["--ioengine=nbd", `--uri=nbd+unix:///?socket=${place.socket}`]
      : ["--ioengine=libaio", "--direct=1", "--allow_file_create=0", `--filename=${place.device}`];
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
