import { bytesText, InvalidStateError } from "@diskmesh/domain";
import { type ActionResult, actionResult, disksText } from "../devices/action-result.js";
import { advance } from "../devices/attach-states.js";
import { lastValue } from "../devices/counters.js";
import { withReportedHealth } from "../devices/device-health.js";
import { type DeviceSelector, requireDevices } from "../devices/device-selection.js";
import { withSessionsEnded } from "../devices/ended-sessions.js";
import { forgetDevice } from "../devices/foreign-devices.js";
import { whyNotGone } from "../devices/foreign-labels.js";
import { refusedFor, strangeLabelText } from "../devices/replaced.js";
import { distrusted } from "../devices/reported-devices.js";
import { type SharedSerialNumbers, sharersIn, whyRefused } from "../devices/same-bytes.js";
import { whyUnknown } from "../devices/unknown-disks.js";
import { requireRegistration } from "../disks/remembered.js";
import { identityOf } from "../identity/hardware.js";
import { ownerOf } from "../identity/labels.js";
import type { DeviceIdentity } from "../store/device-identity.js";
import { allDevices } from "../store/layout.js";
import { holdsAnyDisk } from "../store/runs.js";
import type { Device, RegistryTables, RegistryTransaction } from "../store/schema.js";
import { disksIn, moveDisks } from "./adopted-disks.js";

/** A drive, the place where it is, and the device that it is. */
interface Adoption {
  /** Device of the place: the drive itself when it is in its own. */
  readonly place: Device;
  readonly former: Device;
  /** Hardware of the drive. */
  readonly found: DeviceIdentity;
  readonly labelId: string;
}

const WELL = { health: "ONLINE", healthMessage: "" } as const;

/**
 * Records that the drive in the place is the device whose label it carries, as an operator states. The device gets the
 * id of the place, and keeps its runs; its disks get new sessions, which only the place grants.
 */
export function adoptDevice(
  tx: RegistryTransaction,
  selector: DeviceSelector,
  { nowMs, shared }: { readonly nowMs: number; readonly shared: SharedSerialNumbers },
): ActionResult {
  const [place] = requireDevices(tx, selector) as [Device];
  const { deviceId, hostId } = place;
  const adoption = adoptionOf(tx, place);
  if (adoption === undefined)
    return actionResult("S_ALREADY", `no drive in the place of device ${deviceId} waits for it`);
  const why = typeof adoption === "string" ? adoption : whyNotAdopted(tx, adoption, shared);
  if (typeof adoption === "string" || why !== undefined)
    throw new InvalidStateError(
      `the drive in the place of device ${deviceId} of host ${hostId} is not adopted: ${why}`,
      {
        about: { device_id: deviceId, host_id: hostId },
      },
    );
  const { former } = adoption;
  const device = adopted(tx, adoption, nowMs);
  tx.devices.put(device);
  moveDisks(tx, former, device);
  const disks = holdsAnyDisk(former) ? `, with ${disksText(former)}` : "";
  const what = `the drive at ${JSON.stringify(device.path)} of host ${hostId}`;
  if (former.deviceId === deviceId) return actionResult("S_OK", `${what} is device ${deviceId}${disks}`);
  forgetDevice(tx, former);
  requireRegistration(tx, [former.hostId]);
  return actionResult("S_OK", `${what} is device ${former.deviceId}${disks}, and has the id ${deviceId} from now on`);
}

/** Returns which device the drive is by its label; why that is not known; undefined when nothing waits there. */
function adoptionOf(tables: RegistryTables, place: Device): Adoption | string | undefined {
  const { deviceId, replacement, foundLabel, label } = place;
  const refused = replacement && refusedFor({ ...place, replacement });
  const found = identityOf(replacement ?? place);
  if (refused === "LABEL_ON_OTHER_HARDWARE" || refused === "LABEL_TWICE") {
    const labelId = (foundLabel ?? label)?.labelId ?? "";
    return { place, former: place, found, labelId };
  }
  if (foundLabel === undefined)
    return refused === undefined ? undefined : "it carries no label: ConfirmDevice or AddDevice decides about it";
  const former = ownerOf(tables, foundLabel);
  if (former === undefined) return `it carries ${strangeLabelText(foundLabel)}`;
  if (former.deviceId === deviceId) return `this registry has nothing on device ${deviceId}: AddDevice adds it`;
  if (former.label !== undefined && former.label.labelId !== foundLabel.labelId)
    return `it carries a former label of device ${former.deviceId}, whose present drive carries another one`;
  return { place, former, found, labelId: foundLabel.labelId };
}

