import {
  AbortedError,
  InvalidArgumentError,
  type JsonObject,
  messageOf,
  NotFoundError,
  OutdatedError,
  REDACTED,
  UnavailableError,
} from "@diskmesh/domain";
import { catchAllMethod, type DriverHost, secretArguments, shownArguments } from "@diskmesh/driver/host";
import type { CallContext } from "@diskmesh/rpc";
import type { Clock } from "@diskmesh/service";
import { askerOf, userOf } from "../audit/asker.js";
import { formatMethod } from "../audit/director-event.js";
import type { Events } from "../audit/events.js";
import { type LaneLocks, type LockKeeper, NO_TASK } from "../locks/lock-keeper.js";
import { ownerText } from "../locks/locks.js";
import type { Json, JsonObject as StoredObject } from "../store/json.js";
import { taskKey } from "../store/schema.js";
import type { DirectorTablet } from "../store/stored-schema.js";
import { hasEnded, type Task } from "../store/task.js";
import { leftMs } from "../tasks/step-progress.js";
import type { TaskLog } from "../tasks/task-log.js";
import type { Tasks } from "../tasks/tasks.js";
import type { CallMemory } from "./call-memory.js";
import { lockOf } from "./node-lock.js";
import { type Node, type Nodes, nothingBegun } from "./nodes.js";
import { earlierTask, rememberCall } from "./repeated-calls.js";
import {
  chosenMethod,
  listedMethods,
  refuseUnfit,
  startingOf,
  stillStarting,
  type VendorMethod,
  type VendorMethods,
  verbOf,
} from "./vendor-method.js";
import type { PassthruOutcome, Target, WantedCall } from "./wanted-call.js";

export interface PassthruOptions {
  readonly host: DriverHost;
  readonly nodes: Nodes;
  readonly tablet: DirectorTablet;
  readonly tasks: Tasks;
  readonly taskLog: Pick<TaskLog, "progress">;
  readonly locks: LockKeeper;
  readonly events: Events;
  readonly memory: Pick<CallMemory, "keepSecrets" | "forget">;
  readonly clock: Pick<Clock, "nowMs">;
  /** Least deadline of a request to an agent. A method with a longer time limit has that, and METHOD_MARGIN_MS. */
  readonly callTimeoutMs: number;
}

/** A found target with its methods and the function to call them. */
interface Callable {
  readonly nodeId: string;
  readonly methods: VendorMethods;
  readonly call: (
    method: VendorMethod,
    wanted: Pick<WantedCall, "httpMethod" | "args">,
    options: CallOptions,
  ) => Promise<unknown>;
}

interface CallOptions {
  readonly validateOnly: boolean;
  readonly signal: AbortSignal;
}

/** Time for a request to an agent besides its method. */
const METHOD_MARGIN_MS = 10_000;
const RETRY_LOCKED_MS = 1_000;
/** Bounds an estimate from the progress of the task that holds a lock, because the rate may change. */
const MAX_RETRY_LOCKED_MS = 60_000;
/** Maximum retries when a node's methods have changed between listing and calling. */
const MAX_CHANGES = 3;

/** Finds, authorizes, locks and calls vendor methods for both the gRPC and the HTTP API. */
export class Passthru {
  readonly #options: PassthruOptions;

  constructor(options: PassthruOptions) {
    this.#options = options;
  }

