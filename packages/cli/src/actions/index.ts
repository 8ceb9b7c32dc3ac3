import type { Action } from "./action.js";

/**
 * The subcommands in the order of the help: reads first, then changes. Each is loaded on use, because some load much
 * code.
 */
const LOADERS: Readonly<Record<string, () => Promise<Action>>> = {
  status: async () => (await import("./status.js")).status,
  why: async () => (await import("./why.js")).why,
  hosts: async () => (await import("./fleet/hosts.js")).hosts,
  devices: async () => (await import("./fleet/devices.js")).devices,
  disks: async () => (await import("./director/disks.js")).disks,
  orphans: async () => (await import("./director/orphans.js")).orphans,
  "csi-leaks": async () => (await import("./director/csi-leaks.js")).csiLeaks,
  pools: async () => (await import("./fleet/pools.js")).pools,
  get: async () => (await import("./get.js")).get,
  instances: async () => (await import("./director/instances.js")).instances,
  agents: async () => (await import("./director/agents.js")).agents,
  tasks: async () => (await import("./director/tasks.js")).tasks,
  drivers: async () => (await import("./director/drivers.js")).drivers,
  locks: async () => (await import("./director/locks.js")).locks,
  configs: async () => (await import("./director/configs.js")).configs,
  events: async () => (await import("./events.js")).events,
  journal: async () => (await import("./fleet/journal.js")).journal,
  logs: async () => (await import("./director/logs.js")).logs,
  watch: async () => (await import("./watch.js")).watch,
  contexts: async () => (await import("./contexts.js")).contexts,
  version: async () => (await import("./version.js")).version,
  names: async () => (await import("./names.js")).names,
  "add-host": async () => (await import("./fleet/operation.js")).addHost,
  "remove-host": async () => (await import("./fleet/operation.js")).removeHost,
  "purge-host": async () => (await import("./fleet/operation.js")).purgeHost,
  "join-token": async () => (await import("./fleet/join-token.js")).joinToken,
  "add-device": async () => (await import("./fleet/operation.js")).addDevice,
  "confirm-device": async () => (await import("./fleet/operation.js")).confirmDevice,
  "adopt-device": async () => (await import("./fleet/operation.js")).adoptDevice,
  "remove-device": async () => (await import("./fleet/operation.js")).removeDevice,
  "migrate-disk": async () => (await import("./fleet/migrate-disk.js")).migrateDisk,
  "replace-device": async () => (await import("./fleet/replace-device.js")).replaceDevice,
  "cancel-move": async () => (await import("./fleet/cancel-move.js")).cancelMove,
  maintenance: async () => (await import("./fleet/maintenance.js")).maintenance,
  "set-host-state": async () => (await import("./fleet/set-host-state.js")).setHostState,
  "set-device-state": async () => (await import("./fleet/set-device-state.js")).setDeviceState,
  "decide-unknown": async () => (await import("./fleet/decide-unknown.js")).decideUnknown,
  "fence-host": async () => (await import("./fleet/fence-host.js")).fenceHost,
  provide: async () => (await import("./director/dynamic-disks.js")).provide,
  attach: async () => (await import("./director/dynamic-disks.js")).attach,
  resize: async () => (await import("./director/dynamic-disks.js")).resize,
  limits: async () => (await import("./director/limits.js")).limits,
  detach: async () => (await import("./director/dynamic-disks.js")).detach,
  delete: async () => (await import("./director/dynamic-disks.js")).deleteDisk,
  undelete: async () => (await import("./fleet/deleted-disks.js")).undelete,
  "delete-orphan": async () => (await import("./director/delete-orphan.js")).deleteOrphan,
  "forget-orphan": async () => (await import("./director/forget-orphan.js")).forgetOrphan,
  "update-config": async () => (await import("./director/update-config.js")).updateConfig,
  deploy: async () => (await import("./director/deploy.js")).deploy,
  cancel: async () => (await import("./director/cancel.js")).cancel,
  resume: async () => (await import("./director/resume.js")).resume,
  passthru: async () => (await import("./passthru.js")).passthru,
  driver: async () => (await import("./driver.js")).driver,
  cpi: async () => (await import("./cpi.js")).cpi,
  init: async () => (await import("./init.js")).init,
  backup: async () => (await import("./backup.js")).backup,
  restore: async () => (await import("./restore.js")).restore,
  rebuild: async () => (await import("./fleet/rebuild.js")).rebuild,
  verify: async () => (await import("./verify.js")).verify,
  salvage: async () => (await import("./salvage.js")).salvage,
  pki: async () => (await import("./pki.js")).pki,
  "new-mesh": async () => (await import("./new-mesh.js")).newMesh,
  "nats-config": async () => (await import("./nats-config.js")).natsConfig,
};

export function allActions(): Promise<readonly Action[]> {
  return Promise.all(Object.values(LOADERS).map((load) => load()));
}

/** Returns the typed action; all actions when none matches, for help and suggestions. */
export async function actionsFor(args: readonly string[]): Promise<readonly Action[]> {
  if (args.includes("--version")) return [await (LOADERS.version as () => Promise<Action>)()];
  const name = firstWord(args);
  const load = Object.hasOwn(LOADERS, name) ? LOADERS[name] : undefined;
  return load === undefined ? allActions() : [await load()];
}

const WITH_VALUE = new Set(["--state", "--context", "-o", "--output", "--sort", "-l", "--selector"]);
const WITHOUT_VALUE = /^(--json|--(state|context|output|sort|selector)=.*|-[ol].+)$/s;

/** Returns the first word after the global options. */
function firstWord(args: readonly string[]): string {
  for (let index = 0; index < args.length; index++) {
    const arg = args[index] ?? "";
    if (WITH_VALUE.has(arg)) index++;
    else if (!WITHOUT_VALUE.test(arg)) return arg;
  }
  return "";
}
