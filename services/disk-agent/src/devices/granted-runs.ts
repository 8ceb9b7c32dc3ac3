import { type DeviceId, UnavailableError } from "@diskmesh/domain";
import type { RememberedSession } from "../model/memory.js";
import { contains, overlaps, type Run } from "../model/runs.js";

/** A run on which a session may do I/O. */
export interface GrantedRun extends Run {
  readonly sessionNumber: number;
}

/** The runs of a device on which a session may do I/O, and the connections of holders on other hosts to them. */
export class GrantedRuns {
  readonly #deviceId: DeviceId;
  /** Granted runs by offset. */
  readonly #granted = new Map<number, GrantedRun>();
  /** Connections by the offset of their run. */
  readonly #connections = new Map<number, AbortController>();

  constructor(deviceId: DeviceId) {
    this.#deviceId = deviceId;
  }

  /**
   * Allows I/O in a session. The session must be durable and current on the run, and the I/O of lower sessions on it must
   * have ended.
   */
  grant(sessionNumber: number, { offsetBytes, sizeBytes }: Run): void {
    const run = { offsetBytes, sizeBytes };
    for (const [at, granted] of this.#granted) if (overlaps(granted, run)) this.#granted.delete(at);
    this.#granted.set(offsetBytes, { sessionNumber, ...run });
  }

  /** Grants what is remembered. The I/O of lower sessions has ended with the agent's former life. */
  grantAll(sessions: readonly RememberedSession[]): void {
    for (const { number, offsetBytes, sizeBytes } of sessions)
      this.#granted.set(offsetBytes, { sessionNumber: number, offsetBytes, sizeBytes });
  }

  /** Returns the run with this byte; undefined when none is granted. */
  at(offsetBytes: number): GrantedRun | undefined {
    const first = this.#granted.get(offsetBytes);
    if (first !== undefined) return first;
    for (const granted of this.#granted.values()) if (contains(granted, offsetBytes)) return granted;
    return undefined;
  }

  /**
   * Makes a holder's connection the only one of its session to the run, and aborts the former one. The session must have
   * access to the run. The new connection may begin once the device's `io.isQuietBelow(sessionNumber + 1, run)` is true. So a
   * write that is sent again after a lost connection never lands before its first copy has ended.
   */
  replaceConnection(offsetBytes: number, connection: AbortController): void {
    const former = this.#connections.get(offsetBytes);
    former?.abort(new UnavailableError(`another connection was opened to device ${this.#deviceId}`));
    this.#connections.set(offsetBytes, connection);
  }

  leaveConnection(offsetBytes: number, connection: AbortController): void {
    if (this.#connections.get(offsetBytes) === connection) this.#connections.delete(offsetBytes);
  }
}
