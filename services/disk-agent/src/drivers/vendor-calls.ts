import type {
  CallMethodRequest,
  CallMethodResponse,
  JoinMethodRequest,
  JoinMethodResponse,
  ListMethodsResponse,
} from "@diskmesh/api/internal";
import { AbortedError, type Logger, NotFoundError, OutdatedError, parseId } from "@diskmesh/domain";
import {
  DRIVER_USER,
  DriverHost,
  type DriverLimits,
  type DriverOffers,
  type DriversConfig,
  type FailedDrivers,
  type KeptCall,
  KeptCalls,
} from "@diskmesh/driver/host";
import type { CallContext } from "@diskmesh/rpc";
import type { Clock } from "@diskmesh/service";

import { driverStateFiles } from "./driver-state-files.js";

export interface VendorCallsOptions {
  readonly drivers: DriversConfig;
  readonly limits: DriverLimits;
  readonly hostId: string;
  readonly bootId: string;
  readonly offers: DriverOffers;
  /** Folder of the drivers' states. Made when a driver keeps something. */
  readonly stateFolder: string;
  readonly clock: Clock;
  /** In [0, 1). */
  readonly random: () => number;
  readonly log: Logger;
}

const PENDING_AFTER_MS = 10_000;
/** Time in ms before the caller's deadline at which the answer is sent, so that it arrives. */
const ANSWER_MARGIN_MS = 500;

/** Runs the methods that the host's drivers publish. */
export class VendorCalls {
  readonly #options: VendorCallsOptions;
  readonly #kept = new KeptCalls();
  #host: DriverHost | undefined;

  constructor(options: VendorCallsOptions) {
    this.#options = options;
  }

  /** Starts the drivers; before this call the host has none. */
  start(): void {
    const { hostId: nodeId, stateFolder, ...rest } = this.#options;
    const offers = { ...rest.offers, states: driverStateFiles(stateFolder) };
    this.#host ??= new DriverHost({ ...rest, offers, nodeId, userOfRoot: DRIVER_USER });
  }

  async close(): Promise<void> {
    await this.#host?.close();
  }

  failed(): FailedDrivers | undefined {
    return this.#host?.failed();
  }

  listMethods(): ListMethodsResponse {
    const listings = new Map(this.#host?.listings().map((listing) => [listing.name, listing]));
    const drivers = (this.#host?.drivers() ?? []).map(({ name, package: from, state, problem }) => {
      const listing = listings.get(name);
      // When two drivers have the same name, only the first has methods.
      listings.delete(name);
      const methods = (listing?.nodeMethods ?? []).map(({ schema, ...method }) => {
        const timeoutMs = this.#host?.timeoutOf(name, "node", method.name) ?? 0;
        return { ...method, argsSchema: schema, timeoutMs };
      });
      return { name, package: from, state, problem, methods, catchAll: listing?.catchAll.node ?? false };
    });
    return { bootId: this.#options.bootId, revision: this.#host?.revision ?? "", drivers };
  }

  async call(request: CallMethodRequest, call: CallContext): Promise<CallMethodResponse> {
    this.#requireThisStart(request.bootId);
    const { callId } = request;
    if (callId === "") {
      const { host, timeoutMs } = this.#found(request);
      const { driver, method, httpMethod, args = {}, validateOnly } = request;
      const { hostId: nodeId } = this.#options;
      const { signal } = call;
      const called = { kind: "node", method, httpMethod, args, nodeId, timeoutMs, validateOnly, signal } as const;
      const value = await host.call(driver, called);
      const outcome = Buffer.isBuffer(value)
        ? ({ $case: "data", value } as const)
        : ({ $case: "value", value } as const);
      return { outcome, progress: undefined };
    }
    const kept = this.#kept.get(parseId("call_id", callId)) ?? this.#begin(request);
    return this.#told(kept, request.seenProgress, call);
  }

  async join({ bootId, callId, seenProgress }: JoinMethodRequest, call: CallContext): Promise<JoinMethodResponse> {
    this.#requireThisStart(bootId);
    const kept = this.#kept.get(parseId("call_id", callId));
    if (kept === undefined)
      throw new NotFoundError(`call ${callId} was not started on this agent`, { about: { call_id: callId } });
    return this.#told(kept, seenProgress, call);
  }

  cancel(callId: string): void {
    this.#kept.cancel(callId);
  }

  #requireThisStart(bootId: string): void {
    if (bootId !== this.#options.bootId)
      throw new OutdatedError(
        `boot id ${bootId.slice(0, 64)} is of another start of the agent: list the methods again`,
      );
  }

  #begin(request: CallMethodRequest): KeptCall {
    const { host, timeoutMs } = this.#found(request);
    const { callId, driver, method, httpMethod, args = {} } = request;
    const { hostId: nodeId } = this.#options;
    return this.#kept.begin(host, callId, driver, { kind: "node", method, httpMethod, args, nodeId, timeoutMs });
  }

  /** Returns the host that runs the method's driver, and the method's time limit. */
  #found({ revision, driver, method }: CallMethodRequest): { readonly host: DriverHost; readonly timeoutMs: number } {
    const host = this.#host;
    if (host === undefined || (revision !== "" && revision !== host.revision))
      throw new AbortedError("the methods have changed: list them again", { about: { methods: "changed" } });
    return { host, timeoutMs: host.timeoutOf(driver, "node", method) };
  }

  /** Returns the outcome of a call; "pending" once it has a later progress, or shortly before the caller's deadline. */
  async #told({ ended, progress }: KeptCall, seenProgress: number, call: CallContext): Promise<Told> {
    const { clock } = this.#options;
    const leftMs = call.deadlineAtMs - clock.nowMs() - ANSWER_MARGIN_MS;
    const over = new AbortController();
    const late = clock.sleep(Math.max(0, Math.min(PENDING_AFTER_MS, leftMs)), over.signal).catch(() => undefined);
    const outcome = await Promise.race([ended, late, progress.after(seenProgress)]);
    over.abort();
    if (outcome === undefined) return { outcome: { $case: "pending", value: true }, progress: progress.latest };
    if (!outcome.failed) return { outcome: { $case: "value", value: outcome.text }, progress: undefined };
    const { reason, message } = outcome;
    return { outcome: { $case: "failure", value: { reason, message } }, progress: undefined };
  }
}

type Told = JoinMethodResponse;
