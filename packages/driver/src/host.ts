import { createHash } from "node:crypto";
import { type Logger, NotFoundError, Redactor } from "@diskmesh/domain";
import { allEnded, histogramOf, observe } from "@diskmesh/metrics";
import { Changes } from "@diskmesh/service";
import type { DriversConfig } from "./config.js";
import { ControlGroup } from "./control-group.js";
import type { DriverCall } from "./driver-process.js";
import { DRIVER_LIMITS, type DriverLimits } from "./limits.js";
import { type CalledMethod, type DriverListing, findMethod, secretsOf, timeoutOf } from "./listing.js";
import type { MethodKind } from "./method.js";
import { driverMetrics, outcomeOf } from "./metrics.js";
import { type DriverOffers, noOffers } from "./offers.js";
import { type DriverState, SupervisedDriver } from "./supervised-driver.js";

export { type DriversConfig, driversConfig, MAX_METHOD_TIMEOUT_MS } from "./config.js";
export type { DriverStates } from "./driver-memory.js";
export type { DriverCall } from "./driver-process.js";
export { type KeptCall, KeptCalls } from "./kept-calls.js";
export { DRIVER_LIMITS, type DriverLimits } from "./limits.js";
export { catchAllMethod, type DriverListing, findMethod, secretArguments, shownArguments } from "./listing.js";
export { driverMetrics } from "./metrics.js";
export { type DriverOffers, noOffers } from "./offers.js";

export interface DriverHostOptions {
  readonly drivers: DriversConfig;
  readonly limits?: DriverLimits | undefined;
  /** The node on which the drivers run; empty in the director. */
  readonly nodeId?: string;
  readonly offers?: DriverOffers;
  /**
   * User of drivers whose config names none, while this process is root. Undefined: the user of this process, as for
   * processes that are not root.
   */
  readonly userOfRoot?: string;
  /** Returns a number in [0, 1). */
  readonly random: () => number;
  readonly log: Logger;
}

/** A driver's state for operators. */
export interface ShownDriver {
  /** Empty until the driver was loaded for the first time. */
  readonly name: string;
  readonly package: string;
  readonly state: DriverState;
  /** Description of the last failure; empty while the driver runs. */
  readonly problem: string;
}

/** Description of all drivers that cannot be called. */
export interface FailedDrivers {
  readonly why: string;
  /** Wall clock time of the first failure among them. */
  readonly sinceMs: number;
}

/** User of the drivers of a service that is root. The release's sysusers file and its image have this user. */
export const DRIVER_USER = "diskmesh-driver";

const CHECK_INTERVAL_MS = 1_000;
/** Number of failed drivers, and length of each problem, that a description has in full. ListDrivers has all. */
const TOLD_FAILURES = { drivers: 3, length: 300 };

/** Runs the configured drivers, each in its own process. */
export class DriverHost {
  readonly #drivers: readonly SupervisedDriver[];
  readonly #timer: NodeJS.Timeout;
  readonly #limits: DriverLimits;
  readonly #unobserve: () => void;
  readonly #changes = new Changes<void>();
  #revision: string | undefined;

  constructor({
    drivers,
    limits = DRIVER_LIMITS,
    nodeId = "",
    offers = noOffers,
    userOfRoot,
    random,
    log,
  }: DriverHostOptions) {
    ControlGroup.endAbandoned();
    this.#limits = limits;
    const defaultUser = process.geteuid?.() === 0 ? userOfRoot : undefined;
    const onChange = (): void => this.#onChange();
    this.#drivers = drivers.map(
      ({ user = defaultUser, ...driver }) =>
        new SupervisedDriver({ ...driver, user, nodeId, limits, offers, random, log, onChange }),
    );
    this.#unobserve = allEnded([
      observe(driverMetrics.up, (say) => {
        for (const driver of this.#drivers)
          say(this.#problemOf(driver) === "" && driver.state === "running" ? 1 : 0, { driver: this.#labelOf(driver) });
      }),
      observe(driverMetrics.ends, (say) => {
        for (const driver of this.#drivers) say(driver.ends, { driver: this.#labelOf(driver) });
      }),
    ]);
    this.#timer = setInterval(() => void this.#checkLimits(), CHECK_INTERVAL_MS).unref();
  }

