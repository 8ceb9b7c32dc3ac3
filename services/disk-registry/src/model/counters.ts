import type { CounterName, RegistryTables, RegistryTransaction } from "./schema.js";

/** The last value given out; 0 when none was. */
export function lastValue(tables: RegistryTables, name: CounterName): number {
  return tables.counters.get(name)?.value ?? 0;
}

function next(tx: RegistryTransaction, name: CounterName): number {
  const value = lastValue(tx, name) + 1;
  tx.counters.put({ name, value });
  return value;
}

/** Orders attach and detach requests. Persisted with the change that uses it, so it never goes back. */
export const nextDeviceGeneration = (tx: RegistryTransaction): number => next(tx, "device_generation");

/** Orders everything that touches bytes of devices: publishing, fencing and erasing alike. */
export const nextSessionNumber = (tx: RegistryTransaction): number => next(tx, "session_number");

/** Raises a counter so that no value up to `seen` is ever given out again. */
export function raiseCounter(tx: RegistryTransaction, name: CounterName, seen: number): void {
  if (seen > lastValue(tx, name)) tx.counters.put({ name, value: seen });
}
