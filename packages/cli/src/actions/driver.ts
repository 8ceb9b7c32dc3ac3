import { randomInt } from "node:crypto";
import { type FileHandle, open } from "node:fs/promises";
import { resolve } from "node:path";
import { HttpMethod, MethodScope } from "@diskmesh/api/director";
import { InvalidArgumentError, type Logger, messageOf, quoted } from "@diskmesh/domain";
import type { DriverHost, DriverListing, DriverOffers } from "@diskmesh/driver/host";
import { durationOf } from "@diskmesh/rpc";
import { UsageError } from "../output/exit-codes.js";
import type { Output } from "../output/output.js";
import { type Action, type ActionCall, textOption } from "./action.js";
import { argumentsOf, METHOD_COLUMNS, objectOf, showResult } from "./passthru.js";

const NODE_ID = "node-1";
const DEVICE_ID = "device-1";
const BLOCK_SIZE_BYTES = 4_096;

export const driver: Action = {
  usage: "driver <verb> <path> [method]",
  summary: "try PATH: run a vendor's driver, a folder or file, without a mesh, to list its methods or call one",
  options: [
    ["--settings <json>", "settings of the driver, as a JSON object"],
    ["--device <file>", `file or drive that the driver sees as ${DEVICE_ID}; it is never written`],
    ["--args <json>", "arguments of the method, as a JSON object"],
    ["--args-file <file>", "arguments from a file, or from standard input for -"],
    ["--verb <verb>", "GET, POST, PUT, PATCH or DELETE (POST)"],
  ],
  example: "diskmesh driver try ./example-driver models --verb GET",
  isOpenEnded: true,
  run: async (call) => {
    const [verb = "", folder = "", method = ""] = call.args;
    if (verb !== "try") throw new UsageError(`${quoted(verb)} is not a verb: give try`);
    const args = await argumentsOf(call);
    const settings = objectOf("settings", textOption(call.options, "settings"));
    const device = await deviceOf(call);
    const { DriverHost, driversConfig, MAX_METHOD_TIMEOUT_MS } = await import("@diskmesh/driver/host");
    const host = new DriverHost({
      drivers: driversConfig.parse([{ package: resolve(folder), settings, maxTimeoutMs: MAX_METHOD_TIMEOUT_MS }]),
      nodeId: NODE_ID,
      offers: offersOf(device, call.output),
      random: Math.random,
      log: logOf(call.output),
    });
    try {
      await tryDriver(call, host, method, args);
    } finally {
      await host.close();
      await device?.handle.close();
    }
  },
};

async function tryDriver(call: ActionCall, host: DriverHost, method: string, args: object): Promise<void> {
  await host.settled();
  const [listing] = host.listings();
  if (listing === undefined) throw new UsageError(`the driver did not start: ${host.drivers()[0]?.problem}`);
  if (method === "") {
    const all = [...listing.nodeMethods, ...listing.driverMethods];
    call.output.list(
      METHOD_COLUMNS,
      all.map(({ scope, timeoutMs, httpMethods, ...each }) => ({
        ...each,
        scope: MethodScope[scope.toUpperCase() as Uppercase<typeof scope>],
        driver: listing.name,
        timeout: durationOf(timeoutMs),
        httpMethods: httpMethods.map((verb) => HttpMethod[verb]),
      })),
      "no methods",
    );
    return;
  }
  const { kind, httpMethods } = await found(listing, method);
  const httpMethod = (textOption(call.options, "verb") || "POST").toUpperCase();
  if (!httpMethods.includes(httpMethod))
    throw new InvalidArgumentError(`The method ${method} does not support HTTP ${httpMethod}`);
  const called = host.call(listing.name, {
    ...{ kind, method, httpMethod, args: { ...args }, nodeId: kind === "node" ? NODE_ID : "" },
    validateOnly: false,
    timeoutMs: host.timeoutOf(listing.name, kind, method),
    signal: call.signal,
    onProgress: ({ percent, text }) => call.output.say(`${percent} %${text === "" ? "" : `: ${text}`}`),
  });
  const value = await called.catch((error: unknown) => {
    // An interrupted command says nothing more, but the driver tells what it left.
    if (call.signal.aborted) call.output.say(messageOf(error));
    throw error;
  });
  showResult(call.output, value);
}

async function found(listing: DriverListing, name: string) {
  const { findMethod } = await import("@diskmesh/driver/host");
  for (const kind of ["node", "driver"] as const) {
    const method = findMethod(listing, kind, name);
    if (method !== undefined) return { kind, httpMethods: method.httpMethods as string[] };
  }
  throw new InvalidArgumentError(`No handler for method ${quoted(name)}`);
}

interface Device {
  readonly path: string;
  readonly handle: FileHandle;
  readonly sizeBytes: number;
}

async function deviceOf({ options }: ActionCall): Promise<Device | undefined> {
  const path = textOption(options, "device");
  if (path === "") return undefined;
  try {
    const handle = await open(resolve(path), "r");
    return { path: resolve(path), handle, sizeBytes: (await handle.stat()).size };
  } catch (error) {
    throw new UsageError(`cannot read the device: ${messageOf(error)}`);
  }
}

function offersOf(device: Device | undefined, output: Output): DriverOffers {
  return {
    // Kept in this process only: what a driver sets is gone after the try.
    states: { read: async () => undefined, write: async () => undefined },
    devices: async () =>
      device === undefined
        ? []
        : [
            {
              ...{ deviceId: DEVICE_ID, path: device.path, sizeBytes: device.sizeBytes, serialNumber: "" },
              blockSizeBytes: BLOCK_SIZE_BYTES,
              attached: true,
            },
          ],
    probe: async (deviceId) => {
      if (device === undefined || deviceId !== DEVICE_ID) throw new UsageError(`there is no device ${deviceId} here`);
      const beganMs = performance.now();
      const block = randomInt(Math.max(1, Math.floor(device.sizeBytes / BLOCK_SIZE_BYTES)));
      await device.handle.read(Buffer.alloc(BLOCK_SIZE_BYTES), 0, BLOCK_SIZE_BYTES, block * BLOCK_SIZE_BYTES);
      return performance.now() - beganMs;
    },
    warnOf: async (deviceId, message) =>
      output.say(`${deviceId} is ${message === undefined ? "well" : `WARNING: ${message}`}`),
  };
}

/** Returns a logger that prints the driver's output and failures. */
function logOf(output: Output): Logger {
  const say = (fields: object, message: string): void => {
    const { line, reason } = fields as { readonly line?: string; readonly reason?: string };
    if (line !== undefined) output.say(`the driver says: ${line}`);
    else if (reason !== undefined) output.say(`${message}: ${reason}`);
  };
  return { debug: () => undefined, info: say, warn: say, error: say };
}
