import { type HostId, parseHostId } from "@diskmesh/domain";
import type { RefusedConnection } from "@diskmesh/rpc";
import type { Clock } from "@diskmesh/service";
import type { Refusal, RefusedRegistration } from "../model/explain/cause.js";

/**
 * Maximum hosts whose refusals are kept. The oldest refusals are evicted, because anybody can cause refusals under any
 * host name.
 */
const MAX_HOSTS = 1_000;
/**
 * Time after which a refusal without a repetition is dropped. A refused agent retries within seconds, so an agent that
 * stopped retrying has ended or has another certificate.
 */
const REMEMBERED_MS = 600_000;

/**
 * Recently refused agents, by the host name that they claimed. Kept in memory on every process, leading or not. A
 * refused connection is only a hint for people, because the maker of the certificate chose the name. A refused
 * registration came from an agent with the host's valid certificate.
 */
export class RefusedAgents {
  readonly #connections: LastByHost<Refusal>;
  readonly #registrations: LastByHost<RefusedRegistration>;

  constructor(clock: Clock) {
    this.#connections = new LastByHost(clock);
    this.#registrations = new LastByHost(clock);
  }

  /** Records a refused connection whose certificate names an agent. */
  connectionRefused({ claimed, remoteAddress, reason }: RefusedConnection): void {
    if (claimed?.role !== "disk-agent") return;
    const hostId = hostIdIn(claimed.name);
    const message = `a client at ${remoteAddress} is refused: ${reason}`;
    if (hostId !== undefined) this.#connections.note(hostId, { message });
  }

  /**
   * Records a call with the valid certificate of `holder` that claimed another host: the id in the agent's config is not that
   * of its certificate. Both hosts show it, because an operator may ask for either.
   */
  claimRefused(claimed: HostId, holder: string, why: string): void {
    this.#connections.note(claimed, { message: `an agent is refused: ${why}` });
    const hostId = hostIdIn(holder);
    const message = `the registry refuses the agent of host ${holder}, whose config says hostId: ${claimed}: ${why}`;
    if (hostId !== undefined) this.#registrations.note(hostId, { address: ANY_ADDRESS, message, claimsOther: true });
  }

  /** Returns whether the refusal is new: another reason, or another agent. */
  registrationRefused(hostId: HostId, address: string, why: string): boolean {
    return this.#registrations.note(hostId, {
      address,
      message: `the registry refuses the registration of the agent at ${address}: ${why}`,
    });
  }

  /** Forgets the refusal of the agent at that address, whose registration was accepted. */
  registrationTaken(hostId: HostId, address: string): void {
    if ([address, ANY_ADDRESS].includes(this.#registrations.of(hostId)?.address ?? ""))
      this.#registrations.forget(hostId);
  }

  /** Returns the last refused connection or call under this host name; undefined when there was none lately. */
  of(hostId: HostId): Refusal | undefined {
    return this.#connections.of(hostId);
  }

  /**
   * Returns the last refused registration of the host's agent; undefined when there was none lately, or the same
   * agent's registration was accepted since.
   */
  registrationOf(hostId: HostId): RefusedRegistration | undefined {
    return this.#registrations.of(hostId);
  }

  /** Yields all recent refusals, by claimed host. */
  *all(): Generator<readonly [HostId, Refusal]> {
    yield* this.#connections.all();
    yield* this.#registrations.all();
  }
}

/** Keeps the last refusal of each host for REMEMBERED_MS. */
class LastByHost<Kind extends Refusal> {
  /** Insertion order: the oldest refusal is first. */
  readonly #refusals = new Map<HostId, Kind>();

  constructor(private readonly clock: Clock) {}

  of(hostId: HostId): Kind | undefined {
    const refusal = this.#refusals.get(hostId);
    return refusal === undefined || this.#isOld(refusal) ? undefined : refusal;
  }

  *all(): Generator<readonly [HostId, Kind]> {
    for (const entry of this.#refusals) if (!this.#isOld(entry[1])) yield entry;
  }

  /** Returns whether the message differs from the last one. */
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

/** Address of an agent that did not tell one; any registration of the host shows that its config is mended. */
const ANY_ADDRESS = "unknown";

/** The maker of a certificate chooses the name in it, so the name need not be a valid host id. */
function hostIdIn(name: string): HostId | undefined {
  try {
    return parseHostId(name);
  } catch {
    return undefined;
  }
}
