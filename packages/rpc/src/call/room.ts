/**
 * Whose calls have places of their own, so that no flood of others keeps them out: a registry's orders to agents, what
 * agents report to a registry, and operators who look at what is going on.
 */
export type Share = "orders" | "reports" | "operator reads" | "others";

export interface RoomLimits {
  /** All places. */
  readonly capacity: number;
  /** Places kept for each share but "others". */
  readonly reserve: number;
  /** Places that one peer may take at most. */
  readonly perPeer: number;
}

export interface Guest {
  readonly share: Share;
  /** Who calls; undefined for a peer that may take all the places there are, such as the one director. */
  readonly peer: string | undefined;
  /** Since when nothing came or went, on a monotonic clock; undefined for what has a deadline and may not be ended. */
  readonly idleSinceMs: number | undefined;
}

/** `evicted` must be ended: it has given its place to the one that entered. */
export type Entry<Call extends Guest> = { readonly evicted: Call | undefined } | { readonly full: "peer" | "room" };

const RESERVED = ["orders", "reports", "operator reads"] as const;

/** Decides which calls are served at once. It knows nothing of calls but who makes them and how long they idled. */
export class Room<Call extends Guest> {
  readonly #guests = new Set<Call>();
  readonly #byShare: Record<Share, number> = { orders: 0, reports: 0, "operator reads": 0, others: 0 };
  readonly #byPeer = new Map<string, number>();

  constructor(private readonly limits: RoomLimits) {}

  get size(): number {
    return this.#guests.size;
  }

  /** Lets a call in, if need be in the place of the one that idles longest and did so since `idleBeforeMs` at least. */
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
