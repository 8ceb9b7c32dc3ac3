import { CancelledError, DomainError, type Identity, TimeoutError, UnavailableError } from "@diskmesh/domain";
import {
  type CallContext,
  type CallOptions,
  type Client,
  errorOfStatus,
  type MethodDefinition,
  methodsOf,
  type ServiceDefinition,
  statusOfError,
} from "@diskmesh/rpc";
import type { Random } from "../random.js";
import type { Faults } from "./faults.js";
import { LateAbort } from "./late-abort.js";
import { asToldByLiar, garbled, LIAR } from "./lies.js";
import { SimLinks } from "./links.js";
import type { SimProcess, Timeline } from "./seed/timeline.js";
import { type Observer, stackOf } from "./seed/violation.js";
import type { ServedMethod, SimServer } from "./sim-server.js";

type UnaryHandler = (request: unknown, call: CallContext) => Promise<unknown>;

/** Observes calls at both ends, with decoded messages, to check promises. */
export interface NetworkWatch {
  /** Called when a client sends a request: its contents must be durable at the sender. */
  sent(method: string, request: unknown, from: SimProcess): void;
  /** Called when a server receives a request. `answered` is not called for garbled and refused answers. */
  received(method: string, request: unknown, server: SimProcess, from: SimProcess): void;
  /** Called when a handler has answered: from now on the answer must be true. The result is passed to `heard`. */
  answered(method: string, request: unknown, response: unknown, server: SimProcess): unknown;
  /** Called when a client receives an answer; `request` is the sent object itself. */
  heard(method: string, request: unknown, response: unknown, client: SimProcess, note: unknown): void;
}

/** The calling process or client. */
export interface Caller {
  readonly process: SimProcess;
  readonly identity: Identity;
}

type Answer = { readonly bytes: Buffer; readonly note: unknown } | { readonly error: DomainError };

interface Pending {
  settle(result: Answer): void;
  readonly settled: boolean;
  readonly request: unknown;
  readonly deadlineAtMs: number;
  /** Functions that cancel the handlers of this call. */
  readonly cancel: Set<(reason: DomainError) => void>;
  /** Number of copies of the request that may still reach the server or run there. */
  copies: number;
}

const shortName = (path: string): string => path.slice(path.lastIndexOf("/") + 1);

/** Transports calls between processes as encoded messages: late, twice, or not at all. */
export class SimNetwork {
  readonly #servers = new Map<string, SimServer[]>();
  readonly links: SimLinks;
  readonly #blocked = new Set<string>();
  /** Agents whose registration was answered. */
  readonly #registered = new WeakSet<SimProcess>();
  #requestCount = 0;

  constructor(
    private readonly timeline: Timeline,
    readonly random: Random,
    readonly faults: Faults,
    private readonly watch: NetworkWatch,
    private readonly observer: Observer,
  ) {
    this.links = new SimLinks({
      timeline,
      faults,
      observer,
      random,
      delayMs: () => this.#delayMs(),
      isBlocked: (a, b) => this.isBlocked(a, b),
    });
  }

  serve(address: string, server: SimServer): void {
    this.#servers.set(address, [...(this.#servers.get(address) ?? []), server]);
  }

