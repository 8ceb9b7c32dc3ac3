import { AgentDriverServiceDefinition, DiskAgentServiceDefinition } from "@diskmesh/api/internal";
import { OPERATOR_ROLES, type Role } from "@diskmesh/domain";
import { allow, allowChange, offer, type RpcServer } from "@diskmesh/rpc";
import type { AgentContext } from "./calls/context.js";
import { attachDevices } from "./handlers/attach-devices.js";
import { closeSession } from "./handlers/close-session.js";
import { copyDevice } from "./handlers/copy-device.js";
import { detachDevices } from "./handlers/detach-devices.js";
import { eraseDevice } from "./handlers/erase-device.js";
import { exportDisk } from "./handlers/export-disk.js";
import { followRebuilt } from "./handlers/follow-rebuilt.js";
import { getMirror } from "./handlers/get-mirror.js";
import { listClaims } from "./handlers/list-claims.js";
import { listDevices } from "./handlers/list-devices.js";
import { listRuns } from "./handlers/list-runs.js";
import { openSession } from "./handlers/open-session.js";
import { rescanDevices } from "./handlers/rescan-devices.js";
import { unexportDisk } from "./handlers/unexport-disk.js";
import { callMethod, cancelMethod, joinMethod, listMethods } from "./handlers/vendor-methods.js";
import { writeLabel } from "./handlers/write-label.js";

const REGISTRY: readonly Role[] = ["disk-registry"];
const LOOKERS: readonly Role[] = ["disk-registry", ...OPERATOR_ROLES];
const RESCANNERS: readonly Role[] = ["disk-registry", "operator", "operator-hosts"];
const DIRECTORS: readonly Role[] = ["director"];

/** Adds the APIs for the registry and the director. */
export function addServices(server: Pick<RpcServer, "addService">, current: () => AgentContext): void {
  offer(server, DiskAgentServiceDefinition, current, {
    attachDevices: allowChange(REGISTRY, attachDevices),
    detachDevices: allowChange(REGISTRY, detachDevices),
    listDevices: allow(LOOKERS, listDevices),
    listClaims: allow(LOOKERS, listClaims),
    listRuns: allow(LOOKERS, listRuns),
    followRebuilt: allowChange(REGISTRY, followRebuilt),
    rescanDevices: allowChange(RESCANNERS, rescanDevices),
    openSession: allowChange(REGISTRY, openSession),
    closeSession: allowChange(REGISTRY, closeSession),
    eraseDevice: allowChange(REGISTRY, eraseDevice),
    writeLabel: allowChange(REGISTRY, writeLabel),
    copyDevice: allowChange(REGISTRY, copyDevice),
    getMirror: allowChange(REGISTRY, getMirror),
    exportDisk: allowChange(REGISTRY, exportDisk),
    unexportDisk: allowChange(REGISTRY, unexportDisk),
  });
  offer(server, AgentDriverServiceDefinition, current, {
    listMethods: allow(DIRECTORS, listMethods),
    callMethod: allowChange(DIRECTORS, callMethod),
    joinMethod: allow(DIRECTORS, joinMethod),
    cancelMethod: allowChange(DIRECTORS, cancelMethod),
  });
}
