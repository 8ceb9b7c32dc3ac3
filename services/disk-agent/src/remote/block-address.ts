import { formatHostPort } from "@diskmesh/domain";
import type { Ledger } from "../cache/ledger.js";
import type { ListeningForHolders } from "./device-listener.js";

/**
 * Returns the address for an answer at which holders on other hosts reach this host's devices, and puts its port into the
 * memory, not yet durably: a restarted agent listens there again. Throws UnavailableError while the agent cannot listen.
 */
export function blockAddressOf(
  host: string,
  listener: Pick<ListeningForHolders, "port" | "requireListening">,
  ledger: Ledger,
): string {
  listener.requireListening();
  const { port } = listener;
  const { memory } = ledger;
  if (memory.blockPort !== port) ledger.remember({ ...memory, blockPort: port });
  return formatHostPort({ host, port });
}
