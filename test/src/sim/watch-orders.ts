import type {
  AttachDevicesRequest,
  AttachDevicesResponse,
  EraseDeviceRequest,
  EraseDeviceResponse,
  ExportDiskRequest,
  ExportDiskResponse,
  OpenSessionRequest,
  OpenSessionResponse,
  OrderOutcome,
  RegisterAgentRequest,
  RegisterAgentResponse,
  Stamp,
  UnexportDiskRequest,
} from "@diskmesh/api/internal";
import { type AgentMemory, highestSession } from "@diskmesh/disk-agent/simulation";
import { Bound, compare, DONE, LET_GO, OBEYED, type Order, shortenedSession, text } from "./bound.js";
import { blocksOf } from "./machine.js";
import type { NetworkWatch } from "./network.js";
import type { AgentRun, Confirmed, RunOfDevice, World } from "./parts.js";
import type { SimProcess } from "./seed/timeline.js";

type ReceivedOrder = Order & { readonly receivedAtMs: number };

/** Fields of all requests to agents. */
interface OrderRequest {
  readonly bootId?: string;
  readonly stamp?: Stamp | undefined;
  readonly devices?: readonly { readonly stamp?: Stamp | undefined }[];
}

/**
 * Checks every order and the agents' reactions: stamps and session numbers are given once and are durable before they
 * are sent; agents never obey an older order; a device with a confirmed detach is closed and stays closed.
 */
export class OrderWatch implements NetworkWatch {
  readonly confirmedAttach = new Map<string, Set<number>>();
  readonly confirmedDetach = new Map<string, Set<number>>();
  readonly granted = new Map<string, Set<number>>();
  readonly highestGranted = new Map<string, number>();
  /** Sessions in which a device was completely erased, by device. */
  readonly erased = new Map<string, Set<number>>();
  /** Use of each stamp, by the registry's history and number. */
  readonly #stampUses = new Map<string, string>();
  readonly #sessionUses = new Map<string, string>();
  /** All orders that registries gave. */
  readonly #given = new Set<string>();
  readonly #refused = new WeakMap<object, string>();
  readonly #receivedAtMs = new WeakMap<object, number>();
  /** Time of the agent's last confirmed attach, by device and generation. */
  readonly #attachedAtMs = new Map<string, number>();
  readonly #bound = new Map<string, Bound>();

  constructor(private readonly world: World) {}

  /** Returns the confirmations so far. */
  copy(): Confirmed {
    const { confirmedAttach, confirmedDetach, granted, erased } = this;
    return structuredClone({ confirmedAttach, confirmedDetach, granted, erased });
  }

  /** Returns to earlier confirmations, because the registry continues from then, and may give later numbers again. */
  rewind(then: Confirmed): void {
    for (const name of ["confirmedAttach", "confirmedDetach", "granted", "erased"] as const) {
      this[name].clear();
      for (const [deviceId, numbers] of then[name]) this[name].set(deviceId, new Set(numbers));
    }
  }

  sent(method: string, request: unknown, from: SimProcess): void {
    this.world.lives.sent(method, request, from);
    switch (method) {
      case "AttachDevices":
      case "DetachDevices": {
        const kind = method === "AttachDevices" ? "attach" : "detach";
        for (const { deviceId, stamp } of (request as AttachDevicesRequest).devices) {
          if (stamp === undefined) continue;
          this.#requireDurable(`${method} of ${deviceId} by ${from.name}`, stamp.deviceGeneration, from);
          this.#give(deviceId, { ...stamp, kind }, from);
        }
        return;
      }
      case "OpenSession": {
        const { sessionNumber, diskId, holderHostId } = request as OpenSessionRequest;
        this.#useSession(sessionNumber, `disk ${diskId} for ${holderHostId || "nobody"}`, from);
        return;
      }
      case "ExportDisk": {
        const { sessionNumber, diskId, openDeviceIds, openRuns, extents } = request as ExportDiskRequest;
        const [deviceId = openRuns[0]?.deviceId] = openDeviceIds;
        const holder = extents.find((extent) => extent.deviceId === deviceId)?.hostId;
        if (holder !== undefined) this.#useSession(sessionNumber, `disk ${diskId} for ${holder}`, from);
        return;
      }
      case "UnexportDisk": {
        const { sessionNumber, diskId, openDeviceIds, openRuns } = request as UnexportDiskRequest;
        if (openDeviceIds.length + openRuns.length > 0)
          this.#useSession(sessionNumber, `disk ${diskId} for nobody`, from);
        return;
      }
      case "EraseDevice": {
        const { sessionNumber, deviceId, offsetBytes } = request as EraseDeviceRequest;
        this.#useSession(sessionNumber, `erase ${deviceId} at ${offsetBytes}`, from);
      }
    }
  }

