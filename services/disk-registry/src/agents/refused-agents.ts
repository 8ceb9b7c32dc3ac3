import { type HostId, parseHostId } from "@diskmesh/domain";
import type { RefusedConnection } from "@diskmesh/rpc";
import type { Clock } from "@diskmesh/service";
import type { Refusal, RefusedRegistration } from "../model/explain/cause.js";

/** Anybody can be refused in any host's name: hosts beyond so many crowd out those that were refused longest ago. */
const MAX_HOSTS = 1_000;
/** An agent tries again within seconds: who has not for so long is there no more, or comes with another certificate. */
const REMEMBERED_MS = 600_000;

/**
 * The agents that were refused lately, by the host that they named. In memory of the process, whether it leads or not. Refused
 * connections are a hint for people and no more, because whoever made the certificate has chosen the name. A refused
 * registration came from an agent with the host's own certificate.
 */
export class RefusedAgents {
  readonly #connections: LastByHost<Refusal>;
  readonly #registrations: LastByHost<RefusedRegistration>;

  constructor(clock: Clock) {
    this.#connections = new LastByHost(clock);
    this.#registrations = new LastByHost(clock);
  }

  /** One whose certificate names an agent. */
  connectionRefused({ claimed, remoteAddress, reason }: RefusedConnection): void {
    if (claimed?.role !== "disk-agent") return;
    const hostId = hostIdIn(claimed.name);
    const message = `somebody at ${remoteAddress} is turned away: ${reason}`;
    if (hostId !== undefined) this.#connections.note(hostId, { message });
  }

  /** One with a good certificate, of somebody else. */
  claimRefused(hostId: HostId, why: string): void {
    this.#connections.note(hostId, { message: `an agent is turned away: ${why}` });
  }

  /** Returns whether that is new: another reason, or another agent. */
  registrationRefused(hostId: HostId, address: string, why: string): boolean {
    return this.#registrations.note(hostId, {
      address,
      message: `the registry refuses the registration of the agent at ${address}: ${why}`,
    });
  }

  /** Forgets the refusal of that address, which registered now. */
  registrationTaken(hostId: HostId, address: string): void {
    if (this.#registrations.of(hostId)?.address === address) this.#registrations.forget(hostId);
  }

  /** Undefined when nobody was refused in its name lately. */
  of(hostId: HostId): Refusal | undefined {
    return this.#connections.of(hostId);
  }

  /** Undefined when no registration of its agent was refused lately, or the same agent's was taken since. */
  registrationOf(hostId: HostId): RefusedRegistration | undefined {
    return this.#registrations.of(hostId);
  }

  /** All that were refused lately, by the host that they named. */
  *all(): Generator<readonly [HostId, Refusal]> {
    yield* this.#connections.all();
    yield* this.#registrations.all();
  }
}

/** The last refusal of each host, for a while. */
class LastByHost<Kind extends Refusal> {
  /** The oldest refusal is first. */
  readonly #refusals = new Map<HostId, Kind>();

  constructor(private readonly clock: Clock) {}

  of(hostId: HostId): Kind | undefined {
    const refusal = this.#refusals.get(hostId);
    return refusal === undefined || this.#isOld(refusal) ? undefined : refusal;
  }

  *all(): Generator<readonly [HostId, Kind]> {
    for (const entry of this.#refusals) if (!this.#isOld(entry[1])) yield entry;
  }

  /** Returns whether the message is another one than before. */
  note(hostId: HostId, said: Omit<Kind, "sinceMs" | "lastAtMs">): boolean {
    const atMs = this.clock.nowMs();
    const before = this.of(hostId);
    const isSame = before?.message === said.message;
    this.#refusals.delete(hostId);
    this.#refusals.set(hostId, { ...said, sinceMs: isSame ? before.sinceMs : atMs, lastAtMs: atMs } as Kind);
    for (const [each, refusal] of this.#refusals) {
      if (this.#refusals.size <= MAX_HOSTS && !this.#isOld(refusal)) break;
      this.#refusals.delete(each);
    }
    return !isSame;
  }

  forget(hostId: HostId): void {
    this.#refusals.delete(hostId);
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