  async list(target: Target, signal: AbortSignal): Promise<readonly VendorMethod[]> {
    return listedMethods((await this.#callable(target, signal, true)).methods);
  }

  /** Returns the drivers of a node, or of this director for an empty id. */
  async drivers(nodeId: string, signal: AbortSignal) {
    const { host, nodes } = this.#options;
    return nodeId === "" ? host.drivers() : (await nodes.find(nodeId, signal, { fresh: true })).drivers;
  }

  /** Throws NotFoundError for a node that no registry knows. */
  async requireNode(nodeId: string, signal: AbortSignal): Promise<void> {
    await this.#options.nodes.requireKnown(nodeId, signal);
  }

  async call(call: CallContext, wanted: WantedCall): Promise<PassthruOutcome> {
    const { tablet, tasks } = this.#options;
    if (wanted.requestId !== "") {
      // An earlier task is looked up before anything else, because it may hold the node's lock and the node may be
      // down.
      const earlier = await tablet.read((tables) => earlierTask(tables, call, wanted));
      if (earlier !== undefined) return { async: true, task: await tasks.get(earlier) };
    }
    for (let changes = 0; ; changes++) {
      try {
        return await this.#call(call, wanted, changes > 0);
      } catch (error) {
        if (!(error instanceof StaleNode) || changes === MAX_CHANGES)
          throw error instanceof StaleNode ? error.cause : error;
      }
    }
  }

  /** Checks a call of a synchronous method by GET that somebody makes later. Returns its method. */
  async checkLink(call: CallContext, asked: Pick<WantedCall, "target" | "method" | "args">): Promise<VendorMethod> {
    const { target, args } = asked;
    const callable = await this.#callable(target, call.signal, true);
    const method = chosenMethod(callable.methods, asked.method, "GET");
    const about = { about: { field: "method" } };
    if (method.async)
      throw new InvalidArgumentError(`${method.name} is asynchronous: only an answer has an address`, about);
    const [secret] = Object.entries(shownArguments(method.schema, args)).find(([, shown]) => shown === REDACTED) ?? [];
    if (secret !== undefined)
      throw new InvalidArgumentError(`argument ${secret} is secret or not declared: an address would show it`);
    refuseUnfit(args);
    await callable.call(method, { httpMethod: "GET", args }, { validateOnly: true, signal: call.signal });
    return method;
  }

  async #call(call: CallContext, asked: WantedCall, fresh: boolean): Promise<PassthruOutcome> {
    const callable = await this.#callable(asked.target, call.signal, fresh);
    const method = chosenMethod(callable.methods, asked.method, asked.httpMethod);
    const wanted = { ...asked, httpMethod: verbOf(method, asked.httpMethod) ?? asked.httpMethod };
    wanted.authorise(method);
    refuseUnfit(wanted.args);
    const { nodeId } = callable;
    const name = formatMethod({ nodeId, driver: method.driver, method: method.name });
    if (wanted.requestId !== "" && !method.async)
      throw new InvalidArgumentError(`${name} is synchronous, and its calls are not remembered: leave out request_id`, {
        about: { field: "request_id" },
      });
    const needsLock = method.exclusiveLock && nodeId !== "";
    // With `wait`, the task of an asynchronous method queues for the lock itself, so the call needs no lock.
    const lane = needsLock && !(method.async && wanted.wait) ? await this.#lock(call, wanted, nodeId, name) : undefined;
    try {
      if (method.async) return { async: true, task: await this.#start(call, wanted, callable, method, lane) };
      return { async: false, value: await this.#run(call, wanted, callable, method, name), method };
    } finally {
      lane?.release();
    }
  }

  async #run(
    call: CallContext,
    wanted: WantedCall,
    callable: Callable,
    method: VendorMethod,
    name: string,
  ): Promise<unknown> {
    const ended = this.#tell(call, wanted, method, name);
    try {
      const value = await callable.call(method, wanted, { validateOnly: false, signal: call.signal });
      ended("");
      return value;
    } catch (error) {
      ended(error instanceof StaleNode ? "" : messageOf(error));
      throw error;
    }
  }

  async #start(
    call: CallContext,
    wanted: WantedCall,
    callable: Callable,
    method: VendorMethod,
    lane: LaneLocks | undefined,
  ): Promise<Task> {
    const { tasks, tablet, locks, memory } = this.#options;
    const { nodeId } = callable;
    const { httpMethod, args } = wanted;
    const { plain, secrets } = parted(args, secretArguments(method.schema, args));
    const { driver, exclusiveLock } = method;
    const secretArgs = Object.keys(secrets);
    const name = formatMethod({ nodeId, driver, method: method.name });
    const ended = this.#tell(call, wanted, method, name);
    try {
      await callable.call(method, wanted, { validateOnly: true, signal: call.signal });
      const task = await tasks.start(call, {
        job: {
          type: "call_vendor_method",
          nodeId,
          driver,
          method: method.name,
          httpMethod,
          args: plain as Json as StoredObject,
          secretArgs,
          exclusiveLock,
        },
        // The same call may have started its task since call() read the tables.
        check: (tables) => {
          const earlier = earlierTask(tables, call, wanted);
          if (earlier !== undefined) throw new RepeatedCall(earlier);
        },
        onNumbered: (taskId, tx) => {
          memory.keepSecrets(taskId, secrets);
          rememberCall(tx, call, wanted, { taskId, secretArgs });
        },
        onNotRecorded: (taskId) => memory.forget(taskId),
        queue: "vendor_methods",
        description: `call ${name}`,
        deployment: "",
      });
      const { taskId } = task;
      if (lane !== undefined) lane.handOver(taskId);
      else if (exclusiveLock && nodeId !== "") locks.settle(taskId, [lockOf(nodeId)]);
      // A task that ended before it got the lock above never releases the lock, so the lock is released here.
      const current = await tablet.read((tables) => tables.tasks.get(taskKey(taskId)));
      if (current === undefined || hasEnded(current)) locks.release(taskId);
      ended("", taskId);
      return task;
    } catch (error) {
      if (error instanceof RepeatedCall) {
        ended("", error.taskId);
        return tasks.get(error.taskId);
      }
      ended(error instanceof StaleNode ? "" : messageOf(error));
      throw error;
    }
  }

  async #lock(call: CallContext, wanted: WantedCall, nodeId: string, name: string): Promise<LaneLocks> {
    const { locks } = this.#options;
    const lock = lockOf(nodeId);
    if (!wanted.wait && locks.owner(lock) !== undefined) throw await this.#locked(nodeId);
    const lane = locks.openLane(NO_TASK, `call of ${name} for ${userOf(call)}`);
    try {
      await lane.settle([lock], call.signal);
      return lane;
    } catch (error) {
      lane.release();
      throw error;
    }
  }

