import { existsSync } from "node:fs";
import { createRequire, register } from "node:module";
import { Socket } from "node:net";
import { isAbsolute, join } from "node:path";
import { pathToFileURL } from "node:url";
import { Worker } from "node:worker_threads";
import { isJsonObject, messageOf, problemAsJson } from "@diskmesh/domain";
import type { DriverEnvironment } from "./driver.js";
import type { DriverMemory } from "./driver-memory.js";
import { readLines } from "./lines.js";
import { failureKindOf, type MethodCall, MethodError } from "./method.js";
import { killGroup, MARK } from "./process-group.js";
import { ANSWERS_FD, type FromDriver, MAX_PROGRESS_LENGTH, type ToDriver } from "./protocol.js";
import { type LoadedDriver, loadedDriver } from "./published.js";

// This is the program of a driver's process. The host enforces all limits from outside; the service relies on nothing
// here.

const MAX_REASON_LENGTH = 2_000;
const FATAL_EXIT_CODE = 70;
const PROGRESS_PAUSE_MS = 100;
const MAX_LINE_BYTES = 64 * 1024 * 1024;

const ENTRY = "diskmesh-driver:";

/**
 * Returns a module hook that resolves `@diskmesh/driver` for a driver in any folder: first the driver's own copy, then
 * the service's copy. ENTRY becomes the `exports` of the driver's package.
 */
const hookOf = (path: string): string => `
const entry = { parentURL: ${JSON.stringify(pathToFileURL(join(path, "package.json")).href)} };
const service = { parentURL: ${JSON.stringify(import.meta.url)} };
export const resolve = (specifier, context, next) =>
  specifier === "@diskmesh/driver"
    ? next(specifier, context).catch(() => next(specifier, { ...context, ...service }))
    : specifier.startsWith("${ENTRY}")
      ? next(specifier.slice(${ENTRY.length}), { ...context, ...entry })
      : next(specifier, context);
`;

const answers = new Socket({ fd: ANSWERS_FD, readable: false, writable: true });
const running = new Map<number, AbortController>();
const asked = new Map<number, { resolve(value: unknown): void; reject(error: Error): void }>();
let lastAsked = 0;
let maxAnswerBytes = 0;
let driver: LoadedDriver | undefined;

function send(message: FromDriver, then?: () => void): void {
  answers.write(`${JSON.stringify(message)}\n`, then);
}

function sendAnswer(id: number, value: unknown): void {
  if (value instanceof Uint8Array) {
    refuseTooLong(`${value.length} bytes`, value.length);
    send({ type: "bytes", id, base64: Buffer.from(value).toString("base64") });
    return;
  }
  // Inserts the value's JSON text unchanged, so that a long result is not serialized twice.
  answers.write(`{"type":"answer","id":${id},"value":${checkedText(value)}}\n`);
}

function fail(reason: string): void {
  const end = (): never => process.exit(FATAL_EXIT_CODE);
  setTimeout(end, 1_000);
  send({ type: "fatal", reason: reason.slice(0, MAX_REASON_LENGTH) }, end);
}

function ask(what: string, args: unknown): Promise<unknown> {
  const id = ++lastAsked;
  return new Promise((resolve, reject) => {
    asked.set(id, { resolve, reject });
    send({ type: "ask", id, what, args });
  });
}

async function environmentOf(settings: unknown, nodeId: string, driver: string): Promise<DriverEnvironment> {
  const told = await ask("memory", { driver });
  const { values, cutOff } = told as Awaited<ReturnType<DriverMemory["open"]>>;
  const kept = new Map(Object.entries(values));
  return {
    settings,
    nodeId,
    cutOff: cutOff.map(({ method, atMs }) => ({ method, startedAt: new Date(atMs) })),
    state: {
      get: (key) => structuredClone(kept.get(key)),
      set: async (key, value) => {
        const problem = value === undefined ? undefined : problemAsJson(value);
        if (problem !== undefined) throw new TypeError(`the value of ${key} is not JSON: ${problem}`);
        const copy: unknown = structuredClone(value);
        await ask("keep", { key, value: copy });
        if (copy === undefined) kept.delete(key);
        else kept.set(key, copy);
      },
    },
    devices: () => ask("devices", {}) as ReturnType<DriverEnvironment["devices"]>,
    probe: (deviceId) => ask("probe", { deviceId }) as Promise<number>,
    warnOf: async (deviceId, message) => {
      await ask("warnOf", { deviceId, message: message ?? "" });
    },
  };
}

