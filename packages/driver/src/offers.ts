import { isJsonObject, messageOf } from "@diskmesh/domain";
import type { DriverEnvironment } from "./driver.js";
import type { DriverMemory, DriverStates } from "./driver-memory.js";
import { driverName } from "./listing.js";
import type { ToDriver } from "./protocol.js";

/** The services that a driver host offers to drivers. */
export interface DriverOffers extends Pick<DriverEnvironment, "devices" | "probe"> {
  /** Undefined where drivers have no state. */
  readonly states?: DriverStates;
  /** `from` is the driver's package. */
  warnOf(deviceId: string, message: string | undefined, from: string): Promise<void>;
}

export interface OffersOptions {
  readonly offers: DriverOffers;
  readonly memory: DriverMemory;
  readonly from: string;
  readonly send: (message: ToDriver) => void;
  /** Redacts secret arguments of calls. */
  readonly hide: (text: string) => string;
  readonly onFlood: (reason: string) => void;
}

const MAX_AT_ONCE = 64;
const MAX_PER_SECOND = 2_000;
const MAX_TEXT_LENGTH = 500;

/** Answers requests of a driver's process, with a rate and concurrency limit. */
export class Offers {
  readonly #options: OffersOptions;
  #underWay = 0;
  #secondBeganMs = Number.NEGATIVE_INFINITY;
  #inSecond = 0;

  constructor(options: OffersOptions) {
    this.#options = options;
  }

  ask(id: number, what: string, args: unknown): void {
    const { send, onFlood } = this.#options;
    const nowMs = performance.now();
    if (nowMs - this.#secondBeganMs >= 1_000) {
      this.#secondBeganMs = nowMs;
      this.#inSecond = 0;
    }
    this.#inSecond += 1;
    if (this.#underWay >= MAX_AT_ONCE || this.#inSecond > MAX_PER_SECOND) {
      onFlood(`it sent more than ${MAX_AT_ONCE} requests at once, or ${MAX_PER_SECOND} in a second`);
      return;
    }
    this.#underWay += 1;
    void this.#answer(what, args)
      .then(
        (value) => send({ type: "told", id, value }),
        (error) => send({ type: "told", id, error: messageOf(error) }),
      )
      .finally(() => {
        this.#underWay -= 1;
      });
  }

  async #answer(what: string, args: unknown): Promise<unknown> {
    const { offers, memory, from, hide } = this.#options;
    const text = (name: string): string => {
      const value = isJsonObject(args) ? args[name] : undefined;
      if (typeof value !== "string" || value.length > MAX_TEXT_LENGTH)
        throw new TypeError(`${name} must be a string of up to ${MAX_TEXT_LENGTH} characters`);
      return value;
    };
    if (what === "memory") return memory.open(driverName(text("driver")));
    if (what === "keep") return memory.set(text("key"), isJsonObject(args) ? args.value : undefined);
    if (what === "devices") return offers.devices();
    if (what === "probe") return offers.probe(text("deviceId"));
    if (what !== "warnOf") throw new TypeError("the driver requested an unknown function");
    const message = hide(text("message")).replace(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, " ");
    return offers.warnOf(text("deviceId"), message || undefined, from);
  }
}

const refuse = () =>
  Promise.reject(new Error("a director has no devices: only drivers in an agent see the devices of its node"));

/** Offers of the director, which has no devices: `devices` returns an empty list, and every other request fails. */
export const noOffers: DriverOffers = { devices: async () => [], probe: refuse, warnOf: refuse };
