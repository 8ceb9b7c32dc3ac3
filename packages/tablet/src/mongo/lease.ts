import { FencedError, LEADER_ADDRESS, servedElsewhere } from "@diskmesh/domain";
import { sleep, type TabletClock } from "../storage/clock.js";
import { OneAtATime } from "../storage/one-at-a-time.js";
import { LEASES } from "./collections.js";
import type { DocumentServer } from "./document-server.js";
import { FOREVER_MS, type RetryPolicy } from "./retry-policy.js";

/** Lease as stored. No two states of a lease have the same pair of `writer` and `renewals`. */
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
  readonly retryPolicy: RetryPolicy;
  readonly clock: TabletClock;
  /** Time without a renewal after which another process may take the lease. */
  readonly leaseTimeMs: number;
  /**
   * Time after a renewal for which the leader relies on its lease. Shorter than `leaseTimeMs`, because clocks run at
   * different speeds.
   */
  readonly safeLeaseTimeMs: number;
  /**
   * Called on each answer of the server. `takesOverInMs` is the time until this process may take the lease; it is
   * passed only while another process holds the lease.
   */
  readonly onAnswer?: ((takesOverInMs?: number) => void) | undefined;
}

/** Number of times that a candidate reads the lease per lease time. */
const READS_PER_LEASE = 10;

/** Maximum time that a stop waits for the lease to be freed. Otherwise the next leader waits until it expires. */
export const CLEAR_TIMEOUT_MS = 2_000;

/**
 * A tablet's lease. It keeps candidates from claiming while a leader is alive, and keeps a former leader from answering
 * reads with outdated data. It does not protect writes: the log alone decides which process may write.
 */
export class Lease {
  readonly #options: LeaseOptions;
  /** Serializes renewals and changes of this process's writer id. */
  readonly #turns = new OneAtATime();
  #writer: string | undefined;
  #safeUntilMs = Number.NEGATIVE_INFINITY;

  constructor(options: LeaseOptions) {
    this.#options = options;
  }

  /** Waits until the lease is free or has expired, and takes it. */
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
        // The lease counts from before the request, because the server may have stored it at once.
        const sentAtMs = clock.monotonicMs();
        if (await this.#takeOver(seen, writer, address)) {
          this.#writer = writer;
          this.#safeUntilMs = sentAtMs + this.#options.safeLeaseTimeMs;
          return;
        }
      } else {
        if (seen.address !== toldAddress) onStandby(seen.address);
        toldAddress = seen.address;
        // Sleeps until the lease expires at most, because the tablet has no leader from then on.
        const leftMs = seenAtMs + leaseTimeMs - clock.monotonicMs();
        this.#options.onAnswer?.(leftMs);
        await sleep(clock, Math.max(0, Math.min(leaseTimeMs / READS_PER_LEASE, leftMs)), signal);
      }
      const looked = await this.#readOrMake();
      if (looked.writer === seen.writer && looked.renewals === seen.renewals) continue;
      seen = looked;
      seenAtMs = clock.monotonicMs();
    }
  }

  /** Renews the lease. Throws FencedError when another process holds it. Retries until the server answers. */
  renew(): Promise<void> {
    return this.#turns.run(async () => {
      const { clock, server, retryPolicy, tabletName, safeLeaseTimeMs } = this.#options;
      let sentAtMs = 0;
      const renewed = await retryPolicy.answerOf(() => {
        sentAtMs = clock.monotonicMs();
        return server.update(LEASES, tabletName, { writer: this.#writer }, { set: {}, increment: "renewals" });
      }, FOREVER_MS);
      this.#options.onAnswer?.();
      if (!renewed) throw await this.#takenAway();
      this.#safeUntilMs = sentAtMs + safeLeaseTimeMs;
    });
  }

  /** Changes the lease's writer id to another one of this process. */
  hand(writer: string): Promise<void> {
    return this.#turns.run(async () => {
      const { server, retryPolicy, tabletName } = this.#options;
      const where = { writer: this.#writer };
      const change = { set: { writer }, increment: "renewals" };
      const handed = await retryPolicy.answerOf(() => server.update(LEASES, tabletName, where, change), FOREVER_MS);
      // An earlier attempt whose answer was lost may have succeeded.
      if (!handed && (await this.#read())?.writer !== writer) throw await this.#takenAway();
      this.#writer = writer;
    });
  }

  /** Frees the lease if this process holds it, so that the next leader need not wait. */
  clear(): Promise<void> {
    return this.#turns.run(async () => {
      if (this.#writer === undefined) return;
      const { server, retryPolicy, tabletName } = this.#options;
      this.#safeUntilMs = Number.NEGATIVE_INFINITY;
      const change = { set: { writer: "", address: "" }, increment: "renewals" };
      const where = { writer: this.#writer };
      await retryPolicy.answerOf(() => server.update(LEASES, tabletName, where, change), CLEAR_TIMEOUT_MS);
    });
  }

  /** Remaining time in which no other process can take the lease. */
  get leftMs(): number {
    return this.#safeUntilMs - this.#options.clock.monotonicMs();
  }

  /** Throws UnavailableError when another process may already hold the lease. */
  check(): void {
    const { tabletName } = this.#options;
    const overdueMs = -this.leftMs;
    if (overdueMs < 0) return;
    throw servedElsewhere(
      `tablet ${tabletName}: the lease ran out ${Math.round(overdueMs)} ms ago, because the database has not answered its renewal yet, and another process may lead by now; check the database, and try again`,
    );
  }

  async #takeOver(seen: StoredLease, writer: string, address: string): Promise<boolean> {
    const { server, retryPolicy, tabletName } = this.#options;
    const where = { writer: seen.writer, renewals: seen.renewals };
    const change = { set: { writer, address }, increment: "renewals" };
    if (await retryPolicy.answerOf(() => server.update(LEASES, tabletName, where, change))) return true;
    // An earlier attempt whose answer was lost may have succeeded.
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
    const { server, retryPolicy, tabletName } = this.#options;
    for (;;) {
      const stored = await this.#read();
      if (stored !== undefined) return stored;
      const fresh: StoredLease = { _id: tabletName, writer: "", renewals: 0, address: "" };
      await retryPolicy.answerOf(() => server.insert(LEASES, { ...fresh }));
    }
  }

  async #read(): Promise<StoredLease | undefined> {
    const { server, retryPolicy, tabletName } = this.#options;
    const stored = await retryPolicy.answerOf(() => server.get(LEASES, tabletName), FOREVER_MS);
    this.#options.onAnswer?.();
    return stored as StoredLease | undefined;
  }
}
