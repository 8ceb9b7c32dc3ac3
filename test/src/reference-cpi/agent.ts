import { appendFileSync, existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { get } from "node:http";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type AgentMethod, AgentServer, connectNats } from "@diskmesh/mbus";
import { told } from "../secrets/canaries.js";
import type { MbusSettings } from "./protocol.js";
import { writeWhole } from "./state.js";
import { readUserData, type Settings } from "./vm-process.js";

/**
 * A VM of the reference CPI: the agent's side of mbus, and disks as entries in a file. What it was asked is in
 * asked.jsonl of the VM's folder.
 */
const RETRY_MS = 200;
const TRIES = 100;
const HEARTBEAT_INTERVAL_MS = 500;
const LOOK_AROUND_MS = 1_000;

interface Disks {
  /** By CID, the hint with which they were added. */
  readonly persistent: Readonly<Record<string, unknown>>;
  readonly mounted: readonly string[];
}

async function main(folder: string): Promise<void> {
  // So that a test that was cut off leaves no VM.
  setInterval(() => existsSync(folder) || process.exit(), LOOK_AROUND_MS);
  const settings = await readSettings(folder);
  const mbus = settings.env.bosh?.mbus;
  const server = mbus?.urls?.[0];
  if (mbus === undefined || server === undefined) throw new Error("the settings name no mbus");
  const log = { debug() {}, info() {}, warn() {}, error() {} };
  const nats = await connectNats({ servers: [server], tls: writeCertificate(folder, mbus), name: settings.agent_id });
  new AgentServer({
    nats,
    agentId: settings.agent_id,
    methods: recorded(folder, agentMethods(folder, settings)),
    heartbeat: () => ({ job: null, index: null, job_state: "running", vitals: {} }),
    heartbeatIntervalMs: HEARTBEAT_INTERVAL_MS,
    log,
  });
}

/** From the VM's own data, or from the bosh-registry, which may not have them yet. */
async function readSettings(folder: string): Promise<Settings> {
  const { settings, registryUrl = "", ip } = readUserData(folder);
  if (settings) return settings;
  for (let attempt = 0; attempt < TRIES; attempt++) {
    const answer = await fetchFrom(ip, registryUrl).catch(() => undefined);
    if (answer !== undefined) return JSON.parse((JSON.parse(answer) as { settings: string }).settings);
    await sleep(RETRY_MS);
  }
  throw new Error("the bosh-registry has no settings for this VM");
}

/** Without credentials: the bosh-registry knows a VM by its address. Undefined when it answers anything but 200. */
function fetchFrom(ip: string | undefined, url: string): Promise<string | undefined> {
  return new Promise((resolve, reject) => {
    const request = get(url, ip === undefined ? {} : { localAddress: ip }, async (response) => {
      let text = "";
      for await (const part of response.setEncoding("utf8")) text += part;
      resolve(response.statusCode === 200 ? text : undefined);
    });
    request.once("error", reject);
  });
}

function writeCertificate(
  folder: string,
  { cert }: MbusSettings,
): { caFile: string; certFile: string; keyFile: string } {
  const write = (name: string, text = ""): string => {
    writeFileSync(join(folder, name), text, { mode: 0o600 });
    return join(folder, name);
  };
  return {
    caFile: write("ca.pem", cert?.ca),
    certFile: write("cert.pem", cert?.certificate),
    keyFile: write("key.pem", cert?.private_key),
  };
}

function agentMethods(folder: string, settings: Settings): Record<string, AgentMethod> {
  const file = join(folder, "agent-disks.json");
  const read = (): Disks =>
    existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : { persistent: {}, mounted: [] };
  const change = (make: (disks: Disks) => Disks): object => {
    writeWhole(file, make(read()));
    return {};
  };
  const without = (entries: Readonly<Record<string, unknown>>, cid: unknown): Record<string, unknown> =>
    Object.fromEntries(Object.entries(entries).filter(([one]) => one !== cid));
  /** In version 1 the settings at the bosh-registry name the disks, and the agent reads them again. */
  const hintOf = async (cid: string): Promise<unknown> =>
    read().persistent[cid] ?? (await readSettings(folder)).disks.persistent[cid];
  const sync = (minArguments: number, run: AgentMethod["run"]): AgentMethod => ({ mode: "sync", minArguments, run });
  const task = (minArguments: number, run: AgentMethod["run"]): AgentMethod => ({ mode: "async", minArguments, run });
  return {
    info: sync(0, async () => ({ api_version: 1 })),
    get_state: sync(0, async () => ({
      agent_id: settings.agent_id,
      job_state: "running",
      vm: settings.vm,
      networks: settings.networks,
    })),
    list_disk: task(0, async () => read().mounted),
    add_persistent_disk: task(2, async ([cid, hint]) =>
      change((disks) => ({ ...disks, persistent: { ...disks.persistent, [String(cid)]: hint } })),
    ),
    remove_persistent_disk: task(1, async ([cid]) =>
      change((disks) => ({ ...disks, persistent: without(disks.persistent, cid) })),
    ),
    mount_disk: task(1, async ([cid]) => {
      diskAt(await hintOf(String(cid)), cid);
      return change((disks) => ({ ...disks, mounted: [...new Set([...disks.mounted, String(cid)])] }));
    }),
    unmount_disk: task(1, async ([cid]) =>
      change((disks) => ({ ...disks, mounted: disks.mounted.filter((one) => one !== cid) })),
    ),
    add_dynamic_disk: task(2, async ([cid, hint]) => linkDynamicDisk(folder, String(cid), diskAt(hint, cid))),
    remove_dynamic_disk: sync(1, async ([cid]) => linkDynamicDisk(folder, String(cid), undefined)),
    ...Object.fromEntries(
      ["prepare", "apply", "start", "stop", "drain", "update_settings"].map((name) => [
        name,
        task(0, async () => ({})),
      ]),
    ),
  };
}

function diskAt(hint: unknown, cid: unknown): string {
  const path = typeof hint === "string" ? hint : (hint as { path?: string } | undefined)?.path;
  if (path === undefined || !existsSync(path)) throw new Error(`disk ${cid} is nowhere to be found: ${told([hint])}`);
  return path;
}

/** Shows the VM's programs a dynamic disk, or takes it away. */
function linkDynamicDisk(folder: string, cid: string, path: string | undefined): object {
  const links = join(folder, "dynamic_disks");
  mkdirSync(links, { recursive: true });
  rmSync(join(links, cid), { force: true });
  if (path !== undefined) symlinkSync(path, join(links, cid));
  return {};
}

function recorded(folder: string, methods: Record<string, AgentMethod>): Record<string, AgentMethod> {
  const entries = Object.entries(methods).map(([name, method]): [string, AgentMethod] => [
    name,
    {
      ...method,
      run(args, signal) {
        appendFileSync(join(folder, "asked.jsonl"), `${JSON.stringify([name, ...args])}\n`);
        return method.run(args, signal);
      },
    },
  ]);
  return Object.fromEntries(entries);
}

await main(process.argv[2] ?? "");
