import { existsSync, rmSync, writeFileSync } from "node:fs";
import { get } from "node:http";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { silentLogger } from "@diskmesh/domain";
import { AgentServer, connectNats } from "@diskmesh/mbus";
import { AgentDisks } from "./agent-disks.js";
import { agentMethods, heartbeatOf, recorded } from "./agent-methods.js";
import { AgentState } from "./agent-state.js";
import type { MbusSettings, Settings } from "./protocol.js";
import { readUserData } from "./vm-process.js";

const RETRY_MS = 200;
const TRIES = 100;
const HEARTBEAT_INTERVAL_MS = 30_000;
const LOOK_AROUND_MS = 1_000;

export interface AgentOptions {
  /** Formats a hint without a usable disk for the error message. */
  readonly describeHint?: (hint: unknown) => string;
}

/**
 * Runs the built-in agent of a VM. It answers over NATS like a stock agent. Its disks are entries in a file, and its
 * jobs count as running once they are started. Each request is recorded in asked.jsonl in the VM's folder.
 */
export async function runAgent(folder: string, { describeHint = JSON.stringify }: AgentOptions = {}): Promise<void> {
  // Ends the agent when the VM's folder has been removed.
  setInterval(() => existsSync(folder) || process.exit(), LOOK_AROUND_MS);
  const { heartbeatIntervalMs = HEARTBEAT_INTERVAL_MS } = readUserData(folder);
  const state = new AgentState(folder);
  const settings = await readSettings(folder);
  const mbus = state.mbus ?? settings.env.bosh?.mbus;
  const server = mbus?.urls?.[0];
  if (mbus === undefined || server === undefined) throw new Error("the settings name no mbus");
  const disks = new AgentDisks(folder, {
    // In API version 1 the settings in the bosh-registry name the disks, and the agent reads the settings again.
    hintInSettings: async (cid) => (await readSettings(folder)).disks.persistent[cid],
    describeHint,
  });
  disks.forgetLinks();
  const nats = await connectNats({ servers: [server], tls: writeCertificate(folder, mbus), name: settings.agent_id });
  new AgentServer({
    nats,
    agentId: settings.agent_id,
    methods: recorded(folder, agentMethods({ folder, settings, state, disks })),
    heartbeat: () => heartbeatOf(settings, state),
    heartbeatIntervalMs,
    log: silentLogger,
    // Ignores a request's answerWithinMs, a field that stock agents do not know.
    limits: { maxAnswerWithinMs: 0 },
  });
}

/** Reads the settings from the VM's user data, or from the bosh-registry, which may not have them yet. */
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

/**
 * Fetches a URL from the VM's address, by which the bosh-registry identifies the VM instead of credentials. Returns
 * undefined for any status other than 200.
 */
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
    const file = join(folder, name);
    rmSync(file, { force: true });
    writeFileSync(file, text, { mode: 0o600 });
    return file;
  };
  return {
    caFile: write("ca.pem", cert?.ca),
    certFile: write("cert.pem", cert?.certificate),
    keyFile: write("key.pem", cert?.private_key),
  };
}
