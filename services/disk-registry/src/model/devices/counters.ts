import { type Counter, type CounterName, type Gap, withGap } from "../store/counter.js";
import type { RegistryTables, RegistryTransaction } from "../store/schema.js";

/** Returns the last value issued or skipped; 0 for none. */
export function lastValue(tables: RegistryTables, name: CounterName): number {
  return tables.counters.get(name)?.value ?? 0;
}

function counterOf(tables: RegistryTables, name: CounterName): Counter {
  return tables.counters.get(name) ?? { name, value: 0 };
}

function next(tx: RegistryTransaction, name: CounterName): number {
  const counter = counterOf(tx, name);
  const value = counter.value + 1;
  tx.counters.put({ ...counter, value });
  return value;
}

/**
 * Returns the next device generation, which orders attach and detach requests. The counter is stored in the transaction
 * that uses the number, so it never decreases.
 */
export const nextDeviceGeneration = (tx: RegistryTransaction): number => next(tx, "device_generation");

/** Returns the next session number, which orders publications, fences and erases. */
export const nextSessionNumber = (tx: RegistryTransaction): number => next(tx, "session_number");

/**
 * Skips all values up to `upTo`, so that none of them is issued. Does nothing when `upTo` is lower than the last value.
 * Records a gap from the lower of `above` and the last value, because another registry may also have issued the values
 * between `above` and the last value.
 */
export function skipValues(
  tx: RegistryTransaction,
  name: CounterName,
  { above, upTo, reportedAtMs }: Partial<Gap> & Pick<Gap, "upTo">,
): void {
  const counter = counterOf(tx, name);
  if (upTo <= counter.value) return;
  const gap: Gap = { above: Math.min(above ?? counter.value, counter.value), upTo };
  tx.counters.put(withGap(counter, reportedAtMs === undefined ? gap : { ...gap, reportedAtMs }));
}

/** Returns whether this registry may have issued the value: it is at most the last one, and was not skipped. */
export function mayHaveGiven(tables: RegistryTables, name: CounterName, value: number): boolean {
  const { value: last, gaps = [] } = counterOf(tables, name);
  return value <= last && !gaps.some(({ above, upTo }) => value > above && value <= upTo);
}

/** Returns when values were last skipped because of an agent's report; undefined when never. */
export function lastReportedGapAtMs(tables: RegistryTables): number | undefined {
  const times = (["device_generation", "session_number"] as const).flatMap((name) =>
    (counterOf(tables, name).gaps ?? []).map(({ reportedAtMs }) => reportedAtMs ?? Number.NEGATIVE_INFINITY),
  );
  const last = Math.max(Number.NEGATIVE_INFINITY, ...times);
  return last === Number.NEGATIVE_INFINITY ? undefined : last;
}
