import { backoffMs, type Logger, messageOf, UnavailableError } from "@diskmesh/domain";
import { DriverMemory } from "./driver-memory.js";
import { type DriverCall, DriverProcess, type DriverProcessOptions } from "./driver-process.js";
import { type DriverListing, declaredMethod, findMethod, refuseLongMethods } from "./listing.js";

export interface SupervisedDriverOptions
  extends Pick<DriverProcessOptions, "package" | "settings" | "nodeId" | "user" | "limits" | "offers"> {
  readonly maxTimeoutMs: number;
  /** Returns a number in [0, 1). */
  readonly random: () => number;
  readonly log: Logger;
  readonly onChange: () => void;
}

export type DriverState = "starting" | "running" | "failed";

/** Run time after which the failure count restarts. */
const STABLE_MS = 60_000;

/** Keeps a driver running: starts its process again, after a backoff, whenever it ends. */
export class SupervisedDriver {
  readonly #options: SupervisedDriverOptions;
  readonly #memory: DriverMemory;
  #process: DriverProcess | undefined;
  #timer: NodeJS.Timeout | undefined;
  #failures = 0;
  #closed: (() => void) | undefined;
  #loadedAtMs: number | undefined;
  /** The latest listing; undefined until the driver was loaded for the first time. */
  listing: DriverListing | undefined;
  state: DriverState = "starting";
  /** Description of the last failure; empty while the driver runs. */
  problem = "";
  /** Wall clock time since which the driver runs, or since which it has failed again and again. */
  sinceMs = Date.now();
  /** Ends of the driver's processes so far. */
  ends = 0;

  constructor(options: SupervisedDriverOptions) {
    this.#options = options;
    this.#memory = new DriverMemory(options.offers.states);
    this.#start();
  }

  get package(): string {
    return this.#options.package;
  }

  async call(call: DriverCall): Promise<unknown> {
    if (this.#process === undefined || this.state !== "running") {
      const why = this.problem === "" ? "it is starting" : this.problem;
      throw new UnavailableError(`driver ${this.name} does not run: ${why}`, { about: { driver: this.name } });
    }
    if (!call.validateOnly) this.#warnOfCatchAll(call);
    const { listing } = this;
    const isKept = !call.validateOnly && listing && findMethod(listing, call.kind, call.method)?.async;
    return isKept ? this.#keptCall(this.#process, call) : this.#process.call(call);
  }

  /** Records the call before it begins, so that the driver's next process is told if this one is cut off. */
  async #keptCall(process: DriverProcess, call: DriverCall): Promise<unknown> {
    const number = await this.#memory.begun({ method: call.method, atMs: Date.now() });
    try {
      return await process.call(call);
    } finally {
      if (!process.hasEnded) await this.#memory.ended(number);
    }
  }

  async checkLimits(): Promise<void> {
    await this.#process?.checkLimits();
  }

  async close(): Promise<void> {
    clearTimeout(this.#timer);
    await new Promise<void>((resolve) => {
      this.#closed = resolve;
      if (this.#process === undefined) resolve();
      else this.#process.kill("the service stops");
    });
  }

  #start(): void {
    const { log } = this.#options;
    this.#process = new DriverProcess({
      ...this.#options,
      memory: this.#memory,
      log: { info: (fields, message) => log.info({ driver: this.name, ...fields }, message) },
      onLoaded: (listing) => this.#onLoaded(listing),
      onEnd: (reason) => this.#onEnd(reason),
    });
  }

  /** The driver's name, or its package until it has loaded. */
  get name(): string {
    return this.listing?.name ?? this.package;
  }

  #warnOfCatchAll({ kind, method }: DriverCall): void {
    if (this.listing === undefined || declaredMethod(this.listing, kind, method) !== undefined) return;
    const fields = {
      driver: this.name,
      method,
      function: kind === "node" ? "vendorPassthru" : "driverVendorPassthru",
    };
    this.#options.log.warn(fields, "deprecated driver catch-all called; declare the method instead");
  }

  #onLoaded(listing: DriverListing): void {
    if (this.listing !== undefined && this.listing.name !== listing.name)
      throw new TypeError(`its name changed from ${this.listing.name} to ${listing.name}`);
    refuseLongMethods(listing, this.#options.maxTimeoutMs);
    this.listing = listing;
    this.state = "running";
    this.problem = "";
    this.sinceMs = Date.now();
    this.#loadedAtMs = performance.now();
    void this.#memory
      .started()
      .catch((error: unknown) => this.#process?.kill(`its state is not kept: ${messageOf(error)}`));
    const { log, onChange } = this.#options;
    log.info({ driver: listing.name, package: this.package }, "driver started");
    onChange();
  }

  #onEnd(reason: string): void {
    this.#process = undefined;
    this.#closed?.();
    if (this.#closed !== undefined) return;
    const { log, random, limits, onChange } = this.#options;
    const isStable = this.#loadedAtMs !== undefined && performance.now() - this.#loadedAtMs >= STABLE_MS;
    this.#failures = isStable ? 0 : this.#failures;
    this.#loadedAtMs = undefined;
    const retryInMs = backoffMs(this.#failures, limits.restart, random());
    this.#failures += 1;
    this.ends += 1;
    this.state = "failed";
    if (this.problem === "") this.sinceMs = Date.now();
    this.problem = reason;
    log.error({ driver: this.name, reason, retryInMs }, "driver failed, restart scheduled");
    this.#timer = setTimeout(() => this.#start(), retryInMs);
    onChange();
  }
}
