import type { Nvme } from "../kernel/nvme.js";
import type { AgentMemory } from "../model/memory.js";
import { holdersOf } from "../model/wireguard.js";

/** Removes the peers of WireGuard whose last session has ended, and mends what others have changed. */
export async function tidyWireGuard({ target, host, wireguard }: Nvme, memory: AgentMemory): Promise<void> {
  await wireguard?.tidy(async () => [
    ...holdersOf(memory, (sessionNumber) => target.serves(sessionNumber)),
    ...(await host.hosts()),
  ]);
}
