import { writeFileSync } from "node:fs";
import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { eventually, type ServiceProcess } from "@diskmesh/testkit";

/** Counts syncs of files in a process, and writes the number to a file at each SIGUSR2. */
const PRELOADED = `
const { isMainThread } = require("node:worker_threads");
const { open } = require("node:fs/promises");
const { writeFileSync } = require("node:fs");
let count = 0;
if (isMainThread) {
  open("/dev/null").then(async (file) => {
    const prototype = Object.getPrototypeOf(file);
    for (const name of ["sync", "datasync"]) {
      const original = prototype[name];
      prototype[name] = function () {
        count++;
        return original.call(this);
      };
    }
    await file.close();
  });
  process.on("SIGUSR2", () => writeFileSync(process.env.SYNCS_FOLDER + "/syncs-" + process.pid, String(count)));
}
`;

/** Returns environment variables with which the processes of a mesh count their syncs. */
export function countingSyncs(folder: string): Readonly<Record<string, string>> {
  const file = join(folder, "count-syncs.cjs");
  writeFileSync(file, PRELOADED);
  return { NODE_OPTIONS: `--require ${JSON.stringify(file)}`, SYNCS_FOLDER: folder };
}

/** Returns the number of syncs of a process since its start. */
export async function syncsOf(process: ServiceProcess, folder: string): Promise<number> {
  const file = join(folder, `syncs-${process.pid}`);
  await rm(file, { force: true });
  process.signal("SIGUSR2");
  const text = await eventually(async () => {
    const read = await readFile(file, "utf8");
    if (read === "") throw new Error(`${file} is empty`);
    return read;
  });
  return Number(text);
}

/** Calls that come by time, not by pairs. */
const BY_TIME = /Heartbeat|Check|RegisterAgent|Watch|ListHosts/;

/** Returns the numbers of RPCs that a process has served, and of requests over NATS that it has made. */
export async function trafficOf(metricsPort: number): Promise<{ readonly rpcs: number; readonly requests: number }> {
  const text = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text();
  let [rpcs, requests] = [0, 0];
  for (const line of text.split("\n")) {
    const [, name = "", labels = "", value] = /^(\w+)\{(.*)\} ([0-9.e+]+)/.exec(line) ?? [];
    const method = /rpc_method="([^"]*)"/.exec(labels)?.[1] ?? "";
    if (name === "rpc_server_call_duration_seconds_count" && !BY_TIME.test(method)) rpcs += Number(value);
    if (name === "diskmesh_mbus_request_duration_seconds_count") requests += Number(value);
  }
  return { rpcs, requests };
}