  received(method: string, request: unknown, server: SimProcess, from: SimProcess): void {
    this.world.lives.received(method, request, server, from);
    this.world.moves.received(method, request);
    const why = this.#whyRefused(request as OrderRequest, server);
    if (why !== undefined) this.#refused.set(request as object, why);
    this.#receivedAtMs.set(request as object, this.world.timeline.nowMs);
    // From now on the device may be open.
    if (method !== "AttachDevices") return;
    for (const { deviceId, stamp } of (request as AttachDevicesRequest).devices)
      if (stamp !== undefined) this.#boundOf(server.place).reach(deviceId, { ...stamp, kind: "attach" });
  }

  /** Returns why an agent must refuse the whole request; undefined when it need not. */
  #whyRefused({ bootId, stamp, devices }: OrderRequest, server: SimProcess): string | undefined {
    const context = this.world.agentOf(server.place)?.context;
    const stamps = [stamp, ...(devices ?? []).map((device) => device.stamp)].filter((each) => each !== undefined);
    if (context === undefined || stamps.length === 0) return undefined;
    if (bootId !== context.bootId) return `it is for run ${bootId}`;
    const { tabletGeneration: seen, incarnation } = context.ledger.memory;
    const other = stamps.find((each) => incarnation !== "" && each.incarnation !== incarnation);
    if (other !== undefined) return `it is of ${other.incarnation}, and the agent obeys ${incarnation}`;
    const given = Math.min(...stamps.map((each) => each.tabletGeneration));
    return given < seen ? `it is of tablet generation ${given}, and ${seen} was seen before` : undefined;
  }

  /** Returns the history of the registry that answered; undefined unless it is a leader. */
  answered(method: string, request: unknown, response: unknown, server: SimProcess): number | undefined {
    const why = this.#refused.get(request as object);
    if (why !== undefined) this.world.violation(`${server.name} obeyed ${method} although ${why}`);
    this.#answered(method, request, response, server);
    this.world.moves.answered(method, request, response);
    return this.#leads(server) ? this.world.rewinds.epoch : undefined;
  }

  #answered(method: string, request: unknown, response: unknown, server: SimProcess): void {
    switch (method) {
      case "AttachDevices":
      case "DetachDevices": {
        const kind = method === "AttachDevices" ? "attach" : "detach";
        const { outcomes } = response as AttachDevicesResponse;
        for (const { deviceId, outcome, stamp } of outcomes) {
          if (stamp === undefined) continue;
          const order = { ...stamp, kind, receivedAtMs: this.#receivedAtMs.get(request as object) ?? 0 } as const;
          this.#answeredOrder(server.place, deviceId, stamp, order, outcome);
        }
        return;
      }
      case "OpenSession":
      case "ExportDisk":
      case "UnexportDisk": {
        const { sessionNumber, diskId } = request as OpenSessionRequest | ExportDiskRequest | UnexportDiskRequest;
        for (const run of (response as OpenSessionResponse | ExportDiskResponse).outcomes) {
          if (!DONE.has(run.outcome)) continue;
          this.#grant(server.place, run, sessionNumber);
          this.world.lives.granted(run.deviceId, diskId, sessionNumber);
        }
        return;
      }
      case "EraseDevice": {
        const [{ sessionNumber }, { outcome }] = [request as EraseDeviceRequest, response as EraseDeviceResponse];
        if (outcome === undefined || !DONE.has(outcome.outcome)) return;
        this.#grant(server.place, outcome, sessionNumber);
        this.world.lives.granted(outcome.deviceId, "", sessionNumber);
        add(this.erased, outcome.deviceId, sessionNumber);
        this.world.bytes.requireErased(server.place, outcome);
        return;
      }
      case "RegisterAgent": {
        this.#requireBelieved(server, request as RegisterAgentRequest);
        const { allowedDevices, unknownDevices } = response as RegisterAgentResponse;
        if (this.#leads(server)) this.world.rewinds.hasRegistered((request as RegisterAgentRequest).hostId);
        for (const [kind, devices] of [
          ["attach", allowedDevices],
          ["detach", unknownDevices],
        ] as const)
          for (const { deviceId, stamp } of devices) {
            if (stamp === undefined) continue;
            const what = `a registration's answer by ${server.name} for ${deviceId}`;
            this.#requireDurable(what, stamp.deviceGeneration, server);
            this.#give(deviceId, { ...stamp, kind }, server);
          }
      }
    }
  }

  /**
   * Records the allowed devices in the answer to a registration as attaches that reached the agent. An answer counts
   * only once it has arrived, and as a whole.
   */
  heard(method: string, request: unknown, response: unknown, client: SimProcess, epoch: unknown): void {
    this.world.requests.hear(request, epoch === this.world.rewinds.epoch);
    if (method !== "RegisterAgent") return;
    const { allowedDevices } = response as RegisterAgentResponse;
    for (const { deviceId, stamp } of allowedDevices)
      if (stamp !== undefined) this.#boundOf(client.place).reach(deviceId, { ...stamp, kind: "attach" });
  }

  /** Records the start of an agent with the memory that it loaded. */
  started({ machine, context }: AgentRun, forgot: boolean): void {
    if (context === undefined) return;
    const { memory } = context.ledger;
    if (forgot) this.#bound.set(machine.host, new Bound());
    if (forgot) this.world.lives.cannotTell(machine.host);
    const bound = this.#boundOf(machine.host);
    for (const [deviceId, order] of bound.orders) {
      const kept = (memory.devices as ReadonlyMap<string, { order?: Order }>).get(deviceId)?.order;
      if (kept === undefined || compare(kept, order) < 0)
        this.world.violation(
          `the agent of ${machine.host} obeyed ${text(order)} of ${deviceId} and remembers ${kept ? text(kept) : "nothing"} after its restart`,
        );
    }
    for (const [deviceId, session] of bound.sessions) {
      const kept = highestSession(memory, deviceId as never);
      if (kept < session)
        this.world.violation(
          `the agent of ${machine.host} granted session ${session} of ${deviceId} and remembers ${kept} after its restart`,
        );
    }
    bound.memory = memory;
  }

  /** Called after every step. */
  check(node: AgentRun): void {
    const { context, machine } = node;
    if (!node.process.alive) return;
    if (node.mustAsk && !context?.ledger.memory.tabletId)
      for (const { path } of node.devices)
        if (machine.isHeld(path))
          this.world.violation(`${node.process.name} has lost its cache, and opened ${path} before it had registered`);
    if (context === undefined) return;
    const bound = this.#boundOf(machine.host);
    if (context.ledger.memory !== bound.memory) this.#checkMemory(machine.host, bound, context.ledger.memory);
    bound.memory = context.ledger.memory;
    if (bound.confirmedDetach.size > 0) this.#checkClosed(node, bound);
  }

  #checkMemory(host: string, bound: Bound, now: AgentMemory): void {
    const before = bound.memory;
    if (before === undefined) return;
    const { world } = this;
    const sameIncarnation = before.incarnation === now.incarnation;
    if (!sameIncarnation) this.#changeOver(host, bound, before, now);
    if (sameIncarnation && now.tabletGeneration < before.tabletGeneration)
      world.violation(
        `the agent of ${host} went back from tablet generation ${before.tabletGeneration} to ${now.tabletGeneration}`,
      );
    for (const [deviceId, device] of now.devices) {
      const was = before.devices.get(deviceId);
      if (was === device) continue;
      if (highestSession(now, deviceId) < highestSession(before, deviceId))
        world.violation(`the agent of ${host} went back to session ${highestSession(now, deviceId)} of ${deviceId}`);
      const { number } = shortenedSession(was, device) ?? {};
      if (number !== undefined) world.violation(`the agent of ${host} has shortened session ${number} of ${deviceId}`);
      const { order } = device;
      // Skips an order of a former incarnation, because only its kind still counts.
      if (order === undefined || order === was?.order || order.deviceGeneration === 0) continue;
      world.trace(`agent ${host}: obeys ${text(order)} of ${deviceId}`);
      if (sameIncarnation && was?.order !== undefined && compare(order, was.order) <= 0)
        world.violation(`the agent of ${host} obeyed ${text(order)} of ${deviceId} after ${text(was.order)}`);
      if (sameIncarnation && order.tabletGeneration < before.tabletGeneration)
        world.violation(
          `the agent of ${host} obeyed ${text(order)} of ${deviceId} although it has seen tablet generation ${before.tabletGeneration}`,
        );
      if (!this.#given.has(`${deviceId} ${text(order)}`))
        world.violation(`the agent of ${host} obeyed ${text(order)} of ${deviceId}, which no registry gave`);
    }
  }

  /** Resets the stamps that bind the agent, because stamps are compared within an incarnation only. */
  #changeOver(host: string, bound: Bound, before: AgentMemory, now: AgentMemory): void {
    const { world } = this;
    world.trace(`agent ${host}: obeys ${now.incarnation} from now on, and ${before.incarnation || "nobody"} before`);
    if (before.incarnation !== "") bound.changeOver();
    if (bound.former.has(now.incarnation))
      world.violation(`the agent of ${host} went back from ${before.incarnation} to ${now.incarnation}`);
    bound.former.add(before.incarnation);
  }

  #checkClosed({ machine, devices, context, process }: AgentRun, bound: Bound): void {
    for (const { deviceId, path } of devices) {
      if (!bound.isDetached(deviceId)) continue;
      if (context?.devices.find(deviceId as never)?.holds)
        this.world.violation(`${process.name} holds ${deviceId}, whose detach it has confirmed`);
      const others = devices.filter((other) => other.path === path);
      if (others.every((other) => bound.isDetached(other.deviceId)) && machine.isHeld(path))
        this.world.violation(`${process.name} has ${path} open, and has confirmed the detach of every device on it`);
    }
  }

  #answeredOrder(host: string, deviceId: string, stamp: Stamp, order: ReceivedOrder, outcome: OrderOutcome): void {
    const bound = this.#boundOf(host);
    const obeyed = this.world.agentOf(host)?.context?.ledger.memory.incarnation;
    // An answer does not bind an agent that obeys another incarnation since.
    if (OBEYED.has(outcome) && stamp.incarnation === obeyed) {
      const before = bound.orders.get(deviceId);
      if (before === undefined || compare(order, before) > 0) bound.orders.set(deviceId, order);
    }
    const node = this.world.agentOf(host);
    if (order.kind === "attach" && DONE.has(outcome)) {
      add(this.confirmedAttach, deviceId, order.deviceGeneration);
      this.#attachedAtMs.set(`${deviceId} ${order.deviceGeneration}`, this.world.timeline.nowMs);
      const now = node?.context?.ledger.memory.devices.get(deviceId as never)?.order;
      const path = node?.devices.find((device) => device.deviceId === deviceId)?.path;
      const overtaken = now !== undefined && compare(now, order) > 0;
      // A repetition of the order may have found another file while the answer waited, and opens that one now.
      if (!overtaken && (path === undefined || !node?.machine.wasOpenSince(path, order.receivedAtMs)))
        this.world.violation(`the agent of ${host} confirmed ${text(order)} of ${deviceId} without holding it`);
    }
    if (order.kind === "detach" && LET_GO.has(outcome)) {
      add(this.confirmedDetach, deviceId, order.deviceGeneration);
      const before = bound.confirmedDetach.get(deviceId);
      if (DONE.has(outcome) && (before === undefined || compare(order, before) > 0))
        bound.confirmedDetach.set(deviceId, order);
    }
  }

  /** Requires that a device that its agent registered without holding it is no longer ATTACHED. */
  #requireBelieved(server: SimProcess, request: RegisterAgentRequest): void {
    const { hostId, devices } = request;
    const receivedAtMs = this.#receivedAtMs.get(request) ?? 0;
    for (const { deviceId, attached } of devices) {
      const device = this.world.store.device(deviceId);
      // The commit of a registration may take long, so the agent may have confirmed the device since.
      if ((this.#attachedAtMs.get(`${deviceId} ${device?.generation}`) ?? 0) > receivedAtMs) continue;
      if (!attached && device?.hostId === hostId && device.attachState === "ATTACHED" && this.#leads(server))
        this.world.violation(`${deviceId} is ATTACHED, and its agent has registered without holding it`);
    }
  }

  /** Returns whether the process leads. Answers of an old leader may be outdated. */
  #leads(server: SimProcess): boolean {
    return this.world.leader()?.process === server;
  }

  #grant(host: string, { deviceId, offsetBytes, sizeBytes }: RunOfDevice, session: number): void {
    add(this.granted, deviceId, session);
    const { blockCount = 0 } = this.world.placesOf(host).find((place) => place.deviceId === deviceId) ?? {};
    for (const block of blocksOf(offsetBytes, sizeBytes, blockCount)) {
      const key = `${deviceId} ${block}`;
      this.highestGranted.set(key, Math.max(session, this.highestGranted.get(key) ?? 0));
    }
    const { sessions } = this.#boundOf(host);
    sessions.set(deviceId, Math.max(session, sessions.get(deviceId) ?? 0));
  }

  #give(deviceId: string, order: Order, from: SimProcess): void {
    this.#given.add(`${deviceId} ${text(order)}`);
    const use = `${order.kind} ${deviceId}`;
    const stamp = `${this.world.rewinds.epochOf(from)} ${order.deviceGeneration}`;
    const before = this.#stampUses.get(stamp);
    if (before === undefined) this.#stampUses.set(stamp, use);
    else if (before !== use)
      this.world.violation(`device generation ${order.deviceGeneration} was given to ${before}, and again to ${use}`);
  }

  #requireDurable(what: string, generation: number, from: SimProcess): void {
    const durable = this.world.rewinds.storeOf(from).counter("device_generation");
    if (generation > durable)
      this.world.violation(`${what} carries generation ${generation}, and ${durable} is the last durable one`);
  }

  #useSession(session: number, use: string, from: SimProcess): void {
    const counter = this.world.rewinds.storeOf(from).counter("session_number");
    if (session > counter)
      this.world.violation(`session ${session} (${use}) is sent, and ${counter} is the last durable one`);
    const key = `${this.world.rewinds.epochOf(from)} ${session}`;
    const before = this.#sessionUses.get(key);
    if (before === undefined) this.#sessionUses.set(key, use);
    else if (before !== use) this.world.violation(`session ${session} was given to ${before}, and again to ${use}`);
  }

  /** Returns whether a registry has sent the session to any agent. */
  wasAsked(session: number): boolean {
    return this.#sessionUses.has(`${this.world.rewinds.epoch} ${session}`);
  }

  #boundOf(host: string): Bound {
    let bound = this.#bound.get(host);
    if (bound === undefined) {
      bound = new Bound();
      this.#bound.set(host, bound);
    }
    return bound;
  }
}

function add(map: Map<string, Set<number>>, key: string, value: number): void {
  const values = map.get(key);
  if (values === undefined) map.set(key, new Set([value]));
  else values.add(value);
}
