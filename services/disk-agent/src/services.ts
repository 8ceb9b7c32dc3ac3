import { AgentDriverServiceDefinition, DiskAgentServiceDefinition } from "@diskmesh/api/agent";
import { OPERATOR_ROLES, type Role } from "@diskmesh/domain";
import { allow, offer, type RpcServer } from "@diskmesh/rpc";
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
import { callMethod, cancelMethod, joinMethod, listMethods } from "./handlers/vendor-methods.js";

const REGISTRY: readonly Role[] = ["disk-registry"];
const LOOKERS: readonly Role[] = ["disk-registry", ...OPERATOR_ROLES];
const RESCANNERS: readonly Role[] = ["disk-registry", "operator", "operator-hosts"];
const DIRECTORS: readonly Role[] = ["director"];
const AGENTS: readonly Role[] = ["disk-agent"];

/** Adds the face to the registry, to other agents and to the director. */
export function addServices(server: Pick<RpcServer, "addService">, current: () => AgentContext): void {
  offer(server, DiskAgentServiceDefinition, current, {
    attachDevices: allow(REGISTRY, attachDevices),
    detachDevices: allow(REGISTRY, detachDevices),
    listDevices: allow(LOOKERS, listDevices),
    rescanDevices: allow(RESCANNERS, rescanDevices),
    openSession: allow(REGISTRY, openSession),
    closeSession: allow(REGISTRY, closeSession),
    eraseDevice: allow(REGISTRY, eraseDevice),
    exportDisk: allow(REGISTRY, exportDisk),
    unexportDisk: allow(REGISTRY, unexportDisk),
    blockIo: allow(AGENTS, blockIo),
  });
  offer(server, AgentDriverServiceDefinition, current, {
    listMethods: allow(DIRECTORS, listMethods),
    callMethod: allow(DIRECTORS, callMethod),
    joinMethod: allow(DIRECTORS, joinMethod),
    cancelMethod: allow(DIRECTORS, cancelMethod),
  });
}
