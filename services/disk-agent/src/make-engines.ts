import type { Logger } from "@diskmesh/domain";
import type { AgentConfig } from "./base/config.js";
import type { AgentLimits } from "./base/limits.js";
import type { Ledger } from "./cache/ledger.js";
import type { DeviceTable } from "./devices/device-table.js";
import type { AgentEdges } from "./edges.js";
import type { Engine } from "./engines/engine.js";
import { KernelEngine } from "./engines/kernel-engine.js";
import { NodeEngine } from "./engines/node-engine.js";
import { NvmeParts } from "./remote/nvme-parts.js";
import { openAnyPart } from "./wiring.js";

interface EngineEdges {
  readonly folders: { readonly exports: string };
  readonly edges: AgentEdges;
  readonly limits: AgentLimits;
  readonly log: Logger;
}

/** Makes the engines of the agent, in order of preference. */
export function makeEngines(
  config: AgentConfig,
  { devices, ledger }: { readonly devices: DeviceTable; readonly ledger: Ledger },
  { folders, edges, limits, log }: EngineEdges,
): readonly Engine[] {
  const common = {
    hostId: config.hostId,
    folder: folders.exports,
    devices,
    openPart: openAnyPart({ config, limits, devices, ledger, log }, edges),
    clock: edges.clock,
    limits: {
      maxConnections: limits.maxNbdConnections,
      maxInFlightRequests: limits.maxInFlightNbdRequests,
      maxInFlightBytes: limits.maxInFlightNbdBytes,
      negotiationTimeoutMs: limits.nbdNegotiationTimeoutMs,
      drainTimeoutMs: limits.drainTimeoutMs,
      mirror: {
        copy: limits.copy,
        targetTimeoutMs: limits.mirrorTargetTimeoutMs,
        heldTimeoutMs: config.remoteIoTimeoutMs,
      },
    },
    log,
  };
  const node = new NodeEngine({ ...common, listenNbd: edges.listenNbd });
  const { mapper, nvme, io } = edges;
  if (mapper === undefined || nvme === undefined) return [node];
  const remote = new NvmeParts({ nvme, ledger, log });
  return [new KernelEngine({ ...common, mapper, remote, io }), node];
}
