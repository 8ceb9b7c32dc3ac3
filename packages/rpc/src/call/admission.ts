/**
 * Groups of calls. Each group but "others" has reserved places that a flood of other calls cannot take: orders of a
 * registry to agents, reports of agents to a registry, and reads by operators.
 */
export type CallGroup = "orders" | "reports" | "operator reads" | "others";

export interface AdmissionLimits {
  readonly capacity: number;
  /** Places reserved for each group but "others". */
  readonly reserve: number;
  /** Maximum number of places for one peer. */
  readonly perPeer: number;
}

export interface CountedCall {
  readonly group: CallGroup;
  /**
   * Name of the caller, for the per-peer limit. Undefined when the caller's role has no per-peer limit, such as the
   * director.
   */
  readonly peer: string | undefined;
  /**
   * Time of the last message of a stream, on a monotonic clock. Undefined for a unary call, which has a deadline and is
   * never evicted.
   */
  readonly idleSinceMs: number | undefined;
}

/**
 * Result of an admission. The code that calls `enter` must end the call `evicted`, whose place the new call took.
 * `full` names the reached limit.
 */
export type Entry<Call extends CountedCall> =
  | { readonly evicted: Call | undefined }
  | { readonly full: "peer" | "server" };

const RESERVED = ["orders", "reports", "operator reads"] as const;

/** Admission control: decides which calls are served concurrently. */
export class Admission<Call extends CountedCall> {
  readonly #admitted = new Set<Call>();
  readonly #byGroup: Record<CallGroup, number> = { orders: 0, reports: 0, "operator reads": 0, others: 0 };
  readonly #byPeer = new Map<string, number>();

  constructor(private readonly limits: AdmissionLimits) {}

  get size(): number {
    return this.#admitted.size;
  }

  /** Admits a call, if necessary by evicting the longest idle stream that has been idle since before `idleBeforeMs`. */
  enter(call: Call, idleBeforeMs: number): Entry<Call> {
    const { group, peer } = call;
    let evicted: Call | undefined;
    if (peer !== undefined && (this.#byPeer.get(peer) ?? 0) >= this.limits.perPeer) {
      evicted = this.#longestIdle(idleBeforeMs, (admitted) => admitted.peer === peer);
      if (!evicted) return { full: "peer" };
    } else if (!this.#hasPlaceFor(group)) {
      evicted = this.#longestIdle(idleBeforeMs, (admitted) => this.#isInCommonPlace(admitted));
      if (!evicted) return { full: "server" };
    }
    if (evicted) this.leave(evicted);
    this.#admitted.add(call);
    this.#byGroup[group] += 1;
    if (peer !== undefined) this.#byPeer.set(peer, (this.#byPeer.get(peer) ?? 0) + 1);
    return { evicted };
  }

  leave(call: Call): void {
    if (!this.#admitted.delete(call)) return;
    this.#byGroup[call.group] -= 1;
    if (call.peer === undefined) return;
    const left = (this.#byPeer.get(call.peer) ?? 1) - 1;
    if (left > 0) this.#byPeer.set(call.peer, left);
    else this.#byPeer.delete(call.peer);
  }

  #hasPlaceFor(group: CallGroup): boolean {
    const { capacity, reserve } = this.limits;
    if (this.#byGroup[group] < reserveOf(group, reserve)) return true;
    let inCommon = this.#byGroup.others;
    for (const each of RESERVED) inCommon += Math.max(0, this.#byGroup[each] - reserve);
    return inCommon < capacity - RESERVED.length * reserve;
  }

  #isInCommonPlace({ group }: Call): boolean {
    return this.#byGroup[group] > reserveOf(group, this.limits.reserve);
  }

  #longestIdle(idleBeforeMs: number, among: (admitted: Call) => boolean): Call | undefined {
    if (idleBeforeMs === Number.NEGATIVE_INFINITY) return undefined;
    let longest: Call | undefined;
    let sinceMs = idleBeforeMs;
    for (const admitted of this.#admitted)
      if (admitted.idleSinceMs !== undefined && admitted.idleSinceMs <= sinceMs && among(admitted)) {
        longest = admitted;
        sinceMs = admitted.idleSinceMs;
      }
    return longest;
  }
}

function reserveOf(group: CallGroup, reserve: number): number {
  return group === "others" ? 0 : reserve;
}
