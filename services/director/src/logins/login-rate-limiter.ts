import { isIPv6 } from "node:net";
import type { Clock } from "@diskmesh/service";

const FREE_FAILURES = 5;
/** Number of names that may fail from a network before names that never logged in from the network are delayed. */
const FREE_NAMES = 20;
const MIN_WAIT_MS = 1_000;
const MAX_WAIT_MS = 60_000;
/** Recorded failures expire when no further failure was added for this time. */
const FORGET_MS = 600_000;
const MAX_KEPT = 10_000;
const MAX_NAME_LENGTH = 255;

interface Failures {
  count: number;
  lastAtMs: number;
}

/**
 * Rate limiter for password attempts. Each failure beyond the free failures doubles the delay until the next attempt
 * for the same network (see networkOf) and name, so a script with an outdated password delays no other name. After
 * failures of many different names from a network, every name that never logged in from the network is delayed.
 */
export class LoginRateLimiter {
  /** Failures by network and name, oldest first. */
  readonly #failures = new Map<string, Failures>();
  /**
   * Numbers of failed names by network. A name counts with its first failure from the network, unless the name has
   * logged in from there before.
   */
  readonly #names = new Map<string, Failures>();
  /** Successful logins by network and name, oldest first. */
  readonly #known = new Set<string>();

  constructor(private readonly clock: Pick<Clock, "monotonicMs">) {}

  /** Returns the delay until the address may try the name again, in ms. */
  waitMs(address: string, name: string): number {
    const key = keyOf(address, name);
    const ofName = this.#waitAfter(this.#failures.get(key), FREE_FAILURES);
    if (this.#known.has(key)) return ofName;
    return Math.max(ofName, this.#waitAfter(this.#names.get(networkOf(address)), FREE_NAMES));
  }

  failed(address: string, name: string): void {
    const key = keyOf(address, name);
    const isNew = this.#count(this.#failures, key) === 1;
    if (isNew && !this.#known.has(key)) this.#count(this.#names, networkOf(address));
  }

  succeeded(address: string, name: string): void {
    const key = keyOf(address, name);
    this.#known.delete(key);
    this.#known.add(key);
    forgetOldest(this.#known);
  }

  #waitAfter(failures: Failures | undefined, free: number): number {
    if (failures === undefined || failures.count < free) return 0;
    const waitMs = Math.min(MAX_WAIT_MS, MIN_WAIT_MS * 2 ** Math.min(20, failures.count - free));
    return Math.max(0, failures.lastAtMs + waitMs - this.clock.monotonicMs());
  }

  #count(failures: Map<string, Failures>, key: string): number {
    const nowMs = this.clock.monotonicMs();
    const known = failures.get(key);
    const count = known !== undefined && nowMs - known.lastAtMs < FORGET_MS ? known.count + 1 : 1;
    failures.delete(key);
    failures.set(key, { count, lastAtMs: nowMs });
    forgetOldest(failures);
    return count;
  }
}

function forgetOldest(kept: Map<string, Failures> | Set<string>): void {
  const [oldest] = kept.keys();
  if (kept.size > MAX_KEPT && oldest !== undefined) kept.delete(oldest);
}

function keyOf(address: string, name: string): string {
  return `${networkOf(address)} ${name.slice(0, MAX_NAME_LENGTH)}`;
}

/**
 * Returns the address's network: the /64 of an IPv6 address, because a client usually has a whole /64; otherwise the
 * address itself.
 */
export function networkOf(address: string): string {
  if (!isIPv6(address) || address.startsWith("::ffff:")) return address.replace(/^::ffff:/, "");
  const [head = "", tail] = address.split("::");
  const groups = head.split(":");
  if (tail !== undefined) while (groups.length < 4) groups.push("0");
  return groups.slice(0, 4).join(":");
}
