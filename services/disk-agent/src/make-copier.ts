import type { Logger } from "@diskmesh/domain";
import type { AgentConfig } from "./base/config.js";
import type { AgentLimits } from "./base/limits.js";
import type { Ledger } from "./cache/ledger.js";
import type { DeviceTable } from "./devices/device-table.js";
import type { AgentEdges } from "./edges.js";
import { Copier } from "./mirror/copier.js";
import { openPart } from "./parts/open-part.js";
import { openRemotePart } from "./wiring.js";

export function makeCopier(
  config: AgentConfig,
  { devices, ledger }: { readonly devices: DeviceTable; readonly ledger: Ledger },
  { edges, limits, log }: { readonly edges: AgentEdges; readonly limits: AgentLimits; readonly log: Logger },
): Copier {
  const { hostId, remoteIoTimeoutMs: ioTimeoutMs } = config;
  const { clock } = edges;
  const open = openPart({
    hostId,
    devices,
    clock,
    ioTimeoutMs,
    openRemotePart: openRemotePart({ config, limits, ledger, log }, edges),
  });
  return new Copier({ hostId, devices, ledger, openPart: open, clock, limits: limits.copy, log });
}