  async #locked(nodeId: string): Promise<AbortedError> {
    const { locks, tablet, taskLog, clock } = this.#options;
    const holder = locks.holder(lockOf(nodeId));
    const task = await tablet.read((tables) => tables.tasks.get(taskKey(holder?.taskId ?? NO_TASK)));
    const description = task && `${task.description} for ${task.user}`;
    const who = holder === undefined ? "a call that has just ended" : ownerText(holder, description);
    const since = holder === undefined ? "" : ` since ${holder.since.toISOString()}`;
    const progress = taskLog.progress(holder?.taskId ?? NO_TASK);
    const left = progress && leftMs(progress, clock.nowMs());
    const retryAfterMs = Math.min(Math.max(RETRY_LOCKED_MS, left ?? 0), MAX_RETRY_LOCKED_MS);
    return new AbortedError(
      `Node ${nodeId} is locked by ${who}${since}, please retry after the current operation is completed.`,
      { reason: "NODE_LOCKED", about: { node_id: nodeId, holder: who }, retryAfterMs },
    );
  }

  /** Records the start of a call as an event; the returned function records its end. Neither write is awaited. */
  #tell(
    call: CallContext,
    { args, httpMethod }: WantedCall,
    { schema }: VendorMethod,
    objectName: string,
  ): (error: string, taskId?: number) => void {
    const { events } = this.#options;
    const deed = { action: "call", objectType: "vendor_method", objectName };
    const shown = JSON.stringify(shownArguments(schema, args)).slice(0, MAX_SHOWN_LENGTH);
    const origin = { ...askerOf(call), context: { http_method: httpMethod, args: shown } };
    const begun = events.open(deed, origin);
    return (error, taskId = 0) => begun.end({ error, taskId });
  }

  async #callable(target: Target, signal: AbortSignal, fresh: boolean): Promise<Callable> {
    if (target.kind === "driver") return this.#ofDriver(target.driver);
    return this.#ofNode(await this.#options.nodes.find(target.nodeId, signal, { fresh }));
  }

  #ofDriver(name: string): Callable {
    const { host } = this.#options;
    const listing = host.listings().find((each) => each.name === name);
    if (listing === undefined) {
      const shown = /^[\w-]{1,64}$/.test(name) ? name : "?";
      const starting = startingOf(host.drivers());
      if (starting.length > 0) throw stillStarting(`The driver '${shown}' is unknown yet`, starting);
      throw new NotFoundError(`The driver '${shown}' is unknown.`, { about: { driver: shown } });
    }
    const methods = listing.driverMethods.map((method) => ({
      ...method,
      driver: name,
      exclusiveLock: false,
      timeoutMs: host.timeoutOf(name, "driver", method.name),
    }));
    return {
      nodeId: "",
      methods: {
        methods,
        catchAlls: listing.catchAll.driver ? [{ ...catchAllMethod("driver"), driver: name }] : [],
        driverCount: 1,
        starting: [],
      },
      call: (method, { httpMethod, args }, options) =>
        host.call(name, {
          kind: "driver",
          method: method.name,
          httpMethod,
          args,
          nodeId: "",
          timeoutMs: host.timeoutOf(name, "driver", method.name),
          ...options,
        }),
    };
  }

  #ofNode({ nodeId, client, bootId, revision, callable }: Node): Callable {
    return {
      nodeId,
      methods: callable,
      call: async (method, { httpMethod, args }, { validateOnly, signal }) => {
        const request = {
          bootId,
          revision,
          driver: method.driver,
          method: method.name,
          httpMethod,
          args,
          validateOnly,
        };
        const methodMs = validateOnly ? 0 : method.timeoutMs + METHOD_MARGIN_MS;
        const deadlineMs = Math.max(this.#options.callTimeoutMs, methodMs);
        try {
          const { outcome } = await client.callMethod(request, { signal, deadlineMs });
          return outcome?.$case === "value" || outcome?.$case === "data" ? outcome.value : null;
        } catch (error) {
          if (isStale(error)) throw new StaleNode(error);
          throw validateOnly ? nothingBegun(error, signal) : error;
        }
      },
    };
  }
}

const MAX_SHOWN_LENGTH = 2_000;

function parted(args: JsonObject, secretNames: readonly string[]) {
  const entries = Object.entries(args);
  return {
    plain: Object.fromEntries(entries.filter(([name]) => !secretNames.includes(name))),
    secrets: Object.fromEntries(entries.filter(([name]) => secretNames.includes(name))),
  };
}

/** Thrown when the task of an earlier call with the same request id exists. */
class RepeatedCall extends Error {
  constructor(readonly taskId: number) {
    super(`task ${taskId} runs the call`);
  }
}

/** Thrown when no method was started, because the agent was restarted, has moved or now offers other methods. */
class StaleNode extends Error {
  constructor(override readonly cause: unknown) {
    super(messageOf(cause));
  }
}

function isStale(error: unknown): boolean {
  if (error instanceof OutdatedError) return true;
  if (error instanceof AbortedError) return error.about.methods === "changed";
  return error instanceof UnavailableError && error.outcome === "not_done" && error.about.driver === undefined;
}
