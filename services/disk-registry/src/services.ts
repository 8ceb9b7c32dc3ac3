import {
  AgentRegistrationServiceDefinition,
  DiskRegistryServiceDefinition,
  FleetServiceDefinition,
} from "@diskmesh/api/registry";
import type { Role } from "@diskmesh/domain";
import { allow, type CallContext, offer, type RpcServer } from "@diskmesh/rpc";
import { addAdminService } from "@diskmesh/tablet-admin";
import type { Context } from "./context.js";
import { addDevice } from "./handlers/add-device.js";
import { addHost } from "./handlers/add-host.js";
import { adoptFleet } from "./handlers/adopt-fleet.js";
import { assignHost } from "./handlers/assign-host.js";
import { createDisk } from "./handlers/create-disk.js";
import { decideUnknownDisks } from "./handlers/decide-unknown-disks.js";
import { deleteDisk } from "./handlers/delete-disk.js";
import { fenceHost } from "./handlers/fence-host.js";
import { getDevice } from "./handlers/get-device.js";
import { getDisk } from "./handlers/get-disk.js";
import { getFleet } from "./handlers/get-fleet.js";
import { getHost } from "./handlers/get-host.js";
import { heartbeat } from "./handlers/heartbeat.js";
import { listDevices } from "./handlers/list-devices.js";
import { listDisks } from "./handlers/list-disks.js";
import { listHosts } from "./handlers/list-hosts.js";
import { publishDisk } from "./handlers/publish-disk.js";
import { purgeDevice } from "./handlers/purge-device.js";
import { purgeHost } from "./handlers/purge-host.js";
import { raiseNumbers } from "./handlers/raise-numbers.js";
import { registerAgent } from "./handlers/register-agent.js";
import { removeDevice } from "./handlers/remove-device.js";
import { removeHost } from "./handlers/remove-host.js";
import { resizeDisk } from "./handlers/resize-disk.js";
import { setDiskLabels } from "./handlers/set-disk-labels.js";
import { setHostState } from "./handlers/set-host-state.js";
import { unassignHost } from "./handlers/unassign-host.js";
import { unpublishDisk } from "./handlers/unpublish-disk.js";
import { watchDevices } from "./handlers/watch-devices.js";
import { watchDisks } from "./handlers/watch-disks.js";
import { watchHosts } from "./handlers/watch-hosts.js";

const INFRASTRUCTURE: readonly Role[] = ["operator"];
const READERS: readonly Role[] = ["operator", "cpi-dispatcher", "director"];
const DISK_USERS: readonly Role[] = ["operator", "cpi-dispatcher"];

const AGENTS: readonly Role[] = ["disk-agent"];

type Change<Request, Response> = (context: Context, request: Request, call: CallContext) => Promise<Response>;

/** Refused while another registry leads this fleet: what is acknowledged here would be lost there. */
function changing<Request, Response>(change: Change<Request, Response>): Change<Request, Response> {
  return async (context, request, call) => {
    context.fleet.requireLeads();
    return change(context, request, call);
  };
}

/** Adds all services. `current` throws UnavailableError while this process does not lead. */
export function addServices(server: Pick<RpcServer, "addService">, current: () => Context): void {
  offer(server, DiskRegistryServiceDefinition, current, {
    addHost: allow(INFRASTRUCTURE, changing(addHost)),
    removeHost: allow(INFRASTRUCTURE, changing(removeHost)),
    purgeHost: allow(INFRASTRUCTURE, changing(purgeHost)),
    fenceHost: allow(INFRASTRUCTURE, changing(fenceHost)),
    setHostState: allow(INFRASTRUCTURE, changing(setHostState)),
    addDevice: allow(INFRASTRUCTURE, changing(addDevice)),
    removeDevice: allow(INFRASTRUCTURE, changing(removeDevice)),
    purgeDevice: allow(INFRASTRUCTURE, changing(purgeDevice)),
    getHost: allow(READERS, getHost),
    listHosts: allow(READERS, listHosts),
    getDevice: allow(READERS, getDevice),
    listDevices: allow(READERS, listDevices),
    watchDevices: allow(READERS, watchDevices),
    watchHosts: allow(READERS, watchHosts),
    watchDisks: allow(READERS, watchDisks),
    createDisk: allow(DISK_USERS, changing(createDisk)),
    deleteDisk: allow(DISK_USERS, changing(deleteDisk)),
    getDisk: allow(READERS, getDisk),
    listDisks: allow(READERS, listDisks),
    setDiskLabels: allow(DISK_USERS, changing(setDiskLabels)),
    resizeDisk: allow(DISK_USERS, changing(resizeDisk)),
    publishDisk: allow(DISK_USERS, changing(publishDisk)),
    unpublishDisk: allow(DISK_USERS, changing(unpublishDisk)),
    assignHost: allow(DISK_USERS, changing(assignHost)),
    unassignHost: allow(DISK_USERS, changing(unassignHost)),
  });
  offer(server, FleetServiceDefinition, current, {
    getFleet: allow(INFRASTRUCTURE, getFleet),
    adoptFleet: allow(INFRASTRUCTURE, adoptFleet),
    raiseNumbers: allow(INFRASTRUCTURE, changing(raiseNumbers)),
    decideUnknownDisks: allow(INFRASTRUCTURE, changing(decideUnknownDisks)),
  });
  offer(server, AgentRegistrationServiceDefinition, current, {
    registerAgent: allow(AGENTS, registerAgent),
    heartbeat: allow(AGENTS, heartbeat),
  });
  addAdminService(server, current);
}
