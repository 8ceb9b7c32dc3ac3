import type { Change, StoredChange } from "../documents/schema.js";
import type { Claim, Leader, OnDocument, Snapshot, TabletStorage } from "../storage/storage.js";

/** A storage whose commits wait while the gate is closed. Tests can also make commits fail. */
export class GatedStorage implements TabletStorage {
  readonly commits: (readonly Change[])[] = [];
  readonly closed: { handOver: boolean }[] = [];
  failWith: Error | undefined;
  renewError: Error | undefined;
  /** Snapshot function that the tablet passed to `load`. */
  snapshot: Snapshot = () => Promise.reject(new Error("nothing was loaded"));
  readonly #inner: TabletStorage;
  #gate: Promise<void> = Promise.resolve();
  #openGate: () => void = () => {};
  #answersOfClaims: Promise<void>[] = [];

  constructor(inner: TabletStorage) {
    this.#inner = inner;
  }

  stop(): void {
    this.#gate = new Promise((resolve) => {
      this.#openGate = resolve;
    });
  }

  go(): void {
    this.#openGate();
  }

  /** Makes the next claimAbove take effect at once, but delays its answer until the promise resolves. */
  delayAnswerOfClaim(until: Promise<void>): void {
    this.#answersOfClaims.push(until);
  }

  claim(leader: Leader): Promise<Claim> {
    return this.#inner.claim(leader);
  }

  async claimAbove(generation: number): Promise<number> {
    const claimed = await this.#inner.claimAbove(generation);
    await this.#answersOfClaims.shift();
    return claimed;
  }

  load(onDocument: OnDocument, snapshot?: Snapshot): Promise<void> {
    this.snapshot = snapshot ?? this.snapshot;
    return this.#inner.load(onDocument, snapshot);
  }

  async commit(changes: readonly StoredChange[]): Promise<void> {
    this.commits.push(changes);
    await this.#gate;
    if (this.failWith !== undefined) throw this.failWith;
    await this.#inner.commit(changes);
  }

  async renew(): Promise<void> {
    if (this.renewError !== undefined) throw this.renewError;
    await this.#inner.renew();
  }

  async close(options: { handOver: boolean }): Promise<void> {
    this.closed.push(options);
    await this.#inner.close(options);
  }
}
