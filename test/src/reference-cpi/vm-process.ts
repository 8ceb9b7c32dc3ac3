import { spawn } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type MbusSettings, type Request, usesRegistry } from "./protocol.js";
import type { State } from "./state.js";

/** The agent settings document of BOSH, as far as it is needed. */
export interface Settings {
  readonly agent_id: string;
  readonly vm: { readonly name: string };
  readonly networks: Networks;
  readonly disks: { readonly persistent: Readonly<Record<string, unknown>> };
  readonly env: { readonly bosh?: { readonly mbus?: MbusSettings } };
}

type Networks = Readonly<Record<string, { readonly ip?: string }>>;

/** What the agent is told at its start: where its settings are. */
export interface UserData {
  /** The VM's address; what it sends comes from there. */
  readonly ip?: string;
  readonly settings?: Settings;
  /** URL of the settings at the bosh-registry. */
  readonly registryUrl?: string;
}

/** So that a test that was cut off leaves no VM: it ends when its folder is gone. */
const SLEEP_WHILE_THERE = 'while [ -d "$0" ]; do sleep 1; done';

/** Starts a VM: with an agent when there is an mbus that it may speak to, else one that sleeps. */
export async function startVm(request: Request, state: State, vmCid: string): Promise<number> {
  const [agentId, , , networks, , env] = request.arguments as [
    string,
    string,
    unknown,
    Networks,
    unknown,
    Settings["env"],
  ];
  const { registry, agent: ownSettings } = request.context;
  const mbus = env?.bosh?.mbus ?? ownSettings?.mbus;
  const settings: Settings = {
    agent_id: agentId,
    vm: { name: vmCid },
    networks,
    disks: { persistent: {} },
    env: { ...env, bosh: { ...env?.bosh, ...(mbus && { mbus }) } },
  };
  const folder = state.vmFolder(vmCid);
  mkdirSync(folder, { recursive: true });
  const viaRegistry = usesRegistry(request) && registry !== undefined;
  const ip = Object.values(networks).find((network) => network.ip !== undefined)?.ip;
  const userData: UserData = {
    ...(ip === undefined ? {} : { ip }),
    ...(viaRegistry ? { registryUrl: `${registry.endpoint}/instances/${vmCid}/settings` } : { settings }),
  };
  if (viaRegistry) await registrySettings(request, vmCid, "PUT", settings);
  const file = join(folder, "user-data.json");
  writeFileSync(file, JSON.stringify(userData), { mode: 0o600 });
  const hasAgent = (mbus?.urls ?? []).length > 0;
  const agent = fileURLToPath(new URL("./agent.js", import.meta.url));
  const [command, ...args] = hasAgent
    ? [process.execPath, agent, folder]
    : ["/bin/sh", "-c", SLEEP_WHILE_THERE, folder];
  // Its own session: a VM outlives the request that made it.
  const child = spawn(command as string, args, { detached: true, stdio: "ignore", env: { PATH: "/usr/bin:/bin" } });
  await new Promise((resolve, reject) => child.once("spawn", resolve).once("error", reject));
  child.unref();
  return child.pid as number;
}

export function stopVm(pid: number): void {
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // It has ended by itself.
  }
}

export async function forgetVm(request: Request, state: State, vmCid: string): Promise<void> {
  if (usesRegistry(request) && request.context.registry) await registrySettings(request, vmCid, "DELETE");
  rmSync(state.vmFolder(vmCid), { recursive: true, force: true });
}

/** Tells the VM's agent, by its settings, where a disk is, or that it is gone. */
export async function changePersistentDisk(
  request: Request,
  vmCid: string,
  diskCid: string,
  hint?: string,
): Promise<void> {
  const settings = JSON.parse(await registrySettings(request, vmCid, "GET")) as Settings;
  const { [diskCid]: _, ...others } = settings.disks.persistent;
  const persistent = hint === undefined ? others : { ...others, [diskCid]: hint };
  await registrySettings(request, vmCid, "PUT", { ...settings, disks: { ...settings.disks, persistent } });
}

async function registrySettings(request: Request, vmCid: string, method: string, settings?: Settings): Promise<string> {
  const { registry } = request.context;
  if (!registry) throw new Error("this CPI has no bosh-registry: its properties name none");
  const response = await fetch(`${registry.endpoint}/instances/${vmCid}/settings`, {
    method,
    headers: { authorization: `Basic ${Buffer.from(`${registry.user}:${registry.password}`).toString("base64")}` },
    ...(settings === undefined ? {} : { body: JSON.stringify(settings) }),
  });
  if (!response.ok) throw new Error(`the bosh-registry answered ${response.status} to ${method}`);
  return ((await response.json()) as { settings?: string }).settings ?? "";
}

export const readUserData = (folder: string): UserData =>
  JSON.parse(readFileSync(join(folder, "user-data.json"), "utf8"));
