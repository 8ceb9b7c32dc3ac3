import type { HostId } from "@diskmesh/domain";
import type { Maintenance, RegistryTables, RegistryTransaction } from "../store/schema.js";

/** Facts that a sweep finds about the hosts in maintenance. */
interface SeenMaintenance {
  /** Maintenance that is over: its time has passed, or its host is heard again after a silence. */
  readonly ended: ReadonlyMap<HostId, Maintenance>;
  /** Hosts that are silent now. */
  readonly away: ReadonlySet<HostId>;
}

/** Looks at the hosts in maintenance. `before` are those that were silent at the last look. */
export function lookAtMaintenance(
  tables: RegistryTables,
  before: ReadonlySet<HostId>,
  isSilent: (hostId: HostId) => boolean,
  nowMs: number,
): SeenMaintenance {
  const ended = new Map<HostId, Maintenance>();
  const away = new Set<HostId>();
  for (const { hostId, maintenance } of tables.hosts.entries()) {
    if (maintenance === undefined) continue;
    if (isSilent(hostId)) away.add(hostId);
    const isBack = before.has(hostId) && !away.has(hostId);
    if (isBack || maintenance.untilMs <= nowMs) ended.set(hostId, maintenance);
  }
  return { ended, away };
}

/** Ends maintenance. One that an operator has announced meanwhile goes on. */
export function endMaintenance(tx: RegistryTransaction, ended: ReadonlyMap<HostId, Maintenance>): void {
  for (const [hostId, { atMs, untilMs }] of ended) {
    const host = tx.hosts.get(hostId);
    if (host?.maintenance?.atMs !== atMs || host.maintenance.untilMs !== untilMs) continue;
    const { maintenance: _, ...rest } = host;
    tx.hosts.put(rest);
  }
}
