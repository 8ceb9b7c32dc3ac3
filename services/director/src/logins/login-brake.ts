import { isIPv6 } from "node:net";
import type { Clock } from "@diskmesh/service";

const FREE_FAILURES = 5;
/** Names that failed from one address. */
const FREE_NAMES = 20;
const MIN_WAIT_MS = 1_000;
const MAX_WAIT_MS = 60_000;
/** Failures are forgotten when none came for so long. */
const FORGET_MS = 600_000;
const MAX_KEPT = 10_000;
const MAX_NAME_LENGTH = 255;

interface Failures {
  count: number;
  lastAtMs: number;
}

/**
 * Slows down whoever tries passwords: each failure beyond a few doubles the time until the next try for that name from
 * that address. Others of the address are not kept out by a script with an old password; only ever new names slow down
 * all of them that were not right from there before.
 */
export class LoginBrake {
  /** Failures by address and name, the oldest first. */
  readonly #failures = new Map<string, Failures>();
  /** Failures by address, of names that had not failed there before. */
  readonly #names = new Map<string, Failures>();
  /** Logins that succeeded, by address and name, the oldest first. */
  readonly #known = new Set<string>();

  constructor(private readonly clock: Pick<Clock, "monotonicMs">) {}

  /** How long that address must wait before its next try of the name. */
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

/** Returns an address's network: a client with one IPv6 address has a whole network of them. */
export function networkOf(address: string): string {
  if (!isIPv6(address) || address.startsWith("::ffff:")) return address.replace(/^::ffff:/, "");
  const [head = "", tail] = address.split("::");
  const groups = head.split(":");
  if (tail !== undefined) while (groups.length < 4) groups.push("0");
  return groups.slice(0, 4).join(":");
}
