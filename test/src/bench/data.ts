import { spawn } from "node:child_process";
import { mkdirSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { eventually, freePort, temporaryFolder } from "@diskmesh/testkit";
import { DISK_BYTES, fio, onDisk, reads, type Where } from "./data-disk.js";
import type { Bench, Round } from "./measure.js";

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
 * Measures the throughput of disks of the engine node at their NBD sockets, on the device's host and on another one. The
 * floor is nbdkit, which serves a file without diskmesh: at a socket, and over TLS.
 */
export async function startData(report: (line: string) => void): Promise<Bench> {
  const round = async (): Promise<Round> => {
    const all: Round[] = [];
    for (const where of ["local", "remote"] as const) {
      const floors = await onNbdkit(where, ratesAt);
      const rates = await onDisk(report, where, ratesAt);
      for (const load of Object.keys(LOADS) as Load[])
        all.push({ [`data_node_${where}_socket_${load}`]: { value: rates[load], unit: "MiB/s", floor: floors[load] } });
    }
    return Object.assign({}, ...all);
  };
  return { warmUpRounds: 0, rounds: 3, round, [Symbol.asyncDispose]: async () => {} };
}

async function ratesAt(uri: string): Promise<Rates> {
  // Fills the disk first, so that no load writes to unallocated blocks.
  await fio(uri, ["--rw=write", "--bs=1m", "--iodepth=8"]);
  const rates: Partial<Record<Load, number>> = {};
  for (const load of Object.keys(LOADS) as Load[])
    rates[load] = await fio(uri, [...LOADS[load], "--time_based", `--runtime=${ROUND_SECONDS}`]);
  return rates as Rates;
}

/** Measures nbdkit, which serves a file: at a socket, or over TLS as another host does. */
async function onNbdkit<T>(where: Where, measure: (uri: string) => Promise<T>): Promise<T> {
  const folder = temporaryFolder();
  const file = join(folder, "device");
  writeFileSync(file, "");
  truncateSync(file, DISK_BYTES);
  const { uri, args } = where === "local" ? atSocket(folder) : await overTls(folder);
  const server = spawn("nbdkit", ["--foreground", ...args, "file", file], { stdio: ["ignore", "ignore", "inherit"] });
  try {
    await eventually(() => reads(uri), { timeoutMs: 30_000 });
    return await measure(uri);
  } finally {
    server.kill("SIGKILL");
  }
}

function atSocket(folder: string) {
  const socket = join(folder, "socket");
  return { uri: `nbd+unix:///?socket=${socket}`, args: ["--unix", socket] };
}

async function overTls(folder: string) {
  const port = await freePort();
  const keyFolder = join(folder, "key");
  mkdirSync(keyFolder);
  const psk = join(keyFolder, "keys.psk");
  writeFileSync(psk, `bench:${"5a".repeat(32)}\n`);
  const uri = `nbds://bench@127.0.0.1:${port}/?tls-psk-file=${psk}`;
  return { uri, args: ["--ipaddr=127.0.0.1", `--port=${port}`, "--tls=require", `--tls-psk=${psk}`] };
}
