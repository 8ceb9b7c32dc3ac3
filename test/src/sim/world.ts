import { HostState } from "@diskmesh/api/registry";
import { Random } from "../random.js";
import { Acknowledged } from "./acknowledged.js";
import { AgentNode, CACHE_FILE } from "./agent-node.js";
import { Chaos } from "./chaos.js";
import { whatIsNotSettled } from "./convergence.js";
import { DiskUser } from "./disk-user.js";
import { type Drive, newDrive } from "./drive.js";
import { calm, drawFaults, type Faults } from "./faults.js";
import { Lives } from "./lives.js";
import { BLOCK_BYTES, Machine } from "./machine.js";
import { SimNetwork } from "./network.js";
import { Operator } from "./operator.js";
import type { AgentRun, DevicePlace, RegistryRun, World } from "./parts.js";
import { REGISTRY_PLACES, RegistryNode } from "./registry-node.js";
import { Requests } from "./requests.js";
import { Rewinds } from "./rewinds.js";
import { type Scenario, scenarioOf, slicesOf } from "./scenarios.js";
import { settled, Timeline } from "./seed/timeline.js";
import { Violation } from "./seed/violation.js";
import { SimStore } from "./store.js";
import { AdoptionWatch } from "./watch-adoptions.js";
import { ByteWatch } from "./watch-bytes.js";
import { MoveWatch } from "./watch-moves.js";
import { OrderWatch } from "./watch-orders.js";
import { StateWatch } from "./watch-state.js";

/** Maximum simulated time in ms from the end of the last fault until everything has converged. */
const CONVERGENCE_LIMIT_MS = 120_000;
const CONVERGENCE_LOOK_MS = 500;
/** Blocks of a slice of 1 MiB, which devices of that size get. */
const BLOCKS_OF_SLICE = 2 ** 20 / BLOCK_BYTES;
const LONGEST_BUILD_STEPS = 160;

/** A simulated fleet: machines with agents, registries, a store, a network, and users. */
export class SimulatedWorld implements World {
  readonly timeline = new Timeline();
  readonly random: Random;
  /** Scenario of this run; undefined: random requests and faults. */
  readonly scenario: Scenario | undefined;
  /** Active faults; none at the beginning and at the end. */
  readonly faults: Faults = calm();
  readonly hosts: readonly string[];
  readonly smallestBlocks: number;
  readonly lines: string[] = [];
  /** Store of the registry's current history. A restore or a copied folder replaces it. */
  store = new SimStore();
  readonly network: SimNetwork;
  readonly orders: OrderWatch;
  readonly bytes: ByteWatch;
  readonly moves: MoveWatch;
  readonly acknowledged: Acknowledged;
  readonly rewinds: Rewinds;
  readonly lives: Lives;
  readonly adoptions = new AdoptionWatch(this);
  readonly requests: Requests;
  readonly operator: Operator;
  readonly user: DiskUser;
  readonly state: StateWatch;
  readonly #places = new Map<string, readonly DevicePlace[]>();
  readonly #machines = new Map<string, Machine>();
  readonly #agents = new Map<string, AgentRun>();
  readonly #registries = new Set<RegistryRun>();
  readonly #serviceRandom: Random;
  readonly #trouble: Faults;
  /** Steps without faults at the beginning, or until a disk is in use. */
  #buildSteps: number;
  #runs = 0;
  #steps = 0;
  #chaos: Chaos | undefined;
  #violation: Violation | undefined;

  constructor(seed: number) {
    this.random = new Random(seed);
    this.#serviceRandom = this.random.fork();
    this.scenario = scenarioOf(seed);
    this.smallestBlocks = 1 + slicesOf(seed) * BLOCKS_OF_SLICE;
    this.#trouble = this.scenario === undefined ? drawFaults(this.random) : { ...calm(), ...this.scenario.faults };
    this.#buildSteps = this.scenario?.plan ? 0 : this.random.pick([0, 80, LONGEST_BUILD_STEPS, LONGEST_BUILD_STEPS]);
    this.hosts = ["h1", "h2", "h3"].slice(0, this.scenario?.hostCount ?? 1 + this.random.below(3));
    this.orders = new OrderWatch(this);
    this.bytes = new ByteWatch(this);
    this.moves = new MoveWatch(this);
    this.acknowledged = new Acknowledged(this);
    this.state = new StateWatch(this);
    this.rewinds = new Rewinds(this);
    this.lives = new Lives(this);
    this.network = new SimNetwork(this.timeline, this.random, this.faults, this.orders, this);
    this.requests = new Requests(this);
    this.operator = new Operator(this);
    this.user = new DiskUser(this);
    for (const host of this.hosts) this.#setUp(host);
    const sharedAs = this.#drawSharing();
    if (sharedAs !== undefined) this.#share(sharedAs);
    for (const host of this.hosts) this.startAgent(host);
    this.startRegistry();
  }

