import type { Cure } from "@diskmesh/domain";
import { disksOnItText, disksText } from "../devices/action-result.js";
import { isKnownInPlace, isOtherHardware, whyForeign, whyNotGone } from "../devices/foreign-labels.js";
import {
  isLabelLost,
  isShorter,
  type Replaced,
  refusedFor,
  strangeLabelText,
  whyReplaced,
} from "../devices/replaced.js";
import { otherPlacesOf, ownerOf } from "../identity/labels.js";
import { holdsAnyDisk } from "../store/runs.js";
import type { Device, RegistryTables } from "../store/schema.js";
import type { Cause, Subject } from "./cause.js";

type Found = Omit<Cause, "subject"> | undefined;

const subjectOf = ({ deviceId }: Device): Subject => ({ kind: "DEVICE", name: deviceId });

const adoptAt = ({ hostId, deviceId }: Device): string => `diskmesh adopt-device ${hostId} ${deviceId}`;

const eraseAt = (place: Device): string =>
  holdsAnyDisk(place) ? "" : `diskmesh add-device ${place.hostId} ${place.deviceId} --erase-foreign`;

const confirmAt = ({ hostId, deviceId }: Device): string => `diskmesh confirm-device ${hostId} ${deviceId}`;

const LOST_DATA: Cure = [
  "if the drive itself was overwritten, and the data is lost: restore it from a backup to another disk, and delete the disk",
  "",
];

/** Explains a label that was overwritten. The message has the agent's words of what it found there. */
function lostLabelCause(device: Device): Found {
  const { deviceId, hostId, healthMessage, replacement } = device;
  const place = JSON.stringify(replacement?.path ?? device.path);
  const isOn =
    replacement === undefined ? "its disks stay in use, but are not published again" : "nothing on it is in use";
  const cures: readonly Cure[] = holdsAnyDisk(device)
    ? [
        [
          `find out what wrote to ${place} on host ${hostId}, and check there whether the data of ${disksText(device)} is whole; if it is, confirm the device: its label is then written again`,
          confirmAt(device),
        ],
        LOST_DATA,
      ]
    : [
        [
          "find out what wrote to the drive; then confirm the device: it is erased, and its label written again",
          confirmAt(device),
        ],
      ];
  return {
    reason: "LABEL_LOST",
    message: `the label of device ${deviceId} was overwritten: ${healthMessage}; ${isOn}`,
    sinceMs: device.unwellSinceMs,
    cures,
  };
}

/** Explains a label that is gone, on two drives, or on a drive in another place than its device's. */
export function labelCause(tables: RegistryTables, device: Device): Found {
  if (isLabelLost(device)) return lostLabelCause(device);
  const [place] = otherPlacesOf(tables, device);
  if (place !== undefined) return inAnotherPlace(tables, device, place);
  const { deviceId, foundLabel, attachState, replacement } = device;
  if (foundLabel === undefined || replacement !== undefined || whyForeign(tables, device, false) === undefined)
    return undefined;
  const owner = ownerOf(tables, foundLabel);
  if (owner !== undefined && owner.deviceId !== deviceId) return inAnotherPlace(tables, owner, device);
  return {
    reason: "FOREIGN_LABEL",
    message: `the drive of device ${deviceId} carries ${strangeLabelText(foundLabel)}, so it may be in use elsewhere`,
    cures: [["attach the drive where it belongs, or have it erased", eraseAt(device)]],
    isRoutine: attachState === "UNKNOWN",
  };
}

