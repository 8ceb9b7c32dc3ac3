import { dirname } from "node:path";
import { AgentClient } from "@diskmesh/mbus";
import { Tablet } from "@diskmesh/tablet";
import { CpiCalls } from "../cpi/cpi-calls.js";
import { CrashPlaces } from "./crash-places.js";

/** The director, which is killed where a test says: see CrashPlaces. */
const places = new CrashPlaces(dirname(process.argv[process.argv.indexOf("--config") + 1] ?? ""));

type Method = (this: unknown, ...args: never[]) => unknown;

/** `nameOf` returns undefined where a task has nothing to do with the call. */
function countCallsOf(
  prototype: object,
  method: string,
  nameOf: (args: readonly unknown[]) => string | undefined,
): void {
  const methods = prototype as Record<string, Method>;
  const original = methods[method];
  if (original === undefined) throw new TypeError(`there is no ${method}`);
  methods[method] = function (this: unknown, ...args) {
    const name = nameOf(args);
    if (name !== undefined) places.pass(name);
    return original.apply(this, args);
  };
}

countCallsOf(Tablet.prototype, "transact", () => writeIn(new Error().stack ?? ""));
countCallsOf(CpiCalls.prototype, "call", ([method]) => `CPI ${String(method)}`);
countCallsOf(AgentClient.prototype, "call", ([, method]) => `agent ${String(method)}`);

/** By the functions that are closest, as "write in DiskSteps.change < DiskSteps.attach". */
function writeIn(stack: string): string | undefined {
  const calls = stack.matchAll(/at (?:async )?(\S*?) ?\(?file:\S*director\/dist\/(?!testing)(\S*?):\d+:\d+/g);
  const [first, second] = [...calls].map(([, name, file = ""]) => ({ name: name || file, file }));
  const isOfTask = first !== undefined && /^(jobs|steps|handlers)\/|^workers\/task(s|-runner)\.js$/.test(first.file);
  return isOfTask ? `write in ${first.name} < ${second?.name}` : undefined;
}

await import("../main.js");
