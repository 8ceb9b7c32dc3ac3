import type { Lifecycle } from "@diskmesh/service";
import { blockHostOf } from "./base/config.js";
import type { AgentContext } from "./calls/context.js";
import type { AgentEdges } from "./edges.js";
import type { Engine } from "./engines/engine.js";
import { KernelEngine } from "./engines/kernel-engine.js";
import { NodeEngine } from "./engines/node-engine.js";
import { exportDeviceOf } from "./model/exports.js";
import { type OpenPart, openPart } from "./parts/open-part.js";
import { blockAddressOf } from "./remote/block-address.js";
import { DeviceAccess } from "./remote/device-access.js";
import { NvmeParts } from "./remote/nvme-parts.js";
import { RemotePart } from "./remote/remote-part.js";

type Wired = Pick<AgentContext, "config" | "limits" | "devices" | "ledger" | "log">;

/** Serves the devices to holders on other hosts, at the port of the agent's former life. */
export async function serveHolders(
  lifecycle: Lifecycle,
  context: Wired,
  edges: Pick<AgentEdges, "clock" | "machineBootId" | "listenForHolders" | "nvme">,
): Promise<AgentContext["holders"]> {
  const { config, limits, devices, ledger, log } = context;
  const machineBootId = await edges.machineBootId();
  const access = new DeviceAccess({
    devices,
    ledger,
    machineBootId,
    takeOverTimeoutMs: limits.orderTimeoutMs,
    nvme: edges.nvme,
  });
  const listen = config.blockListen ?? { host: config.listen.host, port: 0 };
  const listener = await edges.listenForHolders({
    access,
    host: listen.host,
    port: listen.port || (ledger.memory.blockPort ?? 0),
    limits: {
      maxInFlightRequests: limits.maxInFlightPerLink,
      maxInFlightBytes: limits.maxInFlightNbdBytes,
      negotiationTimeoutMs: limits.nbdNegotiationTimeoutMs,
    },
    clock: edges.clock,
    log,
  });
  lifecycle.use("listener for holders on other hosts", listener);
  return { address: () => blockAddressOf(blockHostOf(config), listener, ledger) };
}

/** Returns a function that opens devices of this host and of others for exports and copies. */
export function openAnyPart(
  { config, limits, devices, ledger, log }: Wired,
  { clock, random, linkDevice }: Pick<AgentEdges, "clock" | "random" | "linkDevice">,
): OpenPart {
  const { maxInFlightPerLink: maxInFlight, linkChunkBytes: chunkBytes } = limits;
  const { hostId, remoteIoTimeoutMs: operationTimeoutMs } = config;
  const openRemotePart: OpenPart = (device, { diskId, sessionNumber: exportSession }, now) => {
    const { deviceId, offsetBytes, sessionNumber = exportSession } = device;
    // Reads the memory at each attempt, because a repeated order brings another address or key. An export that is
    // ending still answers its last requests.
    const remembered = () =>
      exportDeviceOf(ledger.memory, { diskId, sessionNumber: exportSession, deviceId, offsetBytes }) ?? device;
    const present = now ?? remembered;
    return new RemotePart({
      connect: async (signal) => {
        const { blockAddress: address, sessionKey } = present();
        return linkDevice({ address, deviceId, offsetBytes, sessionNumber, sessionKey }, signal);
      },
      diskId,
      deviceId,
      sessionNumber,
      limits: { operationTimeoutMs, maxInFlight, chunkBytes, reconnect: { minDelayMs: 50, maxDelayMs: 1_000 } },
      clock,
      random,
      log,
    });
  };
  return openPart({ hostId, devices, openRemotePart, clock, ioTimeoutMs: operationTimeoutMs });
}

/** Makes the engines of the agent, in order of preference. `folder` is that of the exports. */
export function makeEngines(context: Wired, folder: string, edges: AgentEdges): readonly Engine[] {
  const { config, limits, devices, ledger, log } = context;
  const common = {
    hostId: config.hostId,
    folder,
    devices,
    openPart: openAnyPart(context, edges),
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
