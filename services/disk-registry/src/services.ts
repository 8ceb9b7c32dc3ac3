import {
  AgentRegistrationServiceService,
  DiskRegistryServiceService,
  FleetServiceService,
} from "@diskmesh/api/registry";
import type { Role } from "@diskmesh/domain";
import type { CallContext, RpcServer } from "@diskmesh/rpc";
import { addAdminService } from "@diskmesh/tablet-admin";
import type { Context } from "./context.js";
import { addDevice } from "./handlers/add-device.js";
import { addHost } from "./handlers/add-host.js";
import { adoptFleet } from "./handlers/adopt-fleet.js";
import { assignHost } from "./handlers/assign-host.js";
import { createDisk } from "./handlers/create-disk.js";
import { decideUnknownDisks } from "./handlers/decide-unknown-disks.js";
import { deleteDisk } from "./handlers/delete-disk.js";
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
import { unassignHost } from "./handlers/unassign-host.js";
import { unpublishDisk } from "./handlers/unpublish-disk.js";
import { watchDevices } from "./handlers/watch-devices.js";

const INFRASTRUCTURE: readonly Role[] = ["operator"];
const READERS: readonly Role[] = ["operator", "cpi-dispatcher", "director"];
const DISK_USERS: readonly Role[] = ["operator", "cpi-dispatcher"];

type Serve<Request, Response> = (context: Context, request: Request, call: CallContext) => Promise<Response>;

/** Adds both services. `current` throws UnavailableError while this process does not lead. */
export function addServices(server: Pick<RpcServer, "addService">, current: () => Context): void {
  const bound =
    <Request, Response>(serve: Serve<Request, Response>) =>
    async (request: Request, call: CallContext): Promise<Response> =>
      serve(current(), request, call);

  /** Refused while another registry leads this fleet: what is acknowledged here would be lost there. */
  const changing =
    <Request, Response>(serve: Serve<Request, Response>) =>
    async (request: Request, call: CallContext): Promise<Response> => {
      const context = current();
      context.fleet.requireLeads();
      return serve(context, request, call);
    };

  server.addService(DiskRegistryServiceService, {
    roles: {
      addHost: INFRASTRUCTURE,
      removeHost: INFRASTRUCTURE,
      purgeHost: INFRASTRUCTURE,
      addDevice: INFRASTRUCTURE,
      removeDevice: INFRASTRUCTURE,
      purgeDevice: INFRASTRUCTURE,
      getHost: READERS,
      listHosts: READERS,
      getDevice: READERS,
      listDevices: READERS,
      watchDevices: READERS,
      createDisk: DISK_USERS,
      deleteDisk: DISK_USERS,
      getDisk: READERS,
      listDisks: READERS,
      setDiskLabels: DISK_USERS,
      resizeDisk: DISK_USERS,
      publishDisk: DISK_USERS,
      unpublishDisk: DISK_USERS,
      assignHost: DISK_USERS,
      unassignHost: DISK_USERS,
    },
    handlers: {
      addHost: changing(addHost),
      removeHost: changing(removeHost),
      purgeHost: changing(purgeHost),
      addDevice: changing(addDevice),
      removeDevice: changing(removeDevice),
      purgeDevice: changing(purgeDevice),
      getHost: bound(getHost),
      listHosts: bound(listHosts),
      getDevice: bound(getDevice),
      listDevices: bound(listDevices),
      watchDevices: (request, call) => watchDevices(current(), request, call),
      createDisk: changing(createDisk),
      deleteDisk: changing(deleteDisk),
      getDisk: bound(getDisk),
      listDisks: bound(listDisks),
      setDiskLabels: changing(setDiskLabels),
      resizeDisk: changing(resizeDisk),
      publishDisk: changing(publishDisk),
      unpublishDisk: changing(unpublishDisk),
      assignHost: changing(assignHost),
      unassignHost: changing(unassignHost),
    },
  });

  server.addService(FleetServiceService, {
    roles: {
      getFleet: INFRASTRUCTURE,
      adoptFleet: INFRASTRUCTURE,
      raiseNumbers: INFRASTRUCTURE,
      decideUnknownDisks: INFRASTRUCTURE,
    },
    handlers: {
      getFleet: bound(getFleet),
      adoptFleet: bound(adoptFleet),
      raiseNumbers: changing(raiseNumbers),
      decideUnknownDisks: changing(decideUnknownDisks),
    },
  });
  addAdminService(server, current);
  server.addService(AgentRegistrationServiceService, {
    roles: ["disk-agent"],
    handlers: { registerAgent: bound(registerAgent), heartbeat: bound(heartbeat) },
  });
}
