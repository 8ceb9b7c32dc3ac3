import { BLOCKS, ERASED } from "./parts.js";

/** One use of a block. Times are moments: numbers that grow with all that happens. */
export interface BlockUse {
  /** `choice`: a copy was chosen that may have lost what was not flushed. */
  readonly kind: "read" | "write" | "choice";
  value: number;
  readonly beganAt: number;
  /** Last moment at which it can have taken effect; infinite while it still can. */
  endsAt: number;
  /** True for a write that nobody acknowledged: it may have had no effect. */
  isOptional: boolean;
  /** Holder that is to do it. */
  readonly by?: object | undefined;
  /** Values that a choice may leave besides the present one. */
  readonly candidates?: readonly number[];
}

/** All uses of one block. Values are numbers that grow, and no two writes of a block are under way at once. */
export class BlockHistory {
  readonly uses: BlockUse[] = [];
  /** Value that is flushed in every copy that counts, or a later one. */
  floor: number;
  /** Earlier floors, with the times in ms from which on they held. */
  readonly #floors: { readonly floor: number; readonly sinceMs: number }[] = [];
  /** Uses before this one are not what an acknowledged flush covers. */
  #since = 0;

  constructor(readonly initial: number = ERASED) {
    this.floor = initial;
  }

  begin(kind: "read" | "write", value: number, now: number, by?: object): BlockUse {
    const use = { kind, value, beganAt: now, endsAt: Number.POSITIVE_INFINITY, isOptional: true, by };
    this.uses.push(use);
    return use;
  }

  /** Notes an acknowledged flush: writes that were acknowledged before it began are kept. */
  flushed(beganAt: number, nowMs: number): void {
    for (const { kind, value, endsAt, isOptional } of this.uses.slice(this.#since))
      if (kind === "write" && !isOptional && endsAt < beganAt) this.floor = Math.max(this.floor, value);
    if (this.floor !== this.#floors.at(-1)?.floor) this.#floors.push({ floor: this.floor, sinceMs: nowMs });
  }

  /** A person has accepted that later flushes are lost. Returns the floor of that time. */
  forgetSince(lostSinceMs: number): number {
    while ((this.#floors.at(-1)?.sinceMs ?? 0) > lostSinceMs) this.#floors.pop();
    this.floor = this.#floors.at(-1)?.floor ?? this.initial;
    return this.floor;
  }

  /**
   * A session is over: what was not acknowledged has happened by now or never, but for what waits for the holder that serves
   * from now on. `mayLose`: a machine has lost power, so that what was not flushed may be lost.
   */
  choose(now: number, mayLose: boolean, holder: object): void {
    const isOpen = ({ kind, endsAt }: BlockUse): boolean => kind === "write" && endsAt === Number.POSITIVE_INFINITY;
    const waiting = this.uses.filter((use) => isOpen(use) && use.by === holder);
    const before = this.uses.filter((use) => !waiting.includes(use));
    for (const use of before) if (isOpen(use)) use.endsAt = now;
    if (!mayLose) return;
    const later = before.filter(({ kind, value }) => kind === "write" && value > this.floor);
    const candidates = [this.floor, ...later.map(({ value }) => value)];
    before.push({ kind: "choice", value: 0, beganAt: now, endsAt: now, isOptional: false, candidates });
    this.#since = before.length;
    this.uses.splice(0, this.uses.length, ...before, ...waiting);
  }

  /** The block is read at this one moment. */
  isNow(value: number, now: number): void {
    this.uses.push({ kind: "read", value, beganAt: now, endsAt: now, isOptional: false });
  }
}

/** Histories of a disk's blocks. */
export class DiskHistory {
  readonly parts: readonly (readonly BlockHistory[])[];
  /** Parts of which a counting copy has lost power since a copy was chosen, and `<part> <device>` of one that may count since. */
  readonly lostPower = new Set<string>();

  constructor(initial: readonly (readonly number[])[]) {
    this.parts = initial.map((values) => values.map((value) => new BlockHistory(value)));
  }

  static empty(partCount: number): DiskHistory {
    return new DiskHistory(Array.from({ length: partCount }, () => Array.from({ length: BLOCKS }, () => ERASED)));
  }
}
