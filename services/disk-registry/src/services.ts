import {
  AgentRegistrationServiceDefinition,
  DiskRegistryServiceDefinition,
  FleetServiceDefinition,
} from "@diskmesh/api/registry";
import { OPERATOR_ROLES, type Role } from "@diskmesh/domain";
import { allow, offer, type RpcServer } from "@diskmesh/rpc";
import { addAdminService } from "@diskmesh/tablet-admin";
import type { Context } from "./context.js";
import { addDevice } from "./handlers/add-device.js";
import { addHost } from "./handlers/add-host.js";
import { adoptFleet } from "./handlers/adopt-fleet.js";
import { assignHost } from "./handlers/assign-host.js";
import { createDisk } from "./handlers/create-disk.js";
import { decideUnknownDisks } from "./handlers/decide-unknown-disks.js";
import { deleteDisk } from "./handlers/delete-disk.js";
import { explain } from "./handlers/explain.js";
import { fenceHost } from "./handlers/fence-host.js";
import { getDevice } from "./handlers/get-device.js";
import { getDisk } from "./handlers/get-disk.js";
import { getFleet } from "./handlers/get-fleet.js";
import { getHost } from "./handlers/get-host.js";
import { heartbeat } from "./handlers/heartbeat.js";
import { listDevices } from "./handlers/list-devices.js";
import { listDisks } from "./handlers/list-disks.js";
import { listEvents } from "./handlers/list-events.js";
import { listHosts } from "./handlers/list-hosts.js";
import { publishDisk } from "./handlers/publish-disk.js";
import { purgeDevice } from "./handlers/purge-device.js";
import { purgeHost } from "./handlers/purge-host.js";
import { raiseNumbers } from "./handlers/raise-numbers.js";
import { registerAgent } from "./handlers/register-agent.js";
import { removeDevice } from "./handlers/remove-device.js";
import { removeHost } from "./handlers/remove-host.js";
import { resizeDisk } from "./handlers/resize-disk.js";
import { setDeviceState } from "./handlers/set-device-state.js";
import { setDiskLabels } from "./handlers/set-disk-labels.js";
import { setHostState } from "./handlers/set-host-state.js";
import { unassignHost } from "./handlers/unassign-host.js";
import { unpublishDisk } from "./handlers/unpublish-disk.js";
import { watchDevices } from "./handlers/watch-devices.js";
import { watchDisks } from "./handlers/watch-disks.js";
import { watchHosts } from "./handlers/watch-hosts.js";
import { changing, noted } from "./requests/changing.js";

const INFRASTRUCTURE: readonly Role[] = ["operator", "operator-hosts"];
/** What changes the whole fleet at once, after a disaster. */
const WHOLE_FLEET: readonly Role[] = ["operator"];
const READERS: readonly Role[] = [...OPERATOR_ROLES, "cpi-dispatcher", "director"];
/** A director asks for its admins, over HTTPS, what its page lets them do. */
const DIRECTED: readonly Role[] = [...INFRASTRUCTURE, "director"];
const DISK_USERS: readonly Role[] = ["operator", "operator-disks", "cpi-dispatcher"];

const AGENTS: readonly Role[] = ["disk-agent"];

/** Adds all services. `current` throws UnavailableError while this process does not lead. */
export function addServices(server: Pick<RpcServer, "addService">, current: () => Context): void {
  offer(server, DiskRegistryServiceDefinition, current, {
    addHost: allow(INFRASTRUCTURE, changing("AddHost", addHost)),
    removeHost: allow(INFRASTRUCTURE, changing("RemoveHost", removeHost)),
    purgeHost: allow(INFRASTRUCTURE, changing("PurgeHost", purgeHost)),
    fenceHost: allow(DIRECTED, changing("FenceHost", fenceHost)),
    setHostState: allow(DIRECTED, changing("SetHostState", setHostState)),
    setDeviceState: allow(INFRASTRUCTURE, changing("SetDeviceState", setDeviceState)),
    addDevice: allow(INFRASTRUCTURE, changing("AddDevice", addDevice)),
    removeDevice: allow(INFRASTRUCTURE, changing("RemoveDevice", removeDevice)),
    purgeDevice: allow(INFRASTRUCTURE, changing("PurgeDevice", purgeDevice)),
    getHost: allow(READERS, getHost),
    listHosts: allow(READERS, listHosts),
    getDevice: allow(READERS, getDevice),
    listDevices: allow(READERS, listDevices),
    watchDevices: allow(READERS, watchDevices),
    watchHosts: allow(READERS, watchHosts),
    watchDisks: allow(READERS, watchDisks),
    createDisk: allow(DISK_USERS, changing("CreateDisk", createDisk)),
    deleteDisk: allow(DISK_USERS, changing("DeleteDisk", deleteDisk)),
    getDisk: allow(READERS, getDisk),
    listDisks: allow(READERS, listDisks),
    setDiskLabels: allow(DISK_USERS, changing("SetDiskLabels", setDiskLabels)),
    resizeDisk: allow(DISK_USERS, changing("ResizeDisk", resizeDisk)),
    publishDisk: allow(DISK_USERS, changing("PublishDisk", publishDisk)),
    unpublishDisk: allow(DISK_USERS, changing("UnpublishDisk", unpublishDisk)),
    assignHost: allow(DISK_USERS, changing("AssignHost", assignHost)),
    listEvents: allow([...OPERATOR_ROLES, "director"], listEvents),
    unassignHost: allow(DISK_USERS, changing("UnassignHost", unassignHost)),
  });
  offer(server, FleetServiceDefinition, current, {
    getFleet: allow(OPERATOR_ROLES, getFleet),
    adoptFleet: allow(WHOLE_FLEET, noted("AdoptFleet", adoptFleet)),
    raiseNumbers: allow(WHOLE_FLEET, changing("RaiseNumbers", raiseNumbers)),
    decideUnknownDisks: allow(WHOLE_FLEET, changing("DecideUnknownDisks", decideUnknownDisks)),
  });
  offer(server, AgentRegistrationServiceDefinition, current, {
    registerAgent: allow(AGENTS, registerAgent),
    heartbeat: allow(AGENTS, heartbeat),
  });
  addAdminService(server, current, explain, ["director"]);
}
