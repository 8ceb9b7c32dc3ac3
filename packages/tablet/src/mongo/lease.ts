import { FencedError, LEADER_ADDRESS, servedElsewhere } from "@diskmesh/domain";
import { sleep, type TabletClock } from "../clock.js";
import { OneAtATime } from "../one-at-a-time.js";
import { LEASES } from "./collections.js";
import type { DocumentServer } from "./document-server.js";
import { FOREVER_MS, type Patience } from "./patience.js";

/** A tablet's lease. A pair of writer and renewals never recurs. */
interface StoredLease {
  readonly _id: string;
  /** Id of the holder; empty when the lease is free. */
  readonly writer: string;
  readonly renewals: number;
  readonly address: string;
}

export interface LeaseOptions {
  readonly server: DocumentServer;
  readonly tabletName: string;
  readonly patience: Patience;
  readonly clock: TabletClock;
  /** Time without renewal after which a candidate takes the lease. */
  readonly leaseTimeMs: number;
  /** Time for which a leader relies on a renewal. Shorter than the lease time, because no two clocks run alike. */
  readonly safeLeaseTimeMs: number;
  /**
   * Called on each answer of the server; while another process holds the lease, with the time until it may be taken.
   */
  readonly onAnswer?: ((takesOverInMs?: number) => void) | undefined;
}

/** Number of reads by a candidate per lease time. */
const LOOKS = 10;

/** Time that a stop waits for an unreachable server; afterwards the next leader waits for the lease to expire. */
export const CLEAR_TIMEOUT_MS = 2_000;

/** The lease only spares other candidates retries and keeps reads fresh; the log decides who may write. */
export class Lease {
  readonly #options: LeaseOptions;
  /** Serializes renewals and changes of the own writer id. */
  readonly #turns = new OneAtATime();
  #writer: string | undefined;
  #safeUntilMs = Number.NEGATIVE_INFINITY;

  constructor(options: LeaseOptions) {
    this.#options = options;
  }

  /** Waits until the lease is free or was not renewed for the lease time, and takes it. */
  async take(
    writer: string,
    address: string,
    { signal, onStandby }: { signal: AbortSignal; onStandby: (leaderAddress: string) => void },
  ): Promise<void> {
    const { clock, leaseTimeMs } = this.#options;
    let seen = await this.#readOrMake();
    let seenAtMs = clock.monotonicMs();
    let toldAddress: string | undefined;
    for (;;) {
      if (seen.writer === "" || clock.monotonicMs() >= seenAtMs + leaseTimeMs) {
        // The validity counts from before the request was sent.
        const sentAtMs = clock.monotonicMs();
        if (await this.#takeOver(seen, writer, address)) {
          this.#writer = writer;
          this.#safeUntilMs = sentAtMs + this.#options.safeLeaseTimeMs;
          return;
        }
      } else {
        if (seen.address !== toldAddress) onStandby(seen.address);
        toldAddress = seen.address;
        // The sleep ends with the lease time, because every moment after it is one without a leader.
        const leftMs = seenAtMs + leaseTimeMs - clock.monotonicMs();
        this.#options.onAnswer?.(leftMs);
        await sleep(clock, Math.max(0, Math.min(leaseTimeMs / LOOKS, leftMs)), signal);
      }
      const looked = await this.#readOrMake();
      if (looked.writer === seen.writer && looked.renewals === seen.renewals) continue;
      seen = looked;
      seenAtMs = clock.monotonicMs();
    }
  }

  /**
   * Renews the lease. Throws FencedError when another process holds it. Waits as long as the server does not answer.
   */
  renew(): Promise<void> {
    return this.#turns.run(async () => {
      const { clock, server, patience, tabletName, safeLeaseTimeMs } = this.#options;
      let sentAtMs = 0;
      const renewed = await patience.answerOf(() => {
        sentAtMs = clock.monotonicMs();
        return server.update(LEASES, tabletName, { writer: this.#writer }, { set: {}, increment: "renewals" });
      }, FOREVER_MS);
      this.#options.onAnswer?.();
      if (!renewed) throw await this.#takenAway();
      this.#safeUntilMs = sentAtMs + safeLeaseTimeMs;
    });
  }

  /** Hands the lease to another writer id of the same process. */
  hand(writer: string): Promise<void> {
    return this.#turns.run(async () => {
      const { server, patience, tabletName } = this.#options;
      const where = { writer: this.#writer };
      const change = { set: { writer }, increment: "renewals" };
      const handed = await patience.answerOf(() => server.update(LEASES, tabletName, where, change), FOREVER_MS);
      // An earlier try whose answer was lost may have succeeded.
      if (!handed && (await this.#read())?.writer !== writer) throw await this.#takenAway();
      this.#writer = writer;
    });
  }

  /** Frees the lease if this process still holds it, so that the next leader need not wait. */
  clear(): Promise<void> {
    return this.#turns.run(async () => {
      if (this.#writer === undefined) return;
      const { server, patience, tabletName } = this.#options;
      this.#safeUntilMs = Number.NEGATIVE_INFINITY;
      const change = { set: { writer: "", address: "" }, increment: "renewals" };
      const where = { writer: this.#writer };
      await patience.answerOf(() => server.update(LEASES, tabletName, where, change), CLEAR_TIMEOUT_MS);
    });
  }

  /** Time during which no other process can hold the lease. */
  get leftMs(): number {
    return this.#safeUntilMs - this.#options.clock.monotonicMs();
  }

  /** Throws UnavailableError when another process may already hold the lease. */
  check(): void {
    const { tabletName } = this.#options;
    const overdueMs = -this.leftMs;
    if (overdueMs < 0) return;
    throw servedElsewhere(
      `tablet ${tabletName}: the lease ran out ${Math.round(overdueMs)} ms ago, since the database has not answered its renewal yet, and another process may lead by now; check the database, and try again`,
    );
  }

  async #takeOver(seen: StoredLease, writer: string, address: string): Promise<boolean> {
    const { server, patience, tabletName } = this.#options;
    const where = { writer: seen.writer, renewals: seen.renewals };
    const change = { set: { writer, address }, increment: "renewals" };
    if (await patience.answerOf(() => server.update(LEASES, tabletName, where, change))) return true;
    // An earlier try whose answer was lost may have succeeded.
    return (await this.#read())?.writer === writer;
  }

  async #takenAway(): Promise<FencedError> {
    const { tabletName } = this.#options;
    const now = await this.#read();
    const address = now?.address ?? "";
    return new FencedError(`the lease of tablet ${tabletName} has been taken by ${address || "another process"}`, {
      about: { [LEADER_ADDRESS]: address },
    });
  }

  async #readOrMake(): Promise<StoredLease> {
    const { server, patience, tabletName } = this.#options;
    for (;;) {
      const stored = await this.#read();
      if (stored !== undefined) return stored;
      const fresh: StoredLease = { _id: tabletName, writer: "", renewals: 0, address: "" };
      await patience.answerOf(() => server.insert(LEASES, { ...fresh }));
    }
  }

  async #read(): Promise<StoredLease | undefined> {
    const { server, patience, tabletName } = this.#options;
    const stored = await patience.answerOf(() => server.get(LEASES, tabletName), FOREVER_MS);
    this.#options.onAnswer?.();
    return stored as StoredLease | undefined;
  }
}
