import type { DeviceId, DiskId, HostId } from "@diskmesh/domain";
import { Random } from "../../random.js";
import { Timeline } from "../seed/timeline.js";
import { Violation } from "../seed/violation.js";
import { Chaos } from "./chaos.js";
import type { Drive } from "./drive.js";
import type { CopyFaults } from "./faults.js";
import { Machine } from "./machine.js";
import { Operator } from "./operator.js";
import { type Answer, type CopyWorld, type IoAnswer, REGISTRY } from "./parts.js";
import { Registry } from "./registry.js";
import { type CopyScenario, scenarioOf } from "./scenarios.js";
import { Users } from "./users.js";
import { Watch } from "./watch.js";
import { Wishes } from "./wishes.js";

const TURN_MS = 200;
/** Time after the last fault within which everything must be as it should be. */
const CONVERGES_WITHIN_MS = 300_000;
const RETRY_MS = 300;

/** A fleet with disks of several copies, from its beginning until everything has converged. */
export class SimulatedCopies implements CopyWorld {
  readonly timeline = new Timeline();
  readonly random: Random;
  readonly lines: string[] = [];
  readonly scenario: CopyScenario;
  readonly faults: CopyFaults;
  readonly hostIds: readonly HostId[];
  readonly deviceIds: readonly DeviceId[];
  readonly wants = new Map<DiskId, HostId>();
  readonly machines = new Map<HostId, Machine>();
  /** Pairs of hosts, or a host and the registry, that are cut from each other. */
  readonly cuts = new Set<string>();
  readonly registry: Registry;
  readonly watch: Watch;
  readonly users: Users;
  readonly wishes: Wishes;
  readonly operator: Operator;
  readonly #drives = new Map<DeviceId, Drive>();
  readonly #chaos: Chaos;
  #violation: string | undefined;

  constructor(
    seed: number,
    readonly isTraced: boolean,
  ) {
    this.random = new Random(seed);
    this.scenario = scenarioOf(seed, this.random);
    this.faults = { ...this.scenario.faults };
    const { hostCount, drivesPerHost, isKernel } = this.scenario;
    this.hostIds = Array.from({ length: hostCount }, (_, index) => `h${index + 1}` as HostId);
    this.registry = new Registry(this);
    this.watch = new Watch(this, () => this.registry.store.disks);
    this.users = new Users(this, this.watch, this.scenario.writesAtOnce);
    this.wishes = new Wishes(this);
    this.operator = new Operator(this);
    for (const hostId of this.hostIds) {
      const devices = Array.from({ length: drivesPerHost }, (_, index) => `${hostId}-${"abcdefgh"[index]}` as DeviceId);
      const machine = new Machine(this, hostId, devices, isKernel);
      this.machines.set(hostId, machine);
      for (const drive of machine.drives) this.#drives.set(drive.deviceId, drive);
    }
    this.deviceIds = [...this.#drives.keys()];
    this.#chaos = new Chaos(this);
    this.watch.onChange = (before, after) => this.#chaos.changed(before, after);
  }

  /** Runs so many turns under faults, and then until everything has converged. Throws a Violation. */
  run(turns: number): void {
    this.registry.lead();
    this.#chaos.begin();
    for (let turn = 0; turn < turns; turn++) {
      this.#runFor(TURN_MS);
      this.#chaos.turn();
      this.watch.checkCopies();
      this.#requireWell();
    }
    this.#chaos.stop();
    if (this.isTraced) this.trace("all faults end");
    const endMs = this.timeline.nowMs + CONVERGES_WITHIN_MS;
    let why = this.#chaos.whyNotConverged();
    while (why !== undefined && this.timeline.nowMs < endMs) {
      this.#runFor(1_000);
      this.watch.checkCopies();
      this.#requireWell();
      why = this.#chaos.whyNotConverged();
    }
    if (why !== undefined) this.violation(`${why}, ${CONVERGES_WITHIN_MS / 1_000} s after the last fault`);
    this.watch.checkHistories();
    this.#requireWell();
  }

  #runFor(durationMs: number): void {
    const endMs = this.timeline.nowMs + durationMs;
    let isOver = false;
    this.timeline.after(durationMs, undefined, "turn", () => {
      isOver = true;
    });
    while (!isOver && this.timeline.nowMs <= endMs) this.timeline.next()?.run();
  }

  #requireWell(): void {
    if (this.#violation !== undefined) throw new Violation(this.#violation);
  }

  trace(line: string): void {
    if (this.isTraced) this.lines.push(`${this.lines.length + 1} ${this.timeline.nowMs.toFixed(0)} ${line}`);
  }

  violation(text: string): void {
    this.#violation ??= text;
    this.trace(`VIOLATION: ${text}`);
  }

  isDeleted(diskId: DiskId): boolean {
    return this.operator.isDeleted(diskId);
  }

  hostOf(deviceId: DeviceId): HostId {
    return this.driveOf(deviceId).hostId;
  }

  driveOf(deviceId: DeviceId): Drive {
    return this.#drives.get(deviceId) as Drive;
  }

  machineOf(hostId: HostId): Machine {
    return this.machines.get(hostId) as Machine;
  }

  snapshotId(jobId: string): DiskId {
    return `disk-of-${jobId}` as DiskId;
  }

  after(delayMs: number, run: () => void): void {
    this.timeline.after(delayMs, undefined, "", run);
  }

  #isUp(name: string): boolean {
    return name === REGISTRY || this.machineOf(name as HostId).isUp;
  }

  #isReachable(from: string, to: string): boolean {
    if (!this.#isUp(from) || !this.#isUp(to)) return false;
    if (from === to) return true;
    return !this.cuts.has(`${from} ${to}`) && !this.cuts.has(`${to} ${from}`);
  }

  /** Delivers a message after a while, never, or twice. */
  #deliver(from: string, to: string, receive: () => void): void {
    const { faults, random } = this;
    if (from !== to && random.chance(faults.loss)) return;
    const times = from !== to && random.chance(faults.duplication) ? 2 : 1;
    for (let time = 0; time < times; time++) {
      const delayMs = random.chance(faults.late) ? random.between(100, 3_000) : random.between(0.5, 5);
      this.after(delayMs, () => {
        if (this.#isReachable(from, to)) receive();
      });
    }
  }

  call<T>(from: string, to: string, handle: (answer: Answer<T>) => void, answered: Answer<T>): void {
    this.#deliver(from, to, () => handle((value) => this.#deliver(to, from, () => answered(value))));
  }

  io(from: HostId, deviceId: DeviceId, send: (answer: Answer<IoAnswer>) => void, answered: Answer<IoAnswer>): void {
    const to = this.hostOf(deviceId);
    this.#connected(from, to, () => send((answer) => this.#connected(to, from, () => answered(answer))));
  }

  /** Brings bytes from one host to another one, once they reach each other. */
  #connected(from: string, to: string, receive: () => void): void {
    const slow = this.random.chance(this.faults.late) ? 300 : 2;
    this.after(this.random.between(0.1, from === to ? 0.3 : slow), () => {
      if (this.#isReachable(from, to)) receive();
      else this.after(RETRY_MS, () => this.#connected(from, to, receive));
    });
  }
}
