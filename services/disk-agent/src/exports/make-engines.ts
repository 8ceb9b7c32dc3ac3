import type { Logger } from "@diskmesh/domain";
import { RemotePart } from "../block-io/remote-part.js";
import type { AgentConfig } from "../config.js";
import type { DeviceTable } from "../devices/device-table.js";
import type { AgentEdges } from "../edges.js";
import type { AgentLimits } from "../limits.js";
import { QemuEngine } from "../qemu/qemu-engine.js";
import type { Engine } from "./engine.js";
import { NodeEngine, type OpenRemotePart } from "./node-engine.js";

interface EngineEdges {
  readonly folders: { readonly exports: string };
  readonly edges: AgentEdges;
  readonly limits: AgentLimits;
  readonly log: Logger;
}

/** Makes the engines of the agent, in order of preference. */
export function makeEngines(
  config: AgentConfig,
  devices: DeviceTable,
  { folders, edges, limits, log }: EngineEdges,
): readonly Engine[] {
  const common = { hostId: config.hostId, folder: folders.exports, devices, log };
  const node = new NodeEngine({
    ...common,
    openRemotePart: openRemotePart(config, limits, edges, log),
    listenNbd: edges.listenNbd,
    clock: edges.clock,
    limits: {
      maxConnections: limits.maxNbdConnections,
      maxInFlightRequests: limits.maxInFlightNbdRequests,
      maxInFlightBytes: limits.maxInFlightNbdBytes,
      negotiationTimeoutMs: limits.nbdNegotiationTimeoutMs,
      drainTimeoutMs: limits.drainTimeoutMs,
      ioTimeoutMs: config.remoteIoTimeoutMs,
    },
  });
  return edges.hasQemu ? [new QemuEngine(common), node] : [node];
}

function openRemotePart(
  { remoteIoTimeoutMs: operationTimeoutMs }: AgentConfig,
  { maxInFlightPerStream: maxInFlight, blockIoChunkBytes: chunkBytes }: AgentLimits,
  edges: AgentEdges,
  log: Logger,
): OpenRemotePart {
  return (extent, spec) =>
    new RemotePart({
      connect: () => edges.connectAgent(extent),
      diskId: spec.diskId,
      deviceId: extent.deviceId,
      sessionNumber: extent.sessionNumber ?? spec.sessionNumber,
      limits: { operationTimeoutMs, maxInFlight, chunkBytes, reconnect: { minDelayMs: 50, maxDelayMs: 1_000 } },
      clock: edges.clock,
      random: edges.random,
      log,
    });
}
