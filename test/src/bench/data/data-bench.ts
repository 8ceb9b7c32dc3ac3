import { execFile, spawn } from "node:child_process";
import { mkdirSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { whyNoBlockDevices } from "@diskmesh/disk-agent/block-devices";
import { freePort, temporaryFolder } from "@diskmesh/testkit";
import { type Measurement, measurement } from "../measure.js";
import { DISK_BYTES, fio, onDisk, type Place } from "./disk.js";
import { benchMoves } from "./moves.js";
import { benchTimes } from "./times.js";

const run = promisify(execFile);

const ROUNDS = 3;
const ROUND_SECONDS = 2;

/** Loads of one connection. */
const LOADS = {
  "4k_read": ["--rw=randread", "--bs=4k", "--iodepth=32"],
  "4k_write": ["--rw=randwrite", "--bs=4k", "--iodepth=32"],
  "1m_read": ["--rw=read", "--bs=1m", "--iodepth=8"],
  "1m_write": ["--rw=write", "--bs=1m", "--iodepth=8"],
} as const;
type Load = keyof typeof LOADS;

/** Best rate in MiB/s of each load. */
type Rates = Readonly<Record<Load, number>>;

/**
 * Measures disks on both engines, on the device's host and on another one: their throughput beside the same chain of
 * stock processes ("bare") and beside a raw loop device, the times of what happens to them, and their moves.
 */
export async function benchData(report: (line: string) => void): Promise<Measurement[]> {
  const folder = temporaryFolder();
  const bareLocal = await bare(report, folder, "local");
  const bareRemote = await bare(report, folder, "remote");
  const measured: Measurement[] = [];
  for (const engine of ["node", "qemu"] as const)
    for (const [where, floors] of [
      ["local", bareLocal],
      ["remote", bareRemote],
    ] as const) {
      const name = `data_${engine}_${where}`;
      const rates = await onDisk(report, engine, where, ({ socket }) => rateAll(report, name, { socket }));
      measured.push(
        ...compare(name, rates, floors, "the same chain of stock processes", engine === "qemu" ? 0.95 : undefined),
      );
    }
  measured.push(...(await benchTimes(report)), ...(await benchMoves(report)));
  const whyNot = await whyNoBlockDevices();
  if (whyNot !== undefined) {
    report(`block devices not measured: ${whyNot}`);
    return measured;
  }
  const raw = await rawLoop(report, folder);
  const name = "data_qemu_device";
  const rates = await onDisk(report, "qemu", "local", ({ device }) => rateAll(report, name, { device }));
  measured.push(...compare(name, rates, raw, "a raw loop device", undefined));
  return measured;
}

function compare(
  name: string,
  rates: Rates,
  floors: Rates,
  floorOf: string,
  atLeast: number | undefined,
): Measurement[] {
  return (Object.keys(LOADS) as Load[]).map((load) =>
    measurement({
      name: `${name}_${load}`,
      value: rates[load],
      unit: "MiB/s",
      floor: floors[load],
      floorOf,
      budget: atLeast === undefined ? undefined : { atLeast },
    }),
  );
}

async function rateAll(report: (line: string) => void, name: string, place: Place): Promise<Rates> {
  const rates: Partial<Record<Load, number>> = {};
  // Fills the disk first, so that no load writes to unallocated blocks.
  await fio(place, ["--rw=write", "--bs=1m", "--iodepth=8"]);
  for (const load of Object.keys(LOADS) as Load[]) {
    const each: number[] = [];
    for (let round = 0; round < ROUNDS; round += 1)
      each.push((await fio(place, [...LOADS[load], "--time_based", `--runtime=${ROUND_SECONDS}`])).mibPerSecond);
    rates[load] = Math.max(...each);
    report(`${name} ${load}: ${rates[load]?.toFixed(1)} MiB/s`);
  }
  return rates as Rates;
}

const FILE_NODE = { "node-name": "disk", driver: "file", aio: "threads" };

/** Measures the chain of stock processes that does the same as the engine qemu. */
async function bare(report: (line: string) => void, folder: string, where: "local" | "remote"): Promise<Rates> {
  const place = join(folder, where);
  mkdirSync(place);
  const file = join(place, "file");
  writeFileSync(file, "");
  truncateSync(file, DISK_BYTES);
  const socket = join(place, "sock");
  const serve = (node: object, ...options: string[]) =>
    started("qemu-storage-daemon", [
      ...options,
      "--blockdev",
      JSON.stringify(node),
      "--export",
      "type=nbd,id=e,node-name=disk,name=,writable=on",
    ]);
  const toSocket = ["--nbd-server", `addr.type=unix,addr.path=${socket}`];
  const daemons = [];
  try {
    const node = { ...FILE_NODE, filename: file };
    if (where === "local") daemons.push(await serve(node, ...toSocket));
    else {
      const port = await freePort();
      const key = join(place, "key");
      mkdirSync(key);
      const psk = join(key, "keys.psk");
      writeFileSync(psk, `bench:${"5a".repeat(32)}\n`);
      // nbdkit, because the NBD server of QEMU before 8.1 leaves Nagle's algorithm on, which delays small answers by 40 ms.
      const toPort = ["--foreground", "--ipaddr=127.0.0.1", `--port=${port}`, "--tls=require", `--tls-psk=${psk}`];
      daemons.push(await started("nbdkit", [...toPort, "file", file]));
      const tls = { "qom-type": "tls-creds-psk", id: "tls", dir: key, endpoint: "client", username: "bench" };
      const server = { type: "inet", host: "127.0.0.1", port: `${port}` };
      const remote = { "node-name": "disk", driver: "nbd", server, export: "", "tls-creds": "tls", "open-timeout": 10 };
      daemons.push(await serve(remote, "--object", JSON.stringify(tls), ...toSocket));
    }
    return await rateAll(report, `bare_${where}`, { socket });
  } finally {
    for (const daemon of daemons) daemon.kill("SIGKILL");
    rmSync(file);
  }
}

async function started(program: string, args: readonly string[]) {
  const daemon = spawn(program, args, { stdio: ["ignore", "inherit", "inherit"] });
  await sleep(500);
  if (daemon.exitCode !== null) throw new Error(`${program} ended with ${daemon.exitCode}`);
  return daemon;
}

async function rawLoop(report: (line: string) => void, folder: string): Promise<Rates> {
  const file = join(folder, "raw");
  writeFileSync(file, "");
  truncateSync(file, DISK_BYTES);
  const { stdout } = await run("losetup", ["--direct-io=on", "--find", "--show", file]);
  const device = stdout.trim();
  try {
    return await rateAll(report, "raw_loop", { device });
  } finally {
    await run("losetup", ["--detach", device]);
    rmSync(file);
  }
}