/** Returns the specifier of a driver's file or folder: a folder's `exports`, or its `main` as `require` finds it. */
function entryOf(path: string): string {
  const require = createRequire(import.meta.url);
  const described = join(path, "package.json");
  const { name, exports } = existsSync(described) ? (require(described) as { name?: string; exports?: unknown }) : {};
  if (exports !== undefined && name !== undefined) return `${ENTRY}${name}`;
  return pathToFileURL(require.resolve(path)).href;
}

async function load(message: Extract<ToDriver, { type: "load" }>): Promise<void> {
  maxAnswerBytes = message.maxAnswerBytes;
  try {
    const { package: name } = message;
    if (isAbsolute(name)) register(`data:text/javascript,${encodeURIComponent(hookOf(name))}`);
    const module = (await import(isAbsolute(name) ? entryOf(name) : name)) as { readonly default?: unknown };
    const loaded = await loadedDriver(module.default, message.settings, (settings, driver) =>
      environmentOf(settings, message.nodeId, driver),
    );
    await loaded.start();
    driver = loaded;
    send({ type: "loaded", listing: loaded.listing });
  } catch (error) {
    fail(`it cannot be loaded: ${messageOf(error)}`);
  }
}

async function call(message: Extract<ToDriver, { type: "call" }>): Promise<void> {
  const { id, httpMethod, nodeId } = message;
  const abort = new AbortController();
  running.set(id, abort);
  try {
    if (driver === undefined) throw new MethodError("unavailable", "the driver is not loaded yet");
    const progress = progressOf(id);
    const value = await driver.call(message, { httpMethod, nodeId, signal: abort.signal, progress });
    sendAnswer(id, value);
  } catch (error) {
    send({
      type: "failure",
      id,
      kind: failureKindOf(error),
      message: messageOf(error).slice(0, MAX_REASON_LENGTH),
    });
  } finally {
    running.delete(id);
  }
}

/** Returns a function that sends a call's progress, the latest every PROGRESS_PAUSE_MS, until the call has ended. */
function progressOf(id: number): MethodCall["progress"] {
  let latest = { percent: 0, text: "" };
  let isDue = false;
  const flush = (): void => {
    isDue = false;
    if (running.has(id)) send({ type: "progress", id, ...latest });
  };
  return (percent, text = "") => {
    if (!(percent >= 0 && percent <= 100))
      throw new RangeError(`a progress is a percent from 0 to 100, not ${percent}`);
    latest = { percent: Math.floor(percent), text: String(text).slice(0, MAX_PROGRESS_LENGTH) };
    if (!isDue) setTimeout(flush, PROGRESS_PAUSE_MS);
    isDue = true;
  };
}

function checkedText(value: unknown): string {
  if (value === undefined) return "null";
  const problem = problemAsJson(value);
  if (problem !== undefined) throw new MethodError("failed", `the method's answer is not JSON: ${problem}`);
  const text = JSON.stringify(value);
  refuseTooLong(`${text.length} characters`, Buffer.byteLength(text));
  return text;
}

function refuseTooLong(answered: string, sizeBytes: number): void {
  if (sizeBytes > maxAnswerBytes)
    throw new MethodError("failed", `the method answered ${answered}: the limit is ${maxAnswerBytes} bytes`);
}

function heed(message: ToDriver): void {
  if (message.type === "load") void load(message);
  else if (message.type === "call") void call(message);
  else if (message.type === "cancel") running.get(message.id)?.abort(new Error(message.why));
  else if (message.type === "ping") send({ type: "pong" });
  else {
    const { resolve, reject } = asked.get(message.id) ?? {};
    asked.delete(message.id);
    if (message.error === undefined) resolve?.(message.value);
    else reject?.(new Error(message.error));
  }
}

/** Kills the driver's child processes and the driver. */
function endAll(): void {
  killGroup(process.pid, process.env[MARK] ?? "");
}

process.on("uncaughtException", (error, origin) => {
  const how = origin === "unhandledRejection" ? "a rejected promise was not handled" : "nobody caught";
  fail(`${how}: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
});
// Standard input ends when the service has ended. While the event loop is blocked, the orphan watch detects that
// instead.
process.stdin.on("end", endAll);
answers.on("error", endAll);
new Worker(new URL("./orphan-watch.js", import.meta.url), { workerData: process.ppid, execArgv: [] }).unref();
readLines(process.stdin, {
  maxLineBytes: MAX_LINE_BYTES,
  onLine: (line) => {
    const message: unknown = JSON.parse(line);
    if (isJsonObject(message)) heed(message as ToDriver);
  },
  onTooLong: () => process.exit(FATAL_EXIT_CODE),
});
