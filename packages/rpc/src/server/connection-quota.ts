import type { RpcServerLimits } from "../call/limits.js";

export type ConnectionLimits = Pick<
  RpcServerLimits,
  "maxConnections" | "maxConnectionsPerAddress" | "maxHandshakes" | "maxHandshakesPerAddress"
>;

/** Limits of connections and concurrent TLS handshakes, in total and per address. */
export class ConnectionQuota {
  readonly #connections = new CountByAddress();
  readonly #handshakes = new CountByAddress();

  constructor(private readonly limits: ConnectionLimits) {}

  /** Counts a new connection, or returns the reached limit without counting it. */
  enter(address: string): keyof ConnectionLimits | undefined {
    const { maxConnections, maxConnectionsPerAddress } = this.limits;
    if (this.#connections.all >= maxConnections) return "maxConnections";
    if (this.#connections.of(address) >= maxConnectionsPerAddress) return "maxConnectionsPerAddress";
    this.#connections.add(address, 1);
    return undefined;
  }

  /** Returns the limit that delays a handshake with this address; undefined when it may begin. */
  handshakeLimit(address: string): keyof ConnectionLimits | undefined {
    const { maxHandshakes, maxHandshakesPerAddress } = this.limits;
    if (this.#handshakes.all >= maxHandshakes) return "maxHandshakes";
    return this.#handshakes.of(address) >= maxHandshakesPerAddress ? "maxHandshakesPerAddress" : undefined;
  }

  handshakeBegins(address: string): void {
    this.#handshakes.add(address, 1);
  }

  handshakeEnded(address: string): void {
    this.#handshakes.add(address, -1);
  }

  leave(address: string): void {
    this.#connections.add(address, -1);
  }
}

class CountByAddress {
  all = 0;
  readonly #counts = new Map<string, number>();

  of(address: string): number {
    return this.#counts.get(address) ?? 0;
  }

  add(address: string, change: 1 | -1): void {
    this.all += change;
    const count = this.of(address) + change;
    if (count > 0) this.#counts.set(address, count);
    else this.#counts.delete(address);
  }
}
