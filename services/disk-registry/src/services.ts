import { AgentRegistrationServiceDefinition } from "@diskmesh/api/internal";
import {
  DiskRegistryServiceDefinition,
  FleetServiceDefinition,
  JoinTokenServiceDefinition,
} from "@diskmesh/api/registry";
import { OPERATOR_ROLES, type Role } from "@diskmesh/domain";
import { allow, allowChange, type CallContext, offer, type RpcServer } from "@diskmesh/rpc";
import { addAdminService, type ProcessReport } from "@diskmesh/tablet-admin";
import { changing, noteBackup, noted } from "./calls/changing.js";
import type { ChangeContext, Context } from "./calls/context.js";
import { addDevice } from "./handlers/devices/add-device.js";
import { adoptDevice } from "./handlers/devices/adopt-device.js";
import { confirmDevice } from "./handlers/devices/confirm-device.js";
import { getDevice } from "./handlers/devices/get-device.js";
import { listDevices } from "./handlers/devices/list-devices.js";
import { purgeDevice } from "./handlers/devices/purge-device.js";
import { removeDevice } from "./handlers/devices/remove-device.js";
import { setDeviceState } from "./handlers/devices/set-device-state.js";
import { watchDevices } from "./handlers/devices/watch-devices.js";
import { cancelMove } from "./handlers/disks/cancel-move.js";
import { createDisk } from "./handlers/disks/create-disk.js";
import { decideUnknownDisks } from "./handlers/disks/decide-unknown-disks.js";
import { deleteDisk } from "./handlers/disks/delete-disk.js";
import { getCapacity } from "./handlers/disks/get-capacity.js";
import { getDisk } from "./handlers/disks/get-disk.js";
import { listDisks } from "./handlers/disks/list-disks.js";
import { migrateDisk } from "./handlers/disks/migrate-disk.js";
import { publishDisk } from "./handlers/disks/publish-disk.js";
import { replaceDevice } from "./handlers/disks/replace-device.js";
import { resizeDisk } from "./handlers/disks/resize-disk.js";
import { setDiskLabels } from "./handlers/disks/set-disk-labels.js";
import { setDiskLimits } from "./handlers/disks/set-disk-limits.js";
import { undeleteDisk } from "./handlers/disks/undelete-disk.js";
import { unpublishDisk } from "./handlers/disks/unpublish-disk.js";
import { watchDisks } from "./handlers/disks/watch-disks.js";
import { explain } from "./handlers/explain.js";
import { getIoTotals } from "./handlers/get-io-totals.js";
import { addHost } from "./handlers/hosts/add-host.js";
import { adoptFleet } from "./handlers/hosts/adopt-fleet.js";
import { assignHost } from "./handlers/hosts/assign-host.js";
import { fenceHost } from "./handlers/hosts/fence-host.js";
import { getFleet } from "./handlers/hosts/get-fleet.js";
import { getHost } from "./handlers/hosts/get-host.js";
import { heartbeat } from "./handlers/hosts/heartbeat.js";
import { listHosts } from "./handlers/hosts/list-hosts.js";
import { purgeHost } from "./handlers/hosts/purge-host.js";
import { raiseNumbers } from "./handlers/hosts/raise-numbers.js";
import { registerAgent } from "./handlers/hosts/register-agent.js";
import { removeHost } from "./handlers/hosts/remove-host.js";
import { setHostState } from "./handlers/hosts/set-host-state.js";
import { unassignHost } from "./handlers/hosts/unassign-host.js";
import { watchHosts } from "./handlers/hosts/watch-hosts.js";
import { createJoinToken, listJoinTokens, revokeJoinToken } from "./handlers/joins/join-tokens.js";
import { renewCertificate } from "./handlers/joins/renew-certificate.js";
import { listChanges } from "./handlers/list-changes.js";
import { listFleetEvents } from "./handlers/list-fleet-events.js";
import { listTroubles } from "./handlers/list-troubles.js";

const INFRASTRUCTURE: readonly Role[] = ["operator", "operator-hosts"];
/** Roles of calls that change the whole fleet at once, after a disaster. */
const WHOLE_FLEET: readonly Role[] = ["operator"];
const READERS: readonly Role[] = [...OPERATOR_ROLES, "cpi-dispatcher", "director"];
/** Roles for calls that a director makes for its admins over HTTPS. */
const DIRECTED: readonly Role[] = [...INFRASTRUCTURE, "director"];
const DISK_USERS: readonly Role[] = ["operator", "operator-disks", "cpi-dispatcher"];

/** Declares a method whose calls are recorded as events under the given name. */
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
    adoptDevice: change(INFRASTRUCTURE, "AdoptDevice", adoptDevice),
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
    undeleteDisk: change([...DISK_USERS, "director"], "UndeleteDisk", undeleteDisk),
    getDisk: allow(READERS, getDisk),
    listDisks: allow(READERS, listDisks),
    getCapacity: allow(READERS, getCapacity),
    getIoTotals: allow(READERS, getIoTotals),
    setDiskLabels: change(DISK_USERS, "SetDiskLabels", setDiskLabels),
    setDiskLimits: change(DISK_USERS, "SetDiskLimits", setDiskLimits),
    resizeDisk: change(DISK_USERS, "ResizeDisk", resizeDisk),
    migrateDisk: change(DIRECTED, "MigrateDisk", migrateDisk),
    replaceDevice: change(INFRASTRUCTURE, "ReplaceDevice", replaceDevice),
    cancelMove: change(DIRECTED, "CancelMove", cancelMove),
    publishDisk: change(DISK_USERS, "PublishDisk", publishDisk),
    unpublishDisk: change(DISK_USERS, "UnpublishDisk", unpublishDisk),
    assignHost: change(DISK_USERS, "AssignHost", assignHost),
    listChanges: allow([...OPERATOR_ROLES, "director"], listChanges),
    listFleetEvents: allow([...OPERATOR_ROLES, "director"], listFleetEvents),
    unassignHost: change(DISK_USERS, "UnassignHost", unassignHost),
  });
  offer(server, FleetServiceDefinition, current, {
    getFleet: allow(OPERATOR_ROLES, getFleet),
    adoptFleet: allowChange(WHOLE_FLEET, noted("AdoptFleet", adoptFleet)),
    raiseNumbers: change(WHOLE_FLEET, "RaiseNumbers", raiseNumbers),
    decideUnknownDisks: change(WHOLE_FLEET, "DecideUnknownDisks", decideUnknownDisks),
  });
  offer(server, JoinTokenServiceDefinition, current, {
    createJoinToken: change(INFRASTRUCTURE, "CreateJoinToken", createJoinToken),
    listJoinTokens: allow(OPERATOR_ROLES, listJoinTokens),
    revokeJoinToken: change(INFRASTRUCTURE, "RevokeJoinToken", revokeJoinToken),
  });
  offer(server, AgentRegistrationServiceDefinition, current, {
    registerAgent: allow(AGENTS, registerAgent),
    heartbeat: allow(AGENTS, heartbeat),
    renewCertificate: allow(AGENTS, renewCertificate),
  });
  addAdminService(
    server,
    current,
    { explain, listTroubles },
    {
      service: "disk-registry",
      report,
      noteBackup,
      others: ["director"],
    },
  );
}
