import type { DiskId, HostId } from "@diskmesh/domain";
import type { Random } from "../../random.js";
import { REGISTRY } from "./parts.js";

/** The world, as cuts of its network see it. */
interface CutWorld {
  readonly random: Random;
  readonly hostIds: readonly HostId[];
  readonly wants: Map<DiskId, HostId>;
  readonly cuts: Set<string>;
  readonly isTraced: boolean;
  after(delayMs: number, run: () => void): void;
  trace(line: string): void;
}

/** Cuts of the network between hosts, and between hosts and the registry. */
export class Cuts {
  #hasStopped = false;

  constructor(private readonly world: CutWorld) {}

  /** Ends all cuts; none begins after that. */
  stop(): void {
    this.#hasStopped = true;
    this.world.cuts.clear();
  }

  between(from: string, to: string, durationMs = this.world.random.between(500, 30_000)): void {
    const key = `${from} ${to}`;
    if (this.#hasStopped || from === to || this.world.cuts.has(key)) return;
    if (this.world.isTraced) this.world.trace(`fault: ${from} and ${to} are cut from each other`);
    this.world.cuts.add(key);
    this.world.after(durationMs, () => this.world.cuts.delete(key));
  }

  fromOthers(hostId: HostId): void {
    for (const other of this.world.hostIds) this.between(hostId, other);
  }

  /** Cuts a host from the registry and, at once or later, from all other hosts. */
  isolate(hostId: HostId): void {
    const { random, wants } = this.world;
    this.between(hostId, REGISTRY);
    if (random.chance(0.5)) this.fromOthers(hostId);
    else this.world.after(random.between(0, 10_000), () => this.fromOthers(hostId));
    // Users who run something on the host want it elsewhere.
    for (const [diskId, wanted] of wants)
      if (wanted === hostId && random.chance(0.7)) wants.set(diskId, random.pick(this.world.hostIds));
  }

  /** A host comes and goes: each time it is heard for too short a time to be trusted with a copy. */
  flap(hostId: HostId, times = this.world.random.between(2, 6)): void {
    if (times < 1) return;
    const { random } = this.world;
    const awayMs = random.between(6_000, 9_000);
    for (const other of [REGISTRY, ...this.world.hostIds]) this.between(hostId, other, awayMs);
    this.world.after(awayMs + random.between(1_000, 8_000), () => this.flap(hostId, times - 1));
  }
}
