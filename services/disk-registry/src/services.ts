import {
  AgentRegistrationServiceDefinition,
  DiskRegistryServiceDefinition,
  FleetServiceDefinition,
} from "@diskmesh/api/registry";
import { OPERATOR_ROLES, type Role } from "@diskmesh/domain";
import { allow, allowChange, type CallContext, offer, type RpcServer } from "@diskmesh/rpc";
import { addAdminService, type ProcessReport } from "@diskmesh/tablet-admin";
import type { ChangeContext, Context } from "./context.js";
import { addDevice } from "./handlers/add-device.js";
import { addHost } from "./handlers/add-host.js";
import { adoptFleet } from "./handlers/adopt-fleet.js";
import { assignHost } from "./handlers/assign-host.js";
import { confirmDevice } from "./handlers/confirm-device.js";
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
import { changing, noteBackup, noted } from "./requests/changing.js";

const INFRASTRUCTURE: readonly Role[] = ["operator", "operator-hosts"];
/** What changes the whole fleet at once, after a disaster. */
const WHOLE_FLEET: readonly Role[] = ["operator"];
const READERS: readonly Role[] = [...OPERATOR_ROLES, "cpi-dispatcher", "director"];
/** A director asks for its admins, over HTTPS, what its page lets them do. */
const DIRECTED: readonly Role[] = [...INFRASTRUCTURE, "director"];
const DISK_USERS: readonly Role[] = ["operator", "operator-disks", "cpi-dispatcher"];

/** A method whose calls are events, under that name. */
const change = <Request extends object, Response>(
  roles: readonly Role[],
  action: string,
  serve: (context: ChangeContext, request: Request, call: CallContext) => Promise<Response>,
) => allowChange(roles, changing(action, serve));

const AGENTS: readonly Role[] = ["disk-agent"];

/** Adds all services. `current` throws UnavailableError while this process does not lead. */
export function addServices(
  server: Pick<RpcServer, "addService">,
  current: () => Context,
  report?: () => ProcessReport,
): void {
  offer(server, DiskRegistryServiceDefinition, current, {
    addHost: change(DIRECTED, "AddHost", addHost),
    removeHost: change(DIRECTED, "RemoveHost", removeHost),
    purgeHost: change(INFRASTRUCTURE, "PurgeHost", purgeHost),
    fenceHost: change(DIRECTED, "FenceHost", fenceHost),
    setHostState: change(DIRECTED, "SetHostState", setHostState),
    setDeviceState: change(INFRASTRUCTURE, "SetDeviceState", setDeviceState),
    addDevice: change(INFRASTRUCTURE, "AddDevice", addDevice),
    confirmDevice: change(INFRASTRUCTURE, "ConfirmDevice", confirmDevice),
    removeDevice: change(INFRASTRUCTURE, "RemoveDevice", removeDevice),
    purgeDevice: change(INFRASTRUCTURE, "PurgeDevice", purgeDevice),
    getHost: allow(READERS, getHost),
    listHosts: allow(READERS, listHosts),
    getDevice: allow(READERS, getDevice),
    listDevices: allow(READERS, listDevices),
    watchDevices: allow(READERS, watchDevices),
    watchHosts: allow(READERS, watchHosts),
    watchDisks: allow(READERS, watchDisks),
    createDisk: change(DISK_USERS, "CreateDisk", createDisk),
    deleteDisk: change(DISK_USERS, "DeleteDisk", deleteDisk),
    getDisk: allow(READERS, getDisk),
    listDisks: allow(READERS, listDisks),
    setDiskLabels: change(DISK_USERS, "SetDiskLabels", setDiskLabels),
    resizeDisk: change(DISK_USERS, "ResizeDisk", resizeDisk),
    publishDisk: change(DISK_USERS, "PublishDisk", publishDisk),
    unpublishDisk: change(DISK_USERS, "UnpublishDisk", unpublishDisk),
    assignHost: change(DISK_USERS, "AssignHost", assignHost),
    listEvents: allow([...OPERATOR_ROLES, "director"], listEvents),
    unassignHost: change(DISK_USERS, "UnassignHost", unassignHost),
  });
  offer(server, FleetServiceDefinition, current, {
    getFleet: allow(OPERATOR_ROLES, getFleet),
    adoptFleet: allowChange(WHOLE_FLEET, noted("AdoptFleet", adoptFleet)),
    raiseNumbers: change(WHOLE_FLEET, "RaiseNumbers", raiseNumbers),
    decideUnknownDisks: change(WHOLE_FLEET, "DecideUnknownDisks", decideUnknownDisks),
  });
  offer(server, AgentRegistrationServiceDefinition, current, {
    registerAgent: allow(AGENTS, registerAgent),
    heartbeat: allow(AGENTS, heartbeat),
  });
  addAdminService(server, current, explain, {
    service: "disk-registry",
    report,
    noteBackup,
    others: ["director"],
  });
}
