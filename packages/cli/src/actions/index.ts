import type { Action } from "../action.js";

/** By their names, in the order in which help shows them: looking, then doing. Some load much that others do not need. */
const LOADERS: Readonly<Record<string, () => Promise<Action>>> = {
  status: async () => (await import("./status.js")).status,
  why: async () => (await import("./why.js")).why,
  hosts: async () => (await import("./hosts.js")).hosts,
  devices: async () => (await import("./devices.js")).devices,
  disks: async () => (await import("./disks.js")).disks,
  instances: async () => (await import("./instances.js")).instances,
  agents: async () => (await import("./agents.js")).agents,
  tasks: async () => (await import("./tasks.js")).tasks,
  locks: async () => (await import("./locks.js")).locks,
  configs: async () => (await import("./configs.js")).configs,
  events: async () => (await import("./events.js")).events,
  logs: async () => (await import("./logs.js")).logs,
  watch: async () => (await import("./watch.js")).watch,
  "add-host": async () => (await import("./add-host.js")).addHost,
  "remove-host": async () => (await import("./remove-host.js")).removeHost,
  "purge-host": async () => (await import("./purge-host.js")).purgeHost,
  "add-device": async () => (await import("./add-device.js")).addDevice,
  "confirm-device": async () => (await import("./confirm-device.js")).confirmDevice,
  "remove-device": async () => (await import("./remove-device.js")).removeDevice,
  "set-host-state": async () => (await import("./set-host-state.js")).setHostState,
  "set-device-state": async () => (await import("./set-device-state.js")).setDeviceState,
  "fence-host": async () => (await import("./fence-host.js")).fenceHost,
  provide: async () => (await import("./provide.js")).provide,
  detach: async () => (await import("./detach.js")).detach,
  "delete-disk": async () => (await import("./delete-disk.js")).deleteDisk,
  "update-config": async () => (await import("./update-config.js")).updateConfig,
  deploy: async () => (await import("./deploy.js")).deploy,
  cancel: async () => (await import("./cancel.js")).cancel,
  resume: async () => (await import("./resume.js")).resume,
  passthru: async () => (await import("./passthru.js")).passthru,
  backup: async () => (await import("./backup.js")).backup,
  restore: async () => (await import("./restore.js")).restore,
  verify: async () => (await import("./verify.js")).verify,
  salvage: async () => (await import("./salvage.js")).salvage,
  pki: async () => (await import("./pki.js")).pki,
  "nats-config": async () => (await import("./nats-config.js")).natsConfig,
};

export function allActions(): Promise<readonly Action[]> {
  return Promise.all(Object.values(LOADERS).map((load) => load()));
}

/** The one that is typed, if it is one; else all, of which one may be meant or helped with. */
export async function actionsFor(args: readonly string[]): Promise<readonly Action[]> {
  const name = firstWord(args);
  const load = Object.hasOwn(LOADERS, name) ? LOADERS[name] : undefined;
  return load === undefined ? allActions() : [await load()];
}

/** Behind the options that may stand before an action. */
function firstWord(args: readonly string[]): string {
  for (let index = 0; index < args.length; index++) {
    const arg = args[index] ?? "";
    if (arg === "--state") index++;
    else if (arg !== "--json" && !arg.startsWith("--state=")) return arg;
  }
  return "";
}
