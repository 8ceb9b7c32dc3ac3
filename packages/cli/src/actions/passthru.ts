import { readFile } from "node:fs/promises";
import { text } from "node:stream/consumers";
import {
  type CreateMethodLinkRequest,
  HttpMethod,
  type MethodTarget,
  type PublishedMethod,
} from "@diskmesh/api/director";
import {
  AbortedError,
  formatHostPort,
  hostPortOf,
  isJsonObject,
  type JsonObject,
  messageOf,
  quoted,
} from "@diskmesh/domain";
import { allPages, durationOf, msOfDuration } from "@diskmesh/rpc";
import { UsageError } from "../output/exit-codes.js";
import { type Columns, type Output, short } from "../output/output.js";
import { named, secondsOf } from "../output/values.js";
import { type Action, type ActionCall, textOption } from "./action.js";
import { followTask } from "./task-run.js";

export const METHOD_COLUMNS: Columns<Omit<PublishedMethod, "argsSchema" | "exclusiveLock">> = {
  method: ({ name }) => name,
  verbs: ({ httpMethods }) => httpMethods.map(short).join(" "),
  "": ({ async }) => (async ? "a task" : ""),
  scope: ({ scope }) => short(scope).toLowerCase(),
  driver: ({ driver }) => driver,
  description: ({ description }) => description,
};

export const passthru: Action = {
  usage: "passthru <target> [method]",
  summary: "list or call vendors' methods of node/HOST-ID or driver/NAME",
  options: [
    ["--args <json>", "arguments as a JSON object; use --args-file for secrets"],
    ["--args-file <file>", "arguments from a file, or from standard input for -"],
    ["--verb <verb>", "GET, POST, PUT, PATCH or DELETE (POST)"],
    ["--link <time>", "print an address for GETs without a login, valid for this time, such as 30m, 1h or 7d"],
    ["--no-wait", "do not wait for a locked node; print only the task id of a method that runs as a task"],
  ],
  example: "diskmesh passthru node/host-1 disk_health --verb GET",
  run: async (call) => {
    const { mesh, output, options } = call;
    const [typed = "", method = ""] = call.args;
    const target = targetOf(typed);
    if (method === "") {
      output.list(METHOD_COLUMNS, await methodsOf(call, target), "no methods");
      return;
    }
    const args = await argumentsOf(call);
    const lifetime = textOption(options, "link");
    if (lifetime !== "") {
      output.text(
        await linkOf(call, { target, method, args, lifetime: durationOf(1_000 * secondsOf("--link", lifetime)) }),
      );
      return;
    }
    const verb = textOption(options, "verb");
    const httpMethod = verb === "" ? HttpMethod.UNSPECIFIED : named("verb", HttpMethod, verb);
    const wait = options.wait !== false;
    const listed = await methodOf(call, target, method);
    const isAsync = listed?.async === true;
    const rest = { signal: call.signal, deadlineMs: DEADLINE_MS + (isAsync ? 0 : msOfDuration(listed?.timeout)) };
    const ask = (wait: boolean) => mesh.passthru.callMethod({ target, method, httpMethod, args, wait }, rest);
    // A task is followed from its start. A call with `wait` would be answered at its end.
    const { outcome } = await ask(wait && !isAsync).catch((error: unknown) => {
      if (wait && isAsync && error instanceof AbortedError) return ask(true);
      throw error;
    });
    if (outcome?.$case === "task") await followTask(call, outcome.value);
    else showResult(output, outcome?.value);
  },
};

/** Returns the URL of a link, at the host of the director that this command uses. */
async function linkOf(
  { mesh, signal }: ActionCall,
  request: Pick<CreateMethodLinkRequest, "target" | "method" | "args" | "lifetime">,
): Promise<string> {
  const { path, httpsPort } = await mesh.passthru.createMethodLink(request, { signal });
  const { host = "" } = hostPortOf(mesh.addresses("director")[0] ?? "") ?? {};
  return `https://${formatHostPort({ host, port: httpsPort })}${path}`;
}

const DEADLINE_MS = 30_000;

function methodsOf({ mesh, signal }: ActionCall, target: MethodTarget) {
  return allPages(async (pageToken) => {
    const page = await mesh.passthru.listMethods({ target, pageToken }, { signal });
    return { items: page.methods, nextPageToken: page.nextPageToken };
  });
}

/** Returns the method as it is listed; undefined for a name that only a catch-all has. */
async function methodOf(call: ActionCall, target: MethodTarget, method: string) {
  const methods = await methodsOf(call, target);
  return methods.find(({ name, driver }) => name === method || `${driver}.${name}` === method);
}

/** Prints a method's result: JSON, or bytes. */
export function showResult(output: Output, result: unknown): void {
  if (Buffer.isBuffer(result)) output.bytes(result);
  else output.text(JSON.stringify(result ?? null, undefined, 2));
}

function targetOf(typed: string): MethodTarget {
  const [, kind, name = ""] = /^(node|driver)\/(.+)$/.exec(typed) ?? [];
  if (kind === "node") return { target: { $case: "nodeId", value: name } };
  if (kind === "driver") return { target: { $case: "driver", value: name } };
  throw new UsageError(`${quoted(typed)} is neither node/HOST-ID nor driver/NAME`);
}

/** Returns the JSON object of `--args` or `--args-file`. */
export async function argumentsOf({ options }: ActionCall): Promise<JsonObject> {
  const [json, file] = [textOption(options, "args"), textOption(options, "argsFile")];
  if (json !== "" && file !== "") throw new UsageError("give --args or --args-file, not both");
  return objectOf("arguments", file === "" ? json : await read(file));
}

/** Parses a JSON object; an empty text is an empty object. */
export function objectOf(what: string, source: string): JsonObject {
  try {
    const value: unknown = JSON.parse(source || "{}");
    if (isJsonObject(value)) return value;
  } catch {
    // The value is not shown, because it may be a secret.
  }
  throw new UsageError(`the ${what} are not a JSON object, such as {"seconds": 30}`);
}

async function read(file: string): Promise<string> {
  try {
    return file === "-" ? await text(process.stdin) : await readFile(file, "utf8");
  } catch (error) {
    throw new UsageError(`cannot read the arguments: ${messageOf(error)}`);
  }
}
