import { isIPv6 } from "node:net";
import type { Clock } from "@diskmesh/service";

const FREE_FAILURES = 5;
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
 * that address. Others of the address are not kept out by a script with an old password.
 */
export class LoginBrake {
  /** By address and name, the one that failed longest ago first. */
  readonly #failures = new Map<string, Failures>();

  constructor(private readonly clock: Pick<Clock, "monotonicMs">) {}

  /** How long that address must wait before its next try of the name. */
  waitMs(address: string, name: string): number {
    const failures = this.#failures.get(keyOf(address, name));
    if (failures === undefined || failures.count < FREE_FAILURES) return 0;
    const waitMs = Math.min(MAX_WAIT_MS, MIN_WAIT_MS * 2 ** Math.min(20, failures.count - FREE_FAILURES));
    return Math.max(0, failures.lastAtMs + waitMs - this.clock.monotonicMs());
  }

  failed(address: string, name: string): void {
    const key = keyOf(address, name);
    const nowMs = this.clock.monotonicMs();
    const known = this.#failures.get(key);
    const isFresh = known !== undefined && nowMs - known.lastAtMs < FORGET_MS;
    this.#failures.delete(key);
    this.#failures.set(key, { count: isFresh ? known.count + 1 : 1, lastAtMs: nowMs });
    const [oldest] = this.#failures.keys();
    if (this.#failures.size > MAX_KEPT && oldest !== undefined) this.#failures.delete(oldest);
  }
}

function keyOf(address: string, name: string): string {
  return `${networkOf(address)} ${name.slice(0, MAX_NAME_LENGTH)}`;
}

/** Whoever has one address of IPv6 has a whole network of them. */
function networkOf(address: string): string {
  if (!isIPv6(address) || address.startsWith("::ffff:")) return address.replace(/^::ffff:/, "");
  const [head = "", tail] = address.split("::");
  const groups = head.split(":");
  if (tail !== undefined) while (groups.length < 4) groups.push("0");
  return groups.slice(0, 4).join(":");
}
