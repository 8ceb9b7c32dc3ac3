import type { WhySuspected } from "../disks/placement.js";
import { type Host, type RegistryTables, type RegistryTransaction, VIGIL } from "../store/schema.js";

/** Whether a mass silence ran when hosts were looked at last, by whoever led then. */
export function massSilenceRan(tables: RegistryTables): boolean {
  return tables.vigils.get(VIGIL)?.massSilence === true;
}

export function noteMassSilence(tx: RegistryTransaction, runs: boolean, nowMs: number): void {
  const { listenedMs = 0 } = tx.vigils.get(VIGIL) ?? {};
  tx.vigils.put({ name: VIGIL, listenedMs, ...(runs && { massSilence: true, massSilenceSinceMs: nowMs }) });
}

/** What operators are told of a mass silence. */
export interface ToldMassSilence {
  /** Undefined when a program of before that was noted has noticed it. */
  readonly sinceMs: number | undefined;
  readonly silentHosts: number;
  /** All but those that are DEAD. */
  readonly hosts: number;
}

/** The mass silence that runs; undefined while none does. */
export function massSilenceNow(tables: RegistryTables, whySuspected: WhySuspected): ToldMassSilence | undefined {
  if (!massSilenceRan(tables)) return undefined;
  const alive = [...tables.hosts.entries()].filter(({ state }) => state !== "DEAD");
  return {
    sinceMs: tables.vigils.get(VIGIL)?.massSilenceSinceMs,
    silentHosts: alive.filter(({ hostId }) => whySuspected(hostId) !== undefined).length,
    hosts: alive.length,
  };
}

/** Whether any host is away whose removal times out some day. */
export function isAnyUnavailable(tables: RegistryTables): boolean {
  for (const { state } of tables.hosts.entries()) if (state === "UNAVAILABLE") return true;
  return false;
}

/** Returns whether the silence of any UNAVAILABLE host does not count yet. */
export function isAnyUncounted(tables: RegistryTables): boolean {
  for (const host of tables.hosts.entries()) if (isUncounted(host)) return true;
  return false;
}

function isUncounted({ state, silentAtListenedMs }: Host): boolean {
  return state === "UNAVAILABLE" && silentAtListenedMs === undefined;
}

/** How long leaders could hear hosts, as far as that was noted. */
export function listenedBefore(tables: RegistryTables): number {
  return tables.vigils.get(VIGIL)?.listenedMs ?? 0;
}

/** Notes how long leaders could hear hosts. The silence of UNAVAILABLE hosts counts from now on, if it did not before. */
export function noteListened(tx: RegistryTransaction, listenedMs: number): void {
  const { awakeAtMs: _, ...vigil } = tx.vigils.get(VIGIL) ?? {};
  tx.vigils.put({ ...vigil, name: VIGIL, listenedMs });
  for (const host of [...tx.hosts.entries()])
    if (isUncounted(host)) tx.hosts.put({ ...host, silentAtListenedMs: listenedMs });
}
