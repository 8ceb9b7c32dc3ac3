import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { MIB_BYTES } from "@diskmesh/domain";
import { wholeFleet } from "../../mesh/fleets.js";
import { addHosts, devicesReady } from "../../mesh/steps.js";
import { TestMesh } from "../../mesh/test-mesh.js";

const run = promisify(execFile);

export const DISK_BYTES = 256 * MIB_BYTES;
/** Host of every device. */
export const DEVICE_HOST = "host-1";

export type Engine = "node" | "qemu";
type Where = "local" | "remote";

/** A place that fio reads and writes: an NBD socket or a block device. */
export type Place = { readonly socket: string } | { readonly device: string };

/** A published disk on a mesh of its own. */
export interface BenchDisk {
  readonly mesh: TestMesh;
  readonly diskId: string;
  /** Host of the holder. */
  readonly hostId: string;
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
  measure: (disk: BenchDisk) => Promise<T>,
): Promise<T> {
  report(`starting a mesh with engine ${engine} ...`);
  await using mesh = await startMesh(engine);
  const { registry } = mesh.clients;
  const diskId = `bench-${where}`;
  await registry.createDisk({ diskId, sizeBytes: DISK_BYTES, az: "z1", hostId: DEVICE_HOST });
  const hostId = where === "local" ? DEVICE_HOST : "host-2";
  await registry.publishDisk({ diskId, hostId });
  const path = join(mesh.baseFolder(hostId), "exports", diskId);
  try {
    return await measure({ mesh, diskId, hostId, socket: `${path}.sock`, device: `${path}.device` });
  } finally {
    await registry.unpublishDisk({ diskId });
  }
}

interface MeshOptions {
  readonly devicesPerHost?: number;
  readonly deviceSizeBytes?: number;
  /** Merged over the registry's config. */
  readonly registry?: object;
}

/** Starts a mesh of two hosts, with a device each unless more are asked for. */
export async function startMesh(
  engine: Engine,
  { devicesPerHost = 1, deviceSizeBytes = DISK_BYTES, registry = {} }: MeshOptions = {},
): Promise<TestMesh> {
  const overrides = { "disk-agent": { engine }, "disk-registry": registry };
  const mesh = await TestMesh.start(wholeFleet({ hosts: 2, devicesPerHost, deviceSizeBytes, overrides }));
  await addHosts(mesh);
  await devicesReady(mesh);
  return mesh;
}

interface FioResult {
  readonly mibPerSecond: number;
  readonly operations: number;
  /** Longest operation in ms. */
  readonly longestMs: number;
  /** 99th percentile of the operations' durations in ms. */
  readonly p99Ms: number;
}

interface FioSide {
  readonly bw_bytes: number;
  readonly total_ios: number;
  readonly clat_ns: { readonly max: number; readonly percentile?: Readonly<Record<string, number>> };
}

/** Runs fio on the whole disk. Throws when an operation failed. */
export async function fio(place: Place, options: readonly string[]): Promise<FioResult> {
  const where =
    "socket" in place
      ? ["--ioengine=nbd", `--uri=nbd+unix:///?socket=${place.socket}`]
      : ["--ioengine=libaio", "--direct=1", `--filename=${place.device}`];
  const usual = ["--name=bench", "--output-format=json", `--size=${DISK_BYTES}`];
  const { stdout } = await run("fio", [...usual, ...where, ...options]);
  const { jobs } = JSON.parse(stdout.slice(stdout.indexOf("{"))) as {
    jobs: { readonly error: number; readonly read: FioSide; readonly write: FioSide }[];
  };
  const [job] = jobs;
  if (job === undefined || job.error !== 0) throw new Error(`fio ended with error ${job?.error}`);
  const { read, write } = job;
  return {
    mibPerSecond: (read.bw_bytes + write.bw_bytes) / MIB_BYTES,
    operations: read.total_ios + write.total_ios,
    longestMs: Math.max(read.clat_ns.max, write.clat_ns.max) / 1e6,
    p99Ms: Math.max(...[read, write].map(({ clat_ns: { percentile } }) => percentile?.["99.000000"] ?? 0)) / 1e6,
  };
}
