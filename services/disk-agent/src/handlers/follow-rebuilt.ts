import {
  ExportDiskRequest,
  type FollowRebuiltRequest,
  type FollowRebuiltResponse,
  type ServedDisk,
} from "@diskmesh/api/internal";
import { ExportKind } from "@diskmesh/api/registry";
import { InvalidStateError, OutdatedError, parseId } from "@diskmesh/domain";
import type { AgentContext } from "../calls/context.js";
import type { ExportDevice, ExportSpec } from "../model/memory.js";
import { obeyRebuilt, requireFleet } from "../model/registration.js";
import { describeAgent } from "../workers/registration.js";

/**
 * Describes the agent to a registry that is being rebuilt. With an incarnation, the agent obeys that one from now on,
 * unless it hears a registry: two registries would decide on its disks.
 */
export async function followRebuilt(
  context: AgentContext,
  request: FollowRebuiltRequest,
): Promise<FollowRebuiltResponse> {
  const { exports, orders, ledger, registrationDue } = context;
  if (request.incarnation !== "") follow(context, request);
  else if (request.fleetId !== "") requireFleet(ledger.memory, parseId("fleet_id", request.fleetId));
  await orders.labels.look();
  const memory = await ledger.durable();
  const disks = [...memory.exports.values()].flatMap(({ spec }): ServedDisk[] => {
    if (spec === undefined) return [];
    const { diskId } = spec;
    const exportPath = exports.find(diskId) ?? "";
    return [{ order: orderOf(spec), exportPath, fixedSize: exports.hasFixedSize(diskId) }];
  });
  const registration = describeAgent(context, memory, new Map());
  return { registration, disks, untilSilentMs: registrationDue.contact.untilSilentMs };
}

function follow({ bootId, config, ledger, registrationDue }: AgentContext, request: FollowRebuiltRequest): void {
  const { hostId } = config;
  const about = { host_id: hostId };
  if (request.bootId !== bootId)
    throw new OutdatedError(`the agent of host ${hostId} has restarted since it described itself: begin again`, {
      about,
    });
  const { untilSilentMs } = registrationDue.contact;
  if (untilSilentMs > 0)
    throw new InvalidStateError(
      `the agent of host ${hostId} has heard a registry a moment ago: stop every registry of the fleet, and try again in ${Math.ceil(untilSilentMs / 1_000)} s`,
      { about },
    );
  const [tabletId, incarnation] = [parseId("fleet_id", request.fleetId), parseId("incarnation", request.incarnation)];
  ledger.remember(obeyRebuilt(ledger.memory, { tabletId, incarnation }));
  registrationDue.declare();
}

/** Encodes the order that an export follows, without what only its holder may know. */
function orderOf({ extents, exportKind, ...spec }: ExportSpec): ExportDiskRequest {
  const withoutKeys = ({ sessionKey: _, blockAddress: __, ...device }: ExportDevice) => device;
  return ExportDiskRequest.fromPartial({
    ...spec,
    limits: spec.limits && { ...spec.limits },
    exportKind: ExportKind[exportKind ?? "UNSPECIFIED"],
    extents: extents.map(({ target, ...extent }) => ({
      ...withoutKeys(extent),
      ...(target && { target: withoutKeys(target) }),
    })),
  });
}