function inAnotherPlace(tables: RegistryTables, device: Device, place: Device): Found {
  const where = `the drive at device ${place.deviceId} on host ${place.hostId} has the label of device ${device.deviceId} of host ${device.hostId}`;
  const becauseOf = [device, place].map(subjectOf);
  if (whyNotGone(tables, device) === undefined)
    return {
      reason: "FOUND_ELSEWHERE",
      message: `${where}, which is not in its own place`,
      cures: [holdsAnyDisk(place) ? putBack(place) : goOn(device, place)],
      becauseOf,
    };
  if (!isKnownInPlace(tables, device))
    return {
      reason: "FOUND_ELSEWHERE",
      message: `${where}, whose agent has not reported its own drive`,
      cures: [["wait for that agent's report, or, if its host is gone for good, declare it DEAD", ""]],
      becauseOf: [...becauseOf, { kind: "HOST", name: device.hostId }],
    };
  return {
    reason: "LABEL_TWICE",
    message: `${where}, whose own drive is also present; one of the two is a copy`,
    cures: [
      isOtherHardware(device, place)
        ? ["pull the copy, or erase it", eraseAt(place)]
        : [
            "if one drive is reachable at both paths, remove one path; else overwrite the copy's first MiB with zeros",
            "",
          ],
    ],
    becauseOf,
  };
}

function goOn(device: Device, place: Device): Cure {
  const disks = holdsAnyDisk(device) ? ` with ${disksText(device)}` : "";
  return [`adopt the drive there as device ${device.deviceId}${disks}, or put it back`, adoptAt(place)];
}

/** AdoptDevice gives no place with disks to another drive. */
function putBack(place: Device): Cure {
  const what = "put each drive back in its place, or correct the paths in the agent's config";
  return [`${what}: device ${place.deviceId} has ${disksText(place)}`, ""];
}

/** Explains other hardware in the place of a device. `add` is the command that accepts it as new. */
export function replacedCause(tables: RegistryTables, device: Replaced, add: string): Found {
  const { deviceId, replacement } = device;
  const serialNumber = `serial number ${replacement.serialNumber || "unknown"}`;
  const refused = refusedFor(device);
  if (refused === "LABEL_LOST") return undefined;
  if (refused === "UNIDENTIFIED" || refused === "OTHER_HARDWARE")
    return {
      reason: "REPLACED",
      message: `${refused === "UNIDENTIFIED" ? "unidentified" : "other"} hardware is in the place of device ${deviceId}: ${replacement.path}, ${serialNumber}`,
      cures: [
        ...(refused === "UNIDENTIFIED"
          ? [["check that the drive is the same, then confirm it", confirmAt(device)] as Cure]
          : []),
        acceptOrPutBack(device, add),
      ],
    };
  const isOwn = refused === "LABEL_ON_OTHER_HARDWARE" || refused === "LABEL_TWICE";
  const adopt: Cure = ["check that the drive has the device's latest data, then adopt it", adoptAt(device)];
  const putOwnBack: Cure = ["put the former hardware back, with its former size", ""];
  const eraseForeign = add.includes("add-device") ? `${add} --erase-foreign` : add;
  return {
    reason: refused === "LABEL_TWICE" ? "LABEL_TWICE" : "REPLACED",
    message: `device ${deviceId}: ${whyReplaced(device)}; the drive has ${serialNumber}`,
    cures: isOwn
      ? [putOwnBack, ...(isShorter(device) ? [] : [adopt])]
      : [
          isOfOtherInUse(tables, device) ? CORRECT_PATH : acceptOrPutBack(device, eraseForeign),
          ...(holdsAnyDisk(device) ? [LOST_DATA] : []),
        ],
  };
}

const CORRECT_PATH: Cure = ["correct the path in the agent's config, or put the device's own drive back", ""];

/** Returns whether the drive is, or may be, that of another device which somebody has in use: nobody may erase it. */
function isOfOtherInUse(tables: RegistryTables, { deviceId, foundLabel }: Device): boolean {
  const owner = foundLabel && ownerOf(tables, foundLabel);
  if (owner === undefined || owner.deviceId === deviceId) return false;
  return holdsAnyDisk(owner) || whyNotGone(tables, owner) !== undefined;
}

function acceptOrPutBack(device: Device, add: string): Cure {
  // AddDevice is refused while a disk is on the device.
  if (!holdsAnyDisk(device)) return ["put the former hardware back, or accept the new hardware", add];
  return [`put the former hardware back: ${disksOnItText(device)}, and the new hardware is refused`, ""];
}
