/**
 * Groups of calls. Each group but "others" has reserved places that a flood of other calls cannot take: orders of a
 * registry to agents, reports of agents to a registry, and reads by operators.
 */
export type Share = "orders" | "reports" | "operator reads" | "others";

export interface RoomLimits {
  readonly capacity: number;
  /** Places reserved for each group but "others". */
  readonly reserve: number;
  /** Maximum number of places for one peer. */
  readonly perPeer: number;
}

export interface Guest {
  readonly share: Share;
  /** Calling peer; undefined for a service without a limit of its own, such as the director. */
  readonly peer: string | undefined;
  /**
   * Time of the last message, on a monotonic clock; undefined for a call that has a deadline and must not be evicted.
   */
  readonly idleSinceMs: number | undefined;
}

/**
 * Result of an admission. The caller must end `evicted`, whose place the new call took. `full` names the reached limit.
 */
export type Entry<Call extends Guest> = { readonly evicted: Call | undefined } | { readonly full: "peer" | "room" };

const RESERVED = ["orders", "reports", "operator reads"] as const;

/** Admission control: decides which calls are served concurrently. */
export class Room<Call extends Guest> {
  readonly #guests = new Set<Call>();
  readonly #byShare: Record<Share, number> = { orders: 0, reports: 0, "operator reads": 0, others: 0 };
  readonly #byPeer = new Map<string, number>();

  constructor(private readonly limits: RoomLimits) {}

  get size(): number {
    return this.#guests.size;
  }

  /** Admits a call, if necessary by evicting the longest idle stream that has been idle since before `idleBeforeMs`. */
  enter(call: Call, idleBeforeMs: number): Entry<Call> {
    const { share, peer } = call;
    let evicted: Call | undefined;
    if (peer !== undefined && (this.#byPeer.get(peer) ?? 0) >= this.limits.perPeer) {
      evicted = this.#longestIdle(idleBeforeMs, (guest) => guest.peer === peer);
      if (!evicted) return { full: "peer" };
    } else if (!this.#hasPlaceFor(share)) {
      evicted = this.#longestIdle(idleBeforeMs, (guest) => this.#isInCommonPlace(guest));
      if (!evicted) return { full: "room" };
    }
    if (evicted) this.leave(evicted);
    this.#guests.add(call);
    this.#byShare[share] += 1;
    if (peer !== undefined) this.#byPeer.set(peer, (this.#byPeer.get(peer) ?? 0) + 1);
    return { evicted };
  }

  leave(call: Call): void {
    if (!this.#guests.delete(call)) return;
    this.#byShare[call.share] -= 1;
    if (call.peer === undefined) return;
    const left = (this.#byPeer.get(call.peer) ?? 1) - 1;
    if (left > 0) this.#byPeer.set(call.peer, left);
    else this.#byPeer.delete(call.peer);
  }

  #hasPlaceFor(share: Share): boolean {
    const { capacity, reserve } = this.limits;
    if (this.#byShare[share] < reserveOf(share, reserve)) return true;
    let inCommon = this.#byShare.others;
    for (const each of RESERVED) inCommon += Math.max(0, this.#byShare[each] - reserve);
    return inCommon < capacity - RESERVED.length * reserve;
  }

  #isInCommonPlace({ share }: Call): boolean {
    return this.#byShare[share] > reserveOf(share, this.limits.reserve);
  }

  #longestIdle(idleBeforeMs: number, among: (guest: Call) => boolean): Call | undefined {
    if (idleBeforeMs === Number.NEGATIVE_INFINITY) return undefined;
    let longest: Call | undefined;
    let sinceMs = idleBeforeMs;
    for (const guest of this.#guests)
      if (guest.idleSinceMs !== undefined && guest.idleSinceMs <= sinceMs && among(guest)) {
        longest = guest;
        sinceMs = guest.idleSinceMs;
      }
    return longest;
  }
}

function reserveOf(share: Share, reserve: number): number {
  return share === "others" ? 0 : reserve;
}
