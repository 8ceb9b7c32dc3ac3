import { execFile, spawn } from "node:child_process";
import { closeSync, mkdirSync, openSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { whyNoBlockDevices } from "@diskmesh/disk-agent/block-devices";
import { eventually, freePort, temporaryFolder } from "@diskmesh/testkit";
import { repositoryFolder } from "../repository-folder.js";
import { type DataDisk, DISK_BYTES, fio, onDisk, type Place } from "./data-disk.js";
import type { Bench, Round } from "./measure.js";

const run = promisify(execFile);

interface DaemonArguments {
  daemonFiles(sessionNumber: number): { readonly nbdSocket: string; readonly keyFolder: string };
  daemonArguments(disk: object, files: object): string[];
}

/** Taken from the built agent, so that a bench of an older revision gets that revision's arguments. */
const { daemonArguments, daemonFiles }: DaemonArguments = await import(
  join(repositoryFolder, "services/disk-agent/dist/model/daemon-arguments.js")
);

const ROUND_SECONDS = 2;

const LOADS = {
  "4k_read": ["--rw=randread", "--bs=4k", "--iodepth=32"],
  "4k_write": ["--rw=randwrite", "--bs=4k", "--iodepth=32"],
  "1m_read": ["--rw=read", "--bs=1m", "--iodepth=8"],
  "1m_write": ["--rw=write", "--bs=1m", "--iodepth=8"],
} as const;
type Load = keyof typeof LOADS;

type Rates = Readonly<Record<Load, number>>;

/**
 * Measures the throughput of disks: at the NBD socket on both engines, at the block device on the engine qemu, each on
 * the device's host and on another one. The floor is the chain of programs that the engine qemu starts, without diskmesh.
 */
export async function startData(report: (line: string) => void): Promise<Bench> {
  const whyNot = await whyNoBlockDevices();
  if (whyNot !== undefined) report(`NOT MEASURED: block devices, since ${whyNot}`);
  const hasDevices = whyNot === undefined;
  const round = async (): Promise<Round> => {
    const all: Round[] = [];
    for (const where of ["local", "remote"] as const) {
      const floors = await onChain(where, hasDevices, (disk) => ratesAt(disk, hasDevices));
      for (const engine of ["node", "qemu"] as const) {
        const rates = await onDisk(report, engine, where, (disk) => ratesAt(disk, hasDevices && engine === "qemu"));
        for (const [name, at] of Object.entries(rates))
          for (const load of Object.keys(LOADS) as Load[]) {
            const floor = floors[name]?.[load] ?? Number.NaN;
            all.push({ [`data_${engine}_${where}_${name}_${load}`]: { value: at[load], unit: "MiB/s", floor } });
          }
      }
    }
    return Object.assign({}, ...all);
  };
  return { warmUpRounds: 0, rounds: 3, round, [Symbol.asyncDispose]: async () => {} };
}

async function ratesAt({ socket, device }: DataDisk, hasDevice: boolean): Promise<Readonly<Record<string, Rates>>> {
  const rates: Record<string, Rates> = {};
  const places: Readonly<Record<string, Place>> = { socket: { socket }, ...(hasDevice && { device: { device } }) };
  for (const [name, place] of Object.entries(places)) {
    // Fills the disk first, so that no load writes to unallocated blocks.
    await fio(place, ["--rw=write", "--bs=1m", "--iodepth=8"]);
    const at: Partial<Record<Load, number>> = {};
    for (const load of Object.keys(LOADS) as Load[])
      at[load] = await fio(place, [...LOADS[load], "--time_based", `--runtime=${ROUND_SECONDS}`]);
    rates[name] = at as Rates;
  }
  return rates;
}

/** Measures the programs that serve a disk on the engine qemu, started with the same arguments. */
async function onChain<T>(
  where: "local" | "remote",
  hasDevice: boolean,
  measure: (disk: DataDisk) => Promise<T>,
): Promise<T> {
  const folder = temporaryFolder();
  const file = join(folder, "device");
  writeFileSync(file, "");
  truncateSync(file, DISK_BYTES);
  const files = daemonFiles(1);
  const fd = openSync(file, "r+");
  const ends: (() => unknown)[] = [() => closeSync(fd)];
  const start = async (program: string, args: readonly string[], isReady: () => Promise<unknown>): Promise<void> => {
    const child = spawn(program, args, { cwd: folder, stdio: ["ignore", "ignore", "inherit", fd] });
    ends.push(() => child.kill("SIGKILL"));
    await eventually(isReady, { timeoutMs: 30_000 });
  };
  try {
    const parts =
      where === "local"
        ? [{ fd: 3, isBlockDevice: false, offsetBytes: 0, sizeBytes: DISK_BYTES }]
        : await remoteDevice(folder, file, start);
    const socket = join(folder, files.nbdSocket);
    const args = daemonArguments({ diskId: "bench", parts, readOnly: false }, files);
    await start("qemu-storage-daemon", args, () => run("nbdinfo", ["--size", `nbd+unix:///?socket=${socket}`]));
    let device = "";
    if (hasDevice) {
      const image = join(folder, "image");
      writeFileSync(image, "");
      const isMounted = () => run("test", ["-s", image]);
      await start("nbdfuse", [image, "--unix", files.nbdSocket], isMounted);
      ends.push(() => run("umount", [image]));
      device = (await run("losetup", ["--direct-io=on", "--find", "--show", image])).stdout.trim();
      ends.push(() => run("losetup", ["--detach", device]));
    }
    return await measure({ socket, device });
  } finally {
    // Each one is tried, so that no program and no mount stays.
    for (const end of ends.reverse()) await (async () => end())().catch(console.error);
  }
}

/** Serves the file as another host does, but by nbdkit. */
async function remoteDevice(
  folder: string,
  file: string,
  start: (program: string, args: readonly string[], isReady: () => Promise<unknown>) => Promise<void>,
) {
  const port = await freePort();
  const keyFolder = join(folder, daemonFiles(1).keyFolder);
  mkdirSync(keyFolder);
  const psk = join(keyFolder, "keys.psk");
  writeFileSync(psk, `bench:${"5a".repeat(32)}\n`);
  const tls = ["--tls=require", `--tls-psk=${psk}`];
  const uri = `nbds://bench@127.0.0.1:${port}/?tls-psk-file=${psk}`;
  const args = ["--foreground", "--ipaddr=127.0.0.1", `--port=${port}`, ...tls, "file", file];
  await start("nbdkit", args, () => run("nbdinfo", ["--size", uri]));
  return { host: "127.0.0.1", port, identity: "bench", exportName: "", ioTimeoutMs: 10_000 };
}
