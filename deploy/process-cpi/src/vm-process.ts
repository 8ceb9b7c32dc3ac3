import { spawn } from "node:child_process";
import { closeSync, existsSync, linkSync, mkdirSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { type AgentProperties, type Networks, type Request, type Settings, usesRegistry } from "./protocol.js";
import { type State, writeWhole } from "./state.js";

/** User data of a VM, in a file of its folder. */
export interface UserData {
  /** Address of the VM, and source address of its connections. */
  readonly ip?: string;
  readonly settings?: Settings;
  /** URL of the VM's settings in the bosh-registry; absent for API version 2. */
  readonly registryUrl?: string;
  readonly heartbeatIntervalMs?: number;
}

/**
 * Shell script of a VM: this process with all its children, in its own session, so that it outlives the request that
 * created it. Like an operating system, it restarts its agent when the agent has ended. It creates the file of its
 * process id exclusively, so that a VM that is started twice runs once. It ends when that file is gone.
 */
const MACHINE = `cd "$0" || exit 1; set -C; echo $$ >vm.pid || exit 1; set +C
(while [ -f "$0/vm.pid" ]; do sleep 5; done; kill -9 -$$) &
while [ -f "$0/vm.pid" ]; do "$@" >"$0/agent.log" 2>&1; sleep 0.2; done`;
const SWITCHED_ON_WITHIN_MS = 10_000;
const ENDS_WITHIN_MS = 10_000;
const POLL_MS = 20;

/** Writes the VM's user data. The data may exist already, after an interrupted call. */
export function prepareVm(
  request: Request,
  state: State,
  vmCid: string,
): { readonly settings: Settings; readonly viaRegistry: boolean } {
  const [agentId, , , networks, , env] = request.arguments as [
    string,
    string,
    unknown,
    Networks,
    unknown,
    Settings["env"],
  ];
  const { registry, agent = {} } = request.context;
  const mbus = env?.bosh?.mbus ?? agent.mbus;
  const settings: Settings = {
    agent_id: agentId,
    vm: { name: vmCid },
    networks,
    disks: { persistent: {} },
    env: { ...env, bosh: { ...env?.bosh, ...(mbus && { mbus }) } },
  };
  const folder = state.vmFolder(vmCid);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const viaRegistry = usesRegistry(request) && registry !== undefined;
  const ip = Object.values(networks).find((network) => network.ip !== undefined)?.ip;
  const userData: UserData = {
    ...(ip === undefined ? {} : { ip }),
    ...(viaRegistry ? { registryUrl: `${registry.endpoint}/instances/${vmCid}/settings` } : { settings }),
    ...(agent.heartbeat_interval_ms === undefined ? {} : { heartbeatIntervalMs: agent.heartbeat_interval_ms }),
  };
  writeWhole(join(folder, "user-data.json"), userData, { mode: 0o600 });
  const hasAgent = (mbus?.urls ?? []).length > 0;
  const command = hasAgent ? agentCommand(folder, agent, settings) : ["/bin/sleep", "1"];
  writeWhole(join(folder, "command.json"), command);
  return { settings, viaRegistry };
}

/**
 * Returns the command of the agent: the built-in one, or a bosh-agent with the dummy platform, which does not change
 * the machine.
 */
function agentCommand(folder: string, { path }: AgentProperties, settings: Settings): string[] {
  if (path === undefined) {
    const standIn = process.env.PROCESS_CPI_AGENT ?? fileURLToPath(new URL("./stand-in.js", import.meta.url));
    return [process.execPath, standIn, folder];
  }
  for (const inside of ["bosh/log", "instance", "tmp", "sys/log"]) mkdirSync(join(folder, inside), { recursive: true });
  // A bosh-agent looks for its own log at this link when it serves fetch_logs.
  const [log, current] = [join(folder, "agent.log"), join(folder, "bosh/log/current")];
  closeSync(openSync(log, "a", 0o600));
  if (!existsSync(current)) linkSync(log, current);
  const [settingsFile, configFile] = [join(folder, "settings.json"), join(folder, "agent.json")];
  const blobs = join(folder, "blobs");
  mkdirSync(blobs, { recursive: true });
  // Default blobstore for fetched logs, because a bosh-agent does not start without one.
  const blobstore = { provider: "local", options: { blobstore_path: blobs } };
  writeFileSync(settingsFile, JSON.stringify({ ...settings, blobstore }), { mode: 0o600 });
  const sources = [{ Type: "File", SettingsPath: settingsFile }];
  const config = { Platform: { Linux: {} }, Infrastructure: { Settings: { Sources: sources } } };
  writeFileSync(configFile, JSON.stringify(config));
  return [path, "-P", "dummy", "-M", "dummy", "-b", folder, "-C", configFile];
}

/** Starts the VM unless it runs. */
export async function powerOn(folder: string): Promise<void> {
  if (isOn(folder)) return;
  rmSync(join(folder, "vm.pid"), { force: true });
  const command = JSON.parse(readFileSync(join(folder, "command.json"), "utf8")) as string[];
  const env = { PATH: "/usr/sbin:/usr/bin:/sbin:/bin", TMPDIR: join(folder, "tmp"), HOME: folder };
  mkdirSync(env.TMPDIR, { recursive: true });
  const child = spawn("/bin/sh", ["-c", MACHINE, folder, ...command], { detached: true, stdio: "ignore", env });
  await new Promise((resolve, reject) => child.once("spawn", resolve).once("error", reject));
  child.unref();
  await until(() => isOn(folder), SWITCHED_ON_WITHIN_MS, "did not start");
}

/** Ends all processes of the VM. Resolves when they have ended. */
export async function powerOff(folder: string): Promise<void> {
  const pid = pidOf(folder);
  if (pid === undefined) return;
  process.kill(-pid, "SIGKILL");
  await until(() => !isOn(folder), ENDS_WITHIN_MS, "did not end");
}

export const isOn = (folder: string): boolean => pidOf(folder) !== undefined;

/** Returns the VM's process id; undefined when the process has ended, even if another process has the id by now. */
export function pidOf(folder: string): number | undefined {
  try {
    const pid = Number(readFileSync(join(folder, "vm.pid"), "utf8"));
    if (!Number.isSafeInteger(pid) || pid < 2) return undefined;
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0").includes(folder) ? pid : undefined;
  } catch {
    return undefined;
  }
}

async function until(isSo: () => boolean, timeoutMs: number, failure: string): Promise<void> {
  const endAtMs = performance.now() + timeoutMs;
  while (!isSo()) {
    if (performance.now() > endAtMs) throw new Error(`the VM ${failure} within ${timeoutMs} ms`);
    await sleep(POLL_MS);
  }
}

export const readUserData = (folder: string): UserData =>
  JSON.parse(readFileSync(join(folder, "user-data.json"), "utf8"));