  #setUp(host: string): void {
    const machine = new Machine(host, this, this.bytes);
    const { slices, drives = 1 } = this.scenario ?? {};
    if (slices !== undefined) {
      const blockCount = 1 + slices * BLOCKS_OF_SLICE;
      const names = ["a", "b", "c"].slice(0, drives);
      for (const name of names) machine.plugIn(`/dev/${name}`, blockCount);
      this.#machines.set(host, machine);
      const placeOf = (name: string) => ({
        deviceId: `${host}-${name}`,
        path: `/dev/${name}`,
        firstBlock: 0,
        blockCount,
      });
      this.#places.set(host, names.map(placeOf));
      return;
    }
    const blockCount = this.smallestBlocks;
    const places: DevicePlace[] = [
      { deviceId: `${host}-a`, path: "/dev/a", firstBlock: 0, blockCount: 2 * blockCount },
      { deviceId: `${host}-b`, path: "/dev/b", firstBlock: 0, blockCount },
    ];
    // Two devices on one drive share a descriptor.
    if (this.random.chance(0.5))
      places.push({ deviceId: `${host}-c`, path: "/dev/b", firstBlock: blockCount, blockCount });
    machine.plugIn("/dev/a", 2 * blockCount);
    machine.plugIn("/dev/b", 2 * blockCount);
    this.#machines.set(host, machine);
    this.#places.set(host, places);
  }

  #drawSharing(): Drive["sharedAs"] {
    if (this.hosts.length < 2) return undefined;
    if (this.scenario !== undefined) return this.scenario.shares;
    return this.random.chance(0.4) ? this.random.pick(["file", "drive"] as const) : undefined;
  }

  /** Makes the first two hosts see one drive, or one file. */
  #share(sharedAs: Drive["sharedAs"]): void {
    const drive = newDrive("shared", 2 * this.smallestBlocks, { sharedAs });
    for (const host of this.hosts.slice(0, 2)) {
      this.#machines.get(host)?.drives.set("/dev/s", drive);
      const place = { deviceId: `${host}-s`, path: "/dev/s", firstBlock: 0, blockCount: 2 * this.smallestBlocks };
      this.#places.set(host, [...this.placesOf(host), place]);
    }
  }

  placesOf(host: string): readonly DevicePlace[] {
    return this.#places.get(host) ?? [];
  }

  agents(): readonly AgentRun[] {
    return [...this.#agents.values()];
  }

  agentOf(host: string): AgentRun | undefined {
    return this.#agents.get(host);
  }

  machines(): readonly Machine[] {
    return [...this.#machines.values()];
  }

  registries(): readonly RegistryRun[] {
    return [...this.#registries];
  }

  /** Returns the registry that the store accepts. */
  leader(): RegistryRun | undefined {
    return this.registries().find(
      ({ store, context }) => store === this.store && context?.fleet.leader().tabletGeneration === store.generation,
    );
  }

  serviceRandom(): () => number {
    const random = this.#serviceRandom.fork();
    return () => random.next();
  }

  epochMs(): number {
    return 1_700_000_000_000 + Math.floor(this.timeline.nowMs);
  }

  startAgent(host: string): void {
    const machine = this.#machines.get(host);
    if (machine === undefined || this.#agents.get(host)?.process.alive) return;
    const forgot = this.random.chance(this.faults.brokenCache);
    if (forgot) machine.cache.spoil(CACHE_FILE);
    const hasForgotten = forgot || this.#forgot.get(host) === true;
    this.#forgot.set(host, hasForgotten);
    const before = this.#agents.get(host);
    const neverAsked = before?.mustAsk === true && !before.context?.ledger.memory.tabletId;
    if (this.random.chance(this.faults.exchangedPlaces)) this.#exchangePlaces(host);
    const node = new AgentNode(this, machine, this.placesOf(host), ++this.#runs, hasForgotten || neverAsked);
    this.#agents.set(host, node);
    this.trace(`${node.process.name}: starts${forgot ? " with a spoiled cache" : ""}`);
  }

  /** Swaps the offsets of two devices of one drive in the agent's config. */
  #exchangePlaces(host: string): void {
    const places = this.placesOf(host);
    const [first, second] = places.filter(({ path }) => path === "/dev/b");
    if (first === undefined || second === undefined) return;
    const exchanged = (place: DevicePlace): DevicePlace => {
      if (place !== first && place !== second) return place;
      return { ...place, firstBlock: (place === first ? second : first).firstBlock };
    };
    this.#places.set(host, places.map(exchanged));
    this.#machines.get(host)?.noteTouched();
    this.trace(`${host}: ${first.deviceId} and ${second.deviceId} have each other's place in the config`);
  }

  readonly #forgot = new Map<string, boolean>();

  agentStarted(node: AgentRun): void {
    this.orders.started(node, this.#forgot.get(node.machine.host) === true);
    this.#forgot.set(node.machine.host, false);
  }

  endAgent(node: AgentRun, powerLoss: boolean): void {
    if (!node.process.alive) return;
    this.trace(`${node.process.name}: ${powerLoss ? "loses power" : "dies"}`);
    node.crash(powerLoss);
    const { host } = node.machine;
    this.timeline.after(this.random.between(10, 3_000), undefined, "restart", () => this.startAgent(host));
  }

  startRegistry(store = this.store): void {
    const place = this.random.pick(REGISTRY_PLACES);
    const node = new RegistryNode(this, store, place, ++this.#runs);
    this.#registries.add(node);
    this.trace(`${node.process.name}: starts`);
  }

  endRegistry(node: RegistryRun): void {
    if (!node.process.alive) return;
    this.trace(`${node.process.name}: ends`);
    node.crash();
    this.#registries.delete(node);
    const { store } = node;
    this.timeline.after(this.random.between(10, 2_000), undefined, "restart", () => {
      if (this.rewinds.isKept(store) && !this.registries().some((other) => other.store === store))
        this.startRegistry(store);
    });
  }

  /** True before the first fault. */
  get isBuilding(): boolean {
    return this.#steps < this.#buildSteps;
  }

  #build(): void {
    for (const disk of this.store.disks()) if (disk.publication?.state === "PUBLISHED") this.#buildSteps = 0;
    if (!this.isBuilding) Object.assign(this.faults, this.#trouble);
  }

  trace(line: string): void {
    this.lines.push(`${this.#steps} ${this.timeline.nowMs.toFixed(3)} ${line}`);
  }

  violation(text: string): void {
    this.#violation ??= new Violation(text);
    this.trace(`VIOLATION: ${text}`);
  }

  /** Runs this number of steps with faults, and then steps without faults until everything has converged. */
  async run(givenSteps: number): Promise<void> {
    const steps = givenSteps * (this.scenario?.length ?? 1);
    this.#chaos = new Chaos(this);
    let building = true;
    while (this.#steps < steps) {
      if (building) {
        this.#build();
        building = this.isBuilding;
      }
      this.#chaos.betweenSteps();
      if (!(await this.#step())) break;
    }
    this.#chaos.stop();
    Object.assign(this.faults, calm());
    await this.#converge();
  }

  async #converge(): Promise<void> {
    const untilMs = this.timeline.nowMs + CONVERGENCE_LIMIT_MS;
    let lookAtMs = this.timeline.nowMs + CONVERGENCE_LOOK_MS;
    this.trace("all faults end");
    for (;;) {
      if (!(await this.#step())) return this.#throwViolation("nothing will ever happen again");
      if (this.timeline.nowMs < lookAtMs) continue;
      lookAtMs = this.timeline.nowMs + CONVERGENCE_LOOK_MS;
      if (this.rewinds.epoch > 0 && this.random.chance(0.2)) this.operator.sayWhoIsRight();
      const dead = [...this.store.hosts()].filter(({ state }) => state === "DEAD").map(({ hostId }) => hostId);
      if (dead.length > 0) this.requests.setHostState(dead, HostState.ONLINE);
      this.operator.seeToDrives();
      const unsettled = whatIsNotSettled(this);
      if (unsettled.length === 0) return;
      if (this.timeline.nowMs > untilMs)
        this.#throwViolation(`${CONVERGENCE_LIMIT_MS} ms after the last fault: ${unsettled.join("; ")}`);
    }
  }

  #throwViolation(text: string): never {
    this.violation(text);
    throw this.#violation;
  }

  async #step(): Promise<boolean> {
    const event = this.timeline.next();
    if (event === undefined) return false;
    this.#steps += 1;
    event.run();
    await settled();
    for (const node of this.#agents.values()) this.orders.check(node);
    if (this.#violation !== undefined) throw this.#violation;
    return true;
  }
}