  /** Removes a process: calls in progress break, and it answers no more. */
  remove(process: SimProcess): void {
    for (const [address, servers] of this.#servers) {
      for (const server of servers) if (server.process === process) for (const cut of [...server.cut]) cut();
      this.#servers.set(
        address,
        servers.filter((server) => server.process !== process),
      );
    }
    this.links.remove(process);
  }

  block(a: string, b: string): void {
    this.#blocked.add(pair(a, b));
  }

  heal(): void {
    this.#blocked.clear();
  }

  unblock(a: string, b: string): void {
    this.#blocked.delete(pair(a, b));
  }

  isBlocked(a: string, b: string): boolean {
    return this.#blocked.has(pair(a, b));
  }

  /**
   * Returns a client that sends its calls through this network. `onGone` is called for each call when no copy of its
   * request can take effect any more.
   */
  client<Definition extends ServiceDefinition>(
    definition: Definition,
    caller: Caller,
    address: string,
    options: { readonly defaultDeadlineMs: number; readonly onGone?: (request: unknown) => void },
  ): Client<Definition> {
    const methods: Record<string, unknown> = { close: () => {} };
    for (const [name, method] of methodsOf(definition)) {
      methods[name] = (request: unknown, call: CallOptions = {}) =>
        this.#unary(method, caller, address, request, call.deadlineMs ?? options.defaultDeadlineMs, {
          signal: call.signal,
          onGone: options.onGone,
        });
    }
    return methods as Client<Definition>;
  }

  #delayMs(): number {
    const { messageMs, lateMessageMs, lateMessage } = this.faults;
    return this.random.delayMs(messageMs, lateMessageMs, lateMessage);
  }

  #unary(
    method: MethodDefinition,
    caller: Caller,
    address: string,
    request: unknown,
    deadlineMs: number,
    { signal, onGone }: { signal: AbortSignal | undefined; onGone: ((request: unknown) => void) | undefined },
  ): Promise<unknown> {
    const { process } = caller;
    const name = shortName(method.path);
    const truth = method.requestSerialize(request);
    const told = () => asToldByLiar(name, request, this.#registered.has(process), this);
    const bytes = process.place === LIAR ? method.requestSerialize(told()) : truth;
    if (signal?.aborted) return Promise.reject(new CancelledError(`${name} was cancelled`, { cause: signal.reason }));
    this.watch.sent(name, method.requestDeserialize(truth), process);
    return new Promise((resolve, reject) => {
      let settled = false;
      const end = (): void => {
        settled = true;
        stopTimer();
        signal?.removeEventListener("abort", abort);
      };
      const pending: Pending = {
        get settled() {
          return settled;
        },
        request,
        deadlineAtMs: process.nowMs() + deadlineMs,
        cancel: new Set(),
        copies: 0,
        settle: (result) => {
          if (settled || !process.alive) return;
          end();
          if ("error" in result) return reject(result.error);
          const response = method.responseDeserialize(result.bytes);
          this.watch.heard(name, request, response, process, result.note);
          if (name === "RegisterAgent") this.#registered.add(process);
          resolve(response);
        },
      };
      const giveUp = (reason: DomainError): void => {
        pending.settle({ error: reason });
        for (const cancel of pending.cancel) cancel(reason);
      };
      const abort = (): void => giveUp(new CancelledError(`${name} was cancelled`, { cause: signal?.reason }));
      const stopTimer = process.after(deadlineMs, () => {
        this.observer.trace(`${process.name}: ${name} to ${address} timed out`);
        giveUp(new TimeoutError(`${name} to ${address}: the deadline of ${deadlineMs} ms has passed`));
      });
      signal?.addEventListener("abort", abort, { once: true });
      const copies = 1 + (this.random.chance(this.faults.duplication) ? 1 : 0);
      const gone = (): void => {
        pending.copies -= 1;
        if (pending.copies === 0) onGone?.(request);
      };
      pending.copies = copies;
      for (let copy = 0; copy < copies; copy++) this.#send(method, caller, address, bytes, pending, gone);
    });
  }

  #send(
    method: MethodDefinition,
    caller: Caller,
    address: string,
    bytes: Buffer,
    pending: Pending,
    gone: () => void,
  ): void {
    const name = shortName(method.path);
    const lost = this.random.chance(this.faults.loss);
    this.timeline.after(this.#delayMs(), undefined, "", () => {
      const from = caller.process;
      if (lost) {
        this.observer.trace(`network: lost ${name} of ${from.name} to ${address}`);
        return gone();
      }
      const servers = (this.#servers.get(address) ?? []).filter((server) => server.process.alive);
      const server = servers.length === 0 ? undefined : this.random.pick(servers);
      if (server === undefined || this.isBlocked(from.place, server.process.place)) {
        this.observer.trace(`network: ${name} of ${from.name} does not reach ${address}`);
        const unreachable = new UnavailableError(`${name} to ${address}: cannot connect`, { outcome: "not_done" });
        if (this.random.chance(0.7))
          this.timeline.after(this.#delayMs(), from, "", () => pending.settle({ error: unreachable }));
        return gone();
      }
      // A stopped process receives nothing before it continues.
      const waitMs = server.process.pausedUntilMs - this.timeline.nowMs;
      if (waitMs <= 0) return void this.#serve(method, caller, server, bytes, pending, gone);
      let begun = false;
      const stop = (): void => {
        if (!begun) gone();
      };
      server.cut.add(stop);
      this.timeline.after(waitMs, server.process, "", () => {
        begun = true;
        server.cut.delete(stop);
        void this.#serve(method, caller, server, bytes, pending, gone);
      });
    });
  }

  async #serve(
    method: MethodDefinition,
    caller: Caller,
    server: SimServer,
    bytes: Buffer,
    pending: Pending,
    gone: () => void,
  ): Promise<void> {
    const name = shortName(method.path);
    const { process } = server;
    const request = method.requestDeserialize(bytes);
    this.observer.trace(`${process.name}: ${name} from ${caller.process.name}`);
    const abort = new LateAbort();
    const cancel = (reason: DomainError): void => {
      this.timeline.after(this.#delayMs(), process, "", () => abort.abort(reason));
    };
    pending.cancel.add(cancel);
    const cut = (): void => {
      gone();
      const error = new UnavailableError(`${name}: the connection to ${process.name} was lost`, { outcome: "unknown" });
      this.timeline.after(this.#delayMs(), caller.process, "", () => pending.settle({ error }));
    };
    server.cut.add(cut);
    const answer = await this.#answer(method, caller, server, request, pending, abort);
    pending.cancel.delete(cancel);
    if (!process.alive) return;
    server.cut.delete(cut);
    gone();
    if ("bytes" in answer) this.#confuse(name, server, bytes);
    const { loss, lostEraseAnswer } = this.faults;
    const copies = 1 + (this.random.chance(this.faults.duplication) ? 1 : 0);
    for (let copy = 0; copy < copies; copy++) {
      if (this.random.chance(name === "EraseDevice" ? Math.max(loss, lostEraseAnswer) : loss)) {
        this.observer.trace(`network: lost the answer to ${name} of ${caller.process.name}`);
        continue;
      }
      this.timeline.after(this.#delayMs(), caller.process, "", () => {
        if (!this.isBlocked(caller.process.place, process.place)) pending.settle(answer);
      });
    }
  }

  /**
   * Sends an agent the opposite of an order that it has obeyed, under the same stamp, as from a confused registry. The
   * answer is dropped.
   */
  #confuse(name: string, server: SimServer, bytes: Buffer): void {
    const opposite =
      name === "AttachDevices" ? "DetachDevices" : name === "DetachDevices" ? "AttachDevices" : undefined;
    if (opposite === undefined || !this.random.chance(this.faults.confusedOrder)) return;
    const served = [...server.methods.values()].find(({ method }) => shortName(method.path) === opposite);
    if (served === undefined) return;
    this.timeline.after(this.#delayMs(), server.process, "", () => {
      this.observer.trace(`${server.process.name}: ${opposite} with the stamps of ${name}, from a confused registry`);
      const call = {
        signal: new AbortController().signal,
        deadlineAtMs: server.process.nowMs() + 1_000,
        identity: { role: "disk-registry", name: "" },
        requestId: "confused",
      } as const;
      void (served.handler as UnaryHandler)(served.method.requestDeserialize(bytes), call).catch(() => undefined);
    });
  }

  async #answer(
    method: MethodDefinition,
    caller: Caller,
    server: SimServer,
    request: unknown,
    pending: Pending,
    abort: LateAbort,
  ): Promise<Answer> {
    const name = shortName(method.path);
    const { process } = server;
    try {
      const served = this.#admit(method, caller, server);
      this.watch.received(name, request, process, caller.process);
      const response = await (served.handler as UnaryHandler)(request, {
        get signal() {
          return abort.signal;
        },
        deadlineAtMs: pending.deadlineAtMs,
        identity: caller.identity,
        requestId: `sim-${++this.#requestCount}`,
      });
      const bytes = method.responseSerialize(response);
      if (this.random.chance(this.faults.garbledAnswer)) {
        const other = garbled(name, response);
        if (other !== undefined) {
          this.observer.trace(`${process.name}: garbles its answer to ${name}`);
          return { bytes: method.responseSerialize(other), note: undefined };
        }
      }
      const note = process.alive ? this.watch.answered(name, request, response, process) : undefined;
      return { bytes, note };
    } catch (error) {
      if (!process.alive) return { error: new UnavailableError("nobody hears this") };
      this.observer.trace(`${process.name}: ${name} fails: ${error instanceof Error ? error.message : String(error)}`);
      if (!(error instanceof DomainError) && !abort.aborted)
        this.observer.violation(`${name} failed in ${process.name} with a bug: ${stackOf(error)}`);
      return { error: this.#errorAsSent(method, server, error) };
    }
  }

  #admit(method: MethodDefinition, caller: Caller, server: SimServer): ServedMethod {
    const served = server.methods.get(method.path);
    if (served === undefined) throw new UnavailableError(`${method.path} is not served`);
    if (!served.roles.includes(caller.identity.role))
      this.observer.violation(`${caller.identity.role} may not call ${method.path}`);
    return served;
  }

  /** Returns the error as a client sees it: converted to a gRPC status and back. */
  #errorAsSent(method: MethodDefinition, server: SimServer, error: unknown): DomainError {
    const status = statusOfError(error, "sim");
    return errorOfStatus({ ...status, sent: true, method: method.path, address: server.process.name });
  }
}

function pair(a: string, b: string): string {
  return a < b ? `${a}|${b}` : `${b}|${a}`;
}
