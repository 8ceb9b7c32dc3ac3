import { readFileSync } from "node:fs";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { hostOfCid } from "@diskmesh/cpi";
import { DriverHost } from "@diskmesh/driver/host";
import { AgentClient } from "@diskmesh/mbus";
import { Tablet } from "@diskmesh/tablet";
import { CpiCalls } from "../cpi/cpi-calls.js";
import { type Node, Nodes } from "../vendor-methods/nodes.js";
import { CrashPlaces } from "./crash-places.js";

/** The director program with crash points, see CrashPlaces. */
const places = new CrashPlaces(dirname(process.argv[process.argv.indexOf("--config") + 1] ?? ""));

type Method = (this: unknown, ...args: never[]) => unknown;

/** Makes each call of the method a crash point. `nameOf` returns undefined for calls that belong to no task. */
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
countCallsOf(CpiCalls.prototype, "call", ([method, , request]) => {
  const { vmCid = "" } = (request ?? {}) as { readonly vmCid?: string };
  return `CPI ${String(method)}${hostOfCid(vmCid) === undefined ? "" : " for a host"}`;
});
countCallsOf(AgentClient.prototype, "call", ([, method]) => `agent ${String(method)}`);
countCallsOf(DriverHost.prototype, "call", ([, call]) => `driver ${(call as { method: string }).method}`);

const { find } = Nodes.prototype;
Nodes.prototype.find = async function (this: Nodes, ...args) {
  places.pass("node looked for");
  const node = await find.apply(this, args);
  return { ...node, client: countedClient(node.client) };
};

function countedClient(client: Node["client"]): Node["client"] {
  return new Proxy(client, {
    get(target, name) {
      const method = Reflect.get(target, name) as unknown;
      if (typeof method !== "function") return method;
      return (...args: unknown[]) => {
        places.pass(`node ${String(name)}`);
        return Reflect.apply(method, target, args) as unknown;
      };
    },
  });
}

/** Files whose writes belong to no task. */
const OWN_WRITES =
  /^(agents|audit|bosh-registry)\/|^cpi\/call-records\.js$|^tasks\/task-(archive|times)\.js$|^vms\/agent-renewals\.js$/;

/**
 * Returns the innermost functions of the director, e.g. "write in DiskSteps.change < DiskSteps.attach"; undefined for
 * writes that belong to no task.
 */
function writeIn(stack: string): string | undefined {
  const calls = stack.matchAll(/at (?:async )?(\S*?) ?\(?(file:\S*?):(\d+):\d+/g);
  const [first, second] = [...calls]
    .map(([, name, url = "", line]) => ({ name, file: sourceAt(url, Number(line)) }))
    .flatMap(({ name, file }) => (file === undefined ? [] : [{ name: name || file, file }]));
  if (!first?.file.includes("/") || OWN_WRITES.test(first.file)) return undefined;
  return `write in ${first.name} < ${second?.name}`;
}

const linesOf = new Map<string, readonly string[]>();

/**
 * Returns the director's file that contains the line; undefined for other code. In a bundle, a comment above the code
 * names the file.
 */
function sourceAt(url: string, line: number): string | undefined {
  const lines = linesOf.get(url) ?? readFileSync(fileURLToPath(url), "utf8").split("\n");
  linesOf.set(url, lines);
  let at = line - 1;
  while (at >= 0 && !/^\/\/ \S+\.js$/.test(lines[at] ?? "")) at--;
  return /director\/dist\/(?!testing)(.*)$/.exec(lines[at] ?? url)?.[1];
}

await import("./tuned-main.js");
