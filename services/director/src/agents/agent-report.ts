import { isJsonObject } from "@diskmesh/domain";

/** Returns the accepted part of a value; undefined when nothing is accepted. */
type Reader = (value: unknown) => unknown;

const MAX_TEXT_LENGTH = 255;
const MAX_ENTRIES = 1_000;

const text: Reader = (value) => (typeof value === "string" ? value.slice(0, MAX_TEXT_LENGTH) : undefined);
const number: Reader = (value) => (typeof value === "number" && Number.isFinite(value) ? value : undefined);
const count: Reader = (value) => (Number.isSafeInteger(value) && Number(value) >= 0 ? value : undefined);

function taken(entries: readonly (readonly [name: string, value: unknown])[]): object {
  return Object.fromEntries(entries.slice(0, MAX_ENTRIES).filter(([, value]) => value !== undefined));
}

function object(fields: Readonly<Record<string, Reader>>): Reader {
  return (value) =>
    isJsonObject(value)
      ? taken(
          Object.entries(fields).map(([name, read]) => [
            name,
            Object.hasOwn(value, name) ? read(value[name]) : undefined,
          ]),
        )
      : undefined;
}

function mapOf(read: Reader): Reader {
  return (value) =>
    isJsonObject(value) ? taken(Object.entries(value).map(([name, each]) => [name, read(each)])) : undefined;
}

function listOf(read: Reader): Reader {
  return (value) =>
    Array.isArray(value)
      ? value.slice(0, MAX_ENTRIES).flatMap((each) => {
          const found = read(each);
          return found === undefined ? [] : [found];
        })
      : undefined;
}

const uptime = object({ secs: count });
const memory = object({ kb: text, percent: text });

const vitals = object({
  cpu: object({ sys: text, user: text, wait: text }),
  mem: memory,
  swap: memory,
  uptime,
  load: listOf(text),
  disk: mapOf(object({ inode_percent: text, percent: text })),
});

const processes = listOf(
  object({
    name: text,
    state: text,
    cpu: object({ total: number }),
    mem: object({ kb: count, percent: number }),
    uptime,
  }),
);

/**
 * Returns the vitals in the types that BOSH clients expect, because the stock CLI rejects a whole list when a text
 * field is a number. Returns null when the value has no vitals.
 */
export function readableVitals(value: unknown): unknown {
  return vitals(value) ?? null;
}

/** Returns the processes in the types that BOSH clients expect; empty when the value has none. */
export function readableProcesses(value: unknown): unknown {
  return processes(value) ?? [];
}