/** Returns why the place does not take the drive as the device; undefined when it does. */
function whyNotAdopted(
  tables: RegistryTables,
  { place, former, found }: Adoption,
  shared: SharedSerialNumbers,
): string | undefined {
  const host = tables.hosts.get(place.hostId);
  if (host === undefined || host.state === "DEAD") return `host ${place.hostId} is DEAD`;
  if (host.removalRequested) return `host ${place.hostId} is to be removed: keep it with AddHost first`;
  if (former.sliceBytes !== undefined && !host.slices)
    return `the agent of host ${place.hostId} does not know slices: upgrade it`;
  const isMoved = former.deviceId !== place.deviceId;
  if (isMoved && holdsAnyDisk(place))
    return `the registry has ${disksText(place)} there: put the drives back in their places`;
  const inPlace = isMoved ? whyNotGone(tables, former) : undefined;
  return (
    inPlace ??
    (isMoved ? whyUnknown(place) : undefined) ??
    whyUnfit(former, found) ??
    whyDisksStay(tables, former, place, host.az) ??
    whyRefused(
      function* (device) {
        for (const sharer of sharersIn(tables, shared)(device)) if (sharer.other !== former) yield sharer;
      },
      { ...former, ...identityOf(found), deviceId: place.deviceId, hostId: place.hostId },
    )
  );
}

/** Returns why the device's runs do not lie on the drive; undefined when they do. */
function whyUnfit({ sizeBytes, blockSizeBytes }: Device, found: DeviceIdentity): string | undefined {
  if (found.sizeBytes < sizeBytes)
    return `it has ${bytesText(found.sizeBytes)}, and the device ${bytesText(sizeBytes)}`;
  if (found.blockSizeBytes === blockSizeBytes) return undefined;
  return `it has blocks of ${found.blockSizeBytes} bytes, and the device of ${blockSizeBytes}: set blockSizeBytes in the agent's config`;
}

/** Returns why a disk of the device does not come along; undefined when all do. */
function whyDisksStay(tables: RegistryTables, former: Device, place: Device, az: string): string | undefined {
  for (const disk of disksIn(tables, former)) {
    const { diskId, az: ofDisk, parts } = disk;
    if (ofDisk !== az) return `disk ${diskId} is in az ${ofDisk}, and the host in ${az}`;
    // The bytes of another part would pass for those that were lost.
    if (former !== place && allDevices(disk).includes(place.deviceId))
      return `disk ${diskId} has lost bytes that were on device ${place.deviceId}, which was purged: delete the disk, or put the drive in another place`;
    const isMoving = parts.some(
      ({ copies }) => copies.length > 1 && copies.some(({ deviceId }) => deviceId === former.deviceId),
    );
    if (isMoving) return `disk ${diskId} is being moved: cancel the move first (CancelMove)`;
  }
  return undefined;
}

/** Returns the device in its place. Its contents stay as they are recorded, and what no disk has is erased. */
function adopted(tx: RegistryTransaction, { place, former, found, labelId }: Adoption, nowMs: number): Device {
  const { deviceId, hostId, pool, generation } = place;
  const { keptHealth: _, replacement: __, missing: ___, nothingThere: ____, foundLabel: _____, ...known } = former;
  const { formerLabelId: _1, removalRequestedAtMs: _2, keepData: _3, leavesAs: _4, grownToBytes: _5, ...rest } = known;
  const moved: Device = {
    ...rest,
    ...identityOf(found),
    deviceId,
    hostId,
    pool,
    generation,
    // DETACHED: the place holds no such device yet, and gets a new order.
    attachState: "DETACHED",
    sizeBytes: former.sizeBytes,
    runs: former.runs.map(({ eraseSessionNumber: _6, ...run }) => run),
    removalRequested: false,
    label: { labelId },
    labelState: "VALID",
    lastSessionNumber: lastValue(tx, "session_number"),
  };
  // All sessions so far are of the former place, or of what was in this one before.
  const ended = withSessionsEnded(tx, moved);
  // The drive may have been written to, or the one that it is a copy of, since it left its place.
  return distrusted(withReportedHealth(advance(tx, ended, "add", nowMs), WELL, nowMs));
}
