import { type HostId, parseHostId } from "@diskmesh/domain";
import type { RefusedConnection } from "@diskmesh/rpc";
import type { Clock } from "@diskmesh/service";
import type { Refusal } from "../model/cause.js";

/** Anybody can be refused in any host's name: hosts beyond so many crowd out those that were refused longest ago. */
const MAX_HOSTS = 1_000;
/** An agent tries again within seconds: who has not for so long is there no more, or comes with another certificate. */
const REMEMBERED_MS = 600_000;

/**
 * Who was refused lately in the name of a host, by that host. A hint for people and no more: whoever made the certificate
 * has chosen the name. In memory of the process, whether it leads or not.
 */
export class RefusedAgents {
  /** Who was refused longest ago is first. */
  readonly #refusals = new Map<HostId, Refusal>();

  constructor(private readonly clock: Clock) {}

  /** One whose certificate names an agent. */
  connectionRefused({ claimed, remoteAddress, reason }: RefusedConnection): void {
    if (claimed?.role !== "disk-agent") return;
    const hostId = hostIdIn(claimed.name);
    if (hostId !== undefined) this.#note(hostId, `somebody at ${remoteAddress} is turned away: ${reason}`);
  }

  /** One with a good certificate, of somebody else. */
  claimRefused(hostId: HostId, why: string): void {
    this.#note(hostId, `an agent is turned away: ${why}`);
  }

  /** Undefined when nobody was refused in its name lately. */
  of(hostId: HostId): Refusal | undefined {
    const refusal = this.#refusals.get(hostId);
    return refusal === undefined || this.#isOld(refusal) ? undefined : refusal;
  }

  #note(hostId: HostId, message: string): void {
    const atMs = this.clock.nowMs();
    const before = this.of(hostId);
    const sinceMs = before?.message === message ? before.sinceMs : atMs;
    this.#refusals.delete(hostId);
    this.#refusals.set(hostId, { message, sinceMs, lastAtMs: atMs });
    for (const [each, refusal] of this.#refusals) {
      if (this.#refusals.size <= MAX_HOSTS && !this.#isOld(refusal)) return;
      this.#refusals.delete(each);
    }
  }

  #isOld({ lastAtMs }: Refusal): boolean {
    return this.clock.nowMs() - lastAtMs > REMEMBERED_MS;
  }
}

/** Whoever makes a certificate writes into it what it likes. */
function hostIdIn(name: string): HostId | undefined {
  try {
    return parseHostId(name);
  } catch {
    return undefined;
  }
}
