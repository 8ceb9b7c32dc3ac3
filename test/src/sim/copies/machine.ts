import type { HolderOrder } from "@diskmesh/disk-agent/simulation";
import type { DeviceId, DiskId, HostId } from "@diskmesh/domain";
import { Drive } from "./drive.js";
import { HolderRun } from "./holder-run.js";
import { type CopyWorld, REGISTRY } from "./parts.js";

const HEARTBEAT_MS = 1_000;

/** A host: its drives, its agent, and the disks that it holds. */
export class Machine {
  readonly drives: readonly Drive[];
  readonly holders = new Map<DiskId, HolderRun>();
  isUp = true;
  hasAgent = true;
  runId = "run-1";
  /** True once the registry has heard of this run of the agent: no order of an earlier one is obeyed. */
  isRegistered = false;
  #boots = 1;
  #runs = 1;

  constructor(
    private readonly world: CopyWorld,
    readonly hostId: HostId,
    deviceIds: readonly DeviceId[],
    /** True where the kernel carries the disks, which go on while the agent is away. */
    readonly isKernel: boolean,
  ) {
    this.drives = deviceIds.map((deviceId) => new Drive(world, deviceId, hostId, () => `boot-${this.#boots}`));
    this.#tick();
  }

  /** Follows an order to serve a disk. Answers false when it does not: the order is of another run or session. */
  serve(diskId: DiskId, runId: string, order: HolderOrder, answer: (isServed: boolean) => void): void {
    if (!this.hasAgent) return;
    const running = this.holders.get(diskId);
    if (running !== undefined && !running.isGone && running.session === order.session) {
      running.follow(order);
      answer(!running.holder.isOver);
      return;
    }
    if (runId !== this.runId || (running !== undefined && running.session >= order.session)) {
      answer(false);
      return;
    }
    running?.vanish();
    if (this.world.isTraced) this.world.trace(`agent ${this.hostId}: serves ${diskId} in session ${order.session}`);
    this.holders.set(diskId, new HolderRun(this.world, this.hostId, diskId, order));
    answer(true);
  }

  /** Ends a disk, and answers with whether the end is clean. */
  end(diskId: DiskId, session: number, answer: (end: { revision: number; isClean: boolean }) => void): void {
    if (!this.hasAgent) return;
    const running = this.holders.get(diskId);
    if (running === undefined || running.isGone || running.session !== session) {
      answer({ revision: 0, isClean: false });
      return;
    }
    running.end(answer);
  }

  /** The registry no longer wants the sessions that it does not name. */
  #forgetOthers(): void {
    for (const [diskId, running] of this.holders)
      if (running.holder.isOver && running.isGone) this.holders.delete(diskId);
  }

  losePower(): void {
    this.isUp = false;
    this.hasAgent = false;
    this.#endHolders();
    for (const drive of this.drives) drive.losePower();
    this.#boots += 1;
  }

  boot(): void {
    this.isUp = true;
    this.startAgent();
  }

  crashAgent(losesCache: boolean): void {
    this.hasAgent = false;
    if (this.isKernel) for (const running of this.holders.values()) running.loseAgent();
    else this.#endHolders();
    if (losesCache) for (const drive of this.drives) drive.forget();
  }

  startAgent(): void {
    if (!this.isUp || this.hasAgent) return;
    this.hasAgent = true;
    this.runId = `run-${++this.#runs}`;
    this.isRegistered = false;
    for (const running of this.holders.values()) running.recover();
    this.#register();
  }

  #endHolders(): void {
    for (const running of this.holders.values()) running.vanish();
    this.holders.clear();
  }

  #tick(): void {
    if (this.hasAgent) {
      this.#forgetOthers();
      if (this.isRegistered)
        this.world.call<boolean>(
          this.hostId,
          REGISTRY,
          (answer) => this.world.registry.heartbeat(this.hostId, this.runId, answer),
          (isKnown) => {
            if (!isKnown) this.isRegistered = false;
          },
        );
      else this.#register();
    }
    this.world.after(HEARTBEAT_MS, () => this.#tick());
  }

  #register(): void {
    const { runId } = this;
    const served = [...this.holders].filter(([, running]) => !running.isGone && !running.holder.isOver);
    const registration = {
      hostId: this.hostId,
      runId,
      served: new Map(served.map(([diskId, { session }]) => [diskId, session])),
    };
    this.world.call<true>(
      this.hostId,
      REGISTRY,
      (answer) => this.world.registry.register(registration, answer),
      () => {
        if (this.runId === runId) this.isRegistered = true;
      },
    );
  }
}
