import type { RegisterAgentRequest } from "@diskmesh/api/internal";
import type { Random } from "../random.js";
import type { Faults } from "./faults.js";

/** The host whose agent lies, when one does. */
export const LIAR = "h1";

/** Far beyond what any registry gives out. */
const EXAGGERATION = 2 ** 50;
const NUMBERS = /^(tabletGeneration|deviceGeneration|sessionNumber|highest[A-Z]\w*)$/;

/**
 * Returns a registration's answer whose second list contains an entry without a stamp, as a faulty sender might make
 * it.
 */
export function garbled(method: string, response: unknown): unknown {
  if (method !== "RegisterAgent") return undefined;
  const answer = response as { allowedDevices: object[]; unknownDevices: object[] };
  const [first] = answer.unknownDevices;
  if (first === undefined || answer.allowedDevices.length + answer.unknownDevices.length < 2) return undefined;
  return { ...answer, unknownDevices: [{ ...first, stamp: undefined }, ...answer.unknownDevices.slice(1)] };
}

/** Returns the request as a lying or broken agent sends it. `isLater`: its registration was answered before. */
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

/** Returns the request of an agent with broken memory: every number that it remembers is higher. */
function exaggerated(method: string, request: unknown): unknown {
  return method === "RegisterAgent" || method === "Heartbeat" ? raised(request) : request;
}

/** A registration in which one device has a path that no registry takes. */
function withMalformedDevice(method: string, request: unknown): unknown {
  if (method !== "RegisterAgent") return request;
  const registration = request as RegisterAgentRequest;
  const [first, ...others] = registration.devices;
  return first === undefined
    ? request
    : { ...registration, devices: [{ ...first, path: `${first.path}\n` }, ...others] };
}

/** A registration that no registry takes. */
function malformed(method: string, request: unknown): unknown {
  return method === "RegisterAgent" ? { ...(request as RegisterAgentRequest), az: "no az" } : request;
}

/** Returns true when the numbers can only be a lie. */
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
