import type { RegisterAgentRequest } from "@diskmesh/api/internal";
import type { Random } from "../random.js";
import type { Faults } from "./faults.js";

/** Host whose agent lies, in runs with that fault. */
export const LIAR = "h1";

/** Increase far beyond all numbers that registries give. */
const EXAGGERATION = 2 ** 50;
const NUMBERS = /^(tabletGeneration|deviceGeneration|sessionNumber|highest[A-Z]\w*)$/;

/** Returns a registration's answer whose second list has an entry without a stamp, as from a faulty sender. */
export function garbled(method: string, response: unknown): unknown {
  if (method !== "RegisterAgent") return undefined;
  const answer = response as { allowedDevices: object[]; unknownDevices: object[] };
  const [first] = answer.unknownDevices;
  if (first === undefined || answer.allowedDevices.length + answer.unknownDevices.length < 2) return undefined;
  return { ...answer, unknownDevices: [{ ...first, stamp: undefined }, ...answer.unknownDevices.slice(1)] };
}

/** Returns the request as a lying or broken agent sends it. `isLater`: this agent start was registered before. */
export function asToldByLiar(
  method: string,
  truth: unknown,
  isLater: boolean,
  { random, faults }: { readonly random: Random; readonly faults: Faults },
): unknown {
  let request = truth;
  if (random.chance(faults.lie)) request = exaggerated(method, request);
  if (random.chance(faults.malformedDevice)) request = withMalformedDevice(method, request);
  if (isLater && random.chance(faults.malformedRegistration)) request = malformed(method, request);
  return request;
}

/** Returns the request of an agent with broken memory: all remembered numbers are too high. */
function exaggerated(method: string, request: unknown): unknown {
  return method === "RegisterAgent" || method === "Heartbeat" ? raised(request) : request;
}

/** Returns a registration with a malformed path in one device. */
function withMalformedDevice(method: string, request: unknown): unknown {
  if (method !== "RegisterAgent") return request;
  const registration = request as RegisterAgentRequest;
  const [first, ...others] = registration.devices;
  return first === undefined
    ? request
    : { ...registration, devices: [{ ...first, path: `${first.path}\n` }, ...others] };
}

/** Returns a registration that every registry refuses. */
function malformed(method: string, request: unknown): unknown {
  return method === "RegisterAgent" ? { ...(request as RegisterAgentRequest), az: "no az" } : request;
}

/** Returns whether the numbers can only be a lie. */
export function isExaggerated(numbers: object): boolean {
  return Object.values(numbers).some((number) => typeof number === "number" && number >= EXAGGERATION);
}

function raised(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(raised);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, part]) => [
      name,
      NUMBERS.test(name) && typeof part === "number" ? part + EXAGGERATION : raised(part),
    ]),
  );
}
