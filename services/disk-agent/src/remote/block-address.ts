import { formatHostPort } from "@diskmesh/domain";
import type { Ledger } from "../cache/ledger.js";
import type { ListeningForHolders } from "./device-listener.js";

/** Address at which holders on other hosts reach this host's devices. */
export class BlockAddress {
  readonly #host: string;
  readonly #listener: Pick<ListeningForHolders, "port" | "requireListening">;
  readonly #ledger: Ledger;

  constructor(host: string, listener: Pick<ListeningForHolders, "port" | "requireListening">, ledger: Ledger) {
    this.#host = host;
    this.#listener = listener;
    this.#ledger = ledger;
  }

  /**
   * Returns the address for an answer, and puts its port into the memory, not yet durably: a restarted agent listens
   * there again. Throws UnavailableError while the agent cannot listen.
   */
  address(): string {
    this.#listener.requireListening();
    const { port } = this.#listener;
    const { memory } = this.#ledger;
    if (memory.blockPort !== port) this.#ledger.remember({ ...memory, blockPort: port });
    return formatHostPort({ host: this.#host, port });
  }
}