  /** Resolves when each driver has loaded or failed. */
  async settled(): Promise<void> {
    using changes = this.#changes.watch();
    while (this.#drivers.some(({ state }) => state === "starting")) await changes.changed();
  }

  drivers(): ShownDriver[] {
    return this.#drivers.map((driver) => ({
      name: driver.listing?.name ?? "",
      package: driver.package,
      state: driver.state,
      problem: this.#problemOf(driver),
    }));
  }

  /** Returns the drivers that have failed, or have the name of another one; undefined when there is none. */
  failed(): FailedDrivers | undefined {
    const failed = this.#drivers.filter((driver) => this.#problemOf(driver) !== "");
    if (failed.length === 0) return undefined;
    const { drivers, length } = TOLD_FAILURES;
    const told = failed
      .slice(0, drivers)
      .map((driver) => `driver ${this.#labelOf(driver)} has failed: ${this.#problemOf(driver).slice(0, length)}`);
    if (failed.length > drivers) told.push(`${failed.length - drivers} more`);
    return { why: told.join("; "), sinceMs: Math.min(...failed.map(({ sinceMs }) => sinceMs)) };
  }

  /** Returns the latest listing of each driver, including drivers that do not run now. */
  listings(): DriverListing[] {
    return this.#drivers.flatMap((driver) =>
      driver.listing === undefined || this.#isSecond(driver) ? [] : [driver.listing],
    );
  }

  /** A hash of the listings, which changes when a listing changes. */
  get revision(): string {
    this.#revision ??= createHash("sha256").update(JSON.stringify(this.listings())).digest("hex").slice(0, 16);
    return this.#revision;
  }

  /**
   * Calls a driver's method, whose result is JSON or a Buffer. Throws NotFoundError for an unknown driver; other
   * rejections are domain errors, too.
   */
  async call(name: string, call: DriverCall): Promise<unknown> {
    const driver = this.#drivers.find(({ listing }) => listing?.name === name);
    if (driver === undefined) throw new NotFoundError(`The driver '${name}' is unknown.`, { about: { driver: name } });
    if (call.validateOnly) return driver.call(call);
    const beganMs = performance.now();
    const ended = (outcome: ReturnType<typeof outcomeOf> | "done"): void =>
      histogramOf(driverMetrics.calls).record((performance.now() - beganMs) / 1_000, { driver: name, outcome });
    try {
      const value = await driver.call(call);
      ended("done");
      return value;
    } catch (error) {
      ended(outcomeOf(error));
      throw error;
    }
  }

  /** Returns the time limit of a driver's method, in ms. */
  timeoutOf(name: string, kind: MethodKind, method: string): number {
    const listing = this.listings().find((each) => each.name === name);
    const found = listing && findMethod(listing, kind, method);
    return timeoutOf(found ?? { async: false, timeoutMs: 0 }, this.#limits);
  }

  /** Redacts secret arguments of the call in a text. */
  hide(name: string, call: CalledMethod, text: string): string {
    const listing = this.listings().find((each) => each.name === name);
    return new Redactor(secretsOf(listing, call)).text(text);
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    this.#unobserve();
    await Promise.all(this.#drivers.map((driver) => driver.close()));
  }

  /** Returns why a driver cannot be called; empty for a driver that runs, or starts for the first time. */
  #problemOf(driver: SupervisedDriver): string {
    return driver.problem === "" && this.#isSecond(driver) ? "another driver has that name already" : driver.problem;
  }

  /** Returns the name that no other driver has: the package of a driver with the name of an earlier one. */
  #labelOf(driver: SupervisedDriver): string {
    return this.#isSecond(driver) ? driver.package : driver.name;
  }

  /** Returns true when an earlier driver in the config has the same name; the earlier one wins. */
  #isSecond(driver: SupervisedDriver): boolean {
    const name = driver.listing?.name;
    return name !== undefined && this.#drivers.find(({ listing }) => listing?.name === name) !== driver;
  }

  #onChange(): void {
    this.#revision = undefined;
    this.#changes.touch();
  }

  async #checkLimits(): Promise<void> {
    await Promise.all(this.#drivers.map((driver) => driver.checkLimits()));
  }
}
