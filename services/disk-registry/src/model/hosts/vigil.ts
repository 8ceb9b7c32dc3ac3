import type { WhySuspected } from "../disks/placement.js";
import type { Host, RegistryTables, RegistryTransaction } from "../store/schema.js";
import { VIGIL } from "../store/vigil.js";

/** Returns whether a mass silence was ongoing at the last sweep, of this leader or a former one. */
export function massSilenceRan(tables: RegistryTables): boolean {
  return tables.vigils.get(VIGIL)?.massSilence === true;
}

export function noteMassSilence(tx: RegistryTransaction, runs: boolean, nowMs: number): void {
  const { listenedMs = 0 } = tx.vigils.get(VIGIL) ?? {};
  tx.vigils.put({ name: VIGIL, listenedMs, ...(runs && { massSilence: true, massSilenceSinceMs: nowMs }) });
}

/** A mass silence as reported to operators. */
export interface ToldMassSilence {
  readonly sinceMs: number;
  readonly silentHosts: number;
  /** Number of hosts, without DEAD ones. */
  readonly hosts: number;
}

/** Returns the ongoing mass silence; undefined when there is none. */
export function massSilenceNow(tables: RegistryTables, whySuspected: WhySuspected): ToldMassSilence | undefined {
  const { massSilenceSinceMs: sinceMs } = tables.vigils.get(VIGIL) ?? {};
  if (sinceMs === undefined) return undefined;
  const alive = [...tables.hosts.entries()].filter(({ state }) => state !== "DEAD");
  return {
    sinceMs,
    silentHosts: alive.filter(({ hostId }) => whySuspected(hostId) !== undefined).length,
    hosts: alive.length,
  };
}

/** Returns whether some host is UNAVAILABLE. While one is, the listening time is recorded for its removal timeout. */
export function isAnyUnavailable(tables: RegistryTables): boolean {
  for (const { state } of tables.hosts.entries()) if (state === "UNAVAILABLE") return true;
  return false;
}

/** Returns whether some UNAVAILABLE host's removal timeout has not started. */
export function isAnyUncounted(tables: RegistryTables): boolean {
  for (const host of tables.hosts.entries()) if (isUncounted(host)) return true;
  return false;
}

function isUncounted({ state, silentAtListenedMs }: Host): boolean {
  return state === "UNAVAILABLE" && silentAtListenedMs === undefined;
}

/** Returns how long, in ms, leaders have listened for heartbeats, as far as recorded. */
export function listenedBefore(tables: RegistryTables): number {
  return tables.vigils.get(VIGIL)?.listenedMs ?? 0;
}

/**
 * Records how long leaders have listened. Starts the removal timeouts of UNAVAILABLE hosts whose timeouts have not
 * started.
 */
export function noteListened(tx: RegistryTransaction, listenedMs: number): void {
  const { awakeAtMs: _, ...vigil } = tx.vigils.get(VIGIL) ?? {};
  tx.vigils.put({ ...vigil, name: VIGIL, listenedMs });
  for (const host of [...tx.hosts.entries()])
    if (isUncounted(host)) tx.hosts.put({ ...host, silentAtListenedMs: listenedMs });
}
