import { DiskAgentServiceService } from "@diskmesh/api/agent";
import type { RpcServer } from "@diskmesh/rpc";
import type { AgentContext } from "./context.js";
import { attachDevices } from "./handlers/attach-devices.js";
import { blockIo } from "./handlers/block-io.js";
import { closeSession } from "./handlers/close-session.js";
import { detachDevices } from "./handlers/detach-devices.js";
import { eraseDevice } from "./handlers/erase-device.js";
import { exportDisk } from "./handlers/export-disk.js";
import { listDevices } from "./handlers/list-devices.js";
import { openSession } from "./handlers/open-session.js";
import { rescanDevices } from "./handlers/rescan-devices.js";
import { unexportDisk } from "./handlers/unexport-disk.js";

/** Adds the face to the registry and to other agents. */
export function addServices(
  server: Pick<RpcServer, "addService">,
  context: AgentContext,
  /** Of the machine under the agent; new when that restarts. */
  machineBootId: string,
): void {
  const { config, devices, ledger, clock } = context;
  const limits = {
    maxInFlightPerStream: config.limits.maxInFlightPerStream,
    maxReadBytes: config.limits.blockIoChunkBytes,
    takeOverTimeoutMs: config.timeouts.orderTimeoutMs,
  };
  const registry = ["disk-registry"] as const;
  server.addService(DiskAgentServiceService, {
    roles: {
      attachDevices: registry,
      detachDevices: registry,
      listDevices: ["disk-registry", "operator"],
      rescanDevices: ["disk-registry", "operator"],
      openSession: registry,
      closeSession: registry,
      eraseDevice: registry,
      exportDisk: registry,
      unexportDisk: registry,
      blockIo: ["disk-agent"],
    },
    handlers: {
      attachDevices: attachDevices(context),
      detachDevices: detachDevices(context),
      listDevices: listDevices(context),
      rescanDevices: rescanDevices(context),
      openSession: openSession(context),
      closeSession: closeSession(context),
      eraseDevice: eraseDevice(context),
      exportDisk: exportDisk(context),
      unexportDisk: unexportDisk(context),
      blockIo: blockIo({ devices, ledger, clock, limits, machineBootId }),
    },
  });
}
