import type { Clock, Lifecycle } from "@diskmesh/service";
import { repeat } from "../base/repeat.js";
import type { AgentContext } from "../calls/context.js";
import type { Nvme } from "../kernel/nvme.js";
import type { AgentMemory } from "../model/memory.js";
import { holdersOf } from "../model/wireguard.js";

/** Keeps the peers of WireGuard those of present sessions, until the service stops. */
export function keepWireGuard(
  lifecycle: Lifecycle,
  { limits, ledger, log }: AgentContext,
  { clock, nvme }: { readonly clock: Clock; readonly nvme?: Nvme | undefined },
): void {
  if (nvme === undefined) return;
  const stop = new AbortController();
  const work = () => tidyWireGuard(nvme, ledger.memory);
  const common = { clock, log, signal: stop.signal };
  const running = repeat({ ...common, what: "WireGuard check", everyMs: limits.rescanIntervalMs, work });
  lifecycle.use("WireGuard check", async () => {
    stop.abort(new Error("the agent is stopping"));
    await running;
  });
}

/** Removes the peers of WireGuard whose last session has ended, and mends what others have changed. */
export async function tidyWireGuard({ target, host, wireguard }: Nvme, memory: AgentMemory): Promise<void> {
  await wireguard?.tidy(async () => [
    ...holdersOf(memory, (sessionNumber) => target.serves(sessionNumber)),
    ...(await host.hosts()),
  ]);
}
