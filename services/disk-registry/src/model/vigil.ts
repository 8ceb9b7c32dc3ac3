import type { WhySuspected } from "./placement.js";
import { removalCountsFromMs } from "./remove-action.js";
import { type RegistryTables, type RegistryTransaction, VIGIL } from "./schema.js";

/** Whether a mass silence ran when hosts were looked at last, by whoever led then. */
export function massSilenceRan(tables: RegistryTables): boolean {
  return tables.vigils.get(VIGIL)?.massSilence === true;
}

export function noteMassSilence(tx: RegistryTransaction, runs: boolean, nowMs: number): void {
  tx.vigils.put({ name: VIGIL, awakeAtMs: nowMs, ...(runs && { massSilence: true, massSilenceSinceMs: nowMs }) });
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

/** Hosts can be heard now. Notes it once in a while, as long as time counts against a host. */
export function noteAwake(tx: RegistryTransaction, nowMs: number): void {
  tx.vigils.put({ name: VIGIL, ...tx.vigils.get(VIGIL), awakeAtMs: nowMs });
}

/** Whether any host is away whose removal times out some day. */
export function isAnyUnavailable(tables: RegistryTables): boolean {
  for (const { state } of tables.hosts.entries()) if (state === "UNAVAILABLE") return true;
  return false;
}

/**
 * Nobody could be heard from when that was noted last until now: the removal timeouts of UNAVAILABLE hosts do not count
 * that time. Time that nobody noted counts for them, not against them.
 */
export function skipTimeOut(tx: RegistryTransaction, nowMs: number): void {
  const { awakeAtMs = 0 } = tx.vigils.get(VIGIL) ?? {};
  for (const host of [...tx.hosts.entries()]) {
    if (host.state !== "UNAVAILABLE") continue;
    const fromMs = removalCountsFromMs(host);
    const missedMs = Math.max(0, nowMs - Math.max(fromMs, awakeAtMs));
    if (missedMs > 0) tx.hosts.put({ ...host, removalCountsFromMs: fromMs + missedMs });
  }
  noteAwake(tx, nowMs);
}
