import type { Logger } from "@diskmesh/domain";
import type { Ledger } from "../cache/ledger.js";
import type { AgentConfig } from "../config.js";
import type { DeviceTable } from "../devices/device-table.js";
import type { AgentEdges } from "../edges.js";
import { openPart } from "../exports/open-part.js";
import type { AgentLimits } from "../limits.js";
import { openRemotePart } from "../remote/wiring.js";
import { Copier } from "./copier.js";

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
