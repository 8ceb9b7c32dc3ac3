import type { DeviceId, HostId } from "@diskmesh/domain";
import type { CopiedDisk, CopiedPart, CopiedPublication, Copy, CopyState } from "../model/copies/copied-disk.js";
import { deviceId, diskId, hostId } from "./fleet-fixture.js";

/** Disks with copies from text, for tests: `5: a COUNTS, b DROPPED` is a part of layout 5 on the devices a and b. */
export function aCopiedDisk(parts: readonly string[], fields: Partial<CopiedDisk> = {}): CopiedDisk {
  return { diskId: diskId("x"), copiesWished: 2, lastSession: 9, parts: parts.map(parsePart), ...fields };
}

function parsePart(text: string): CopiedPart {
  const [layout = "", copies = ""] = text.split(": ");
  return {
    layout: Number(layout),
    copies: copies.split(", ").map((copy): Copy => {
      const [id = "", state = "", word] = copy.split(" ");
      return {
        deviceId: deviceId(id),
        state: state as CopyState,
        ...((state === "DROPPED" || state === "RESYNC") && { sinceMs: 1 }),
        ...(word === "open" && { isOpen: true as const }),
      };
    }),
  };
}

/** Returns the parts as text. */
export function partsOf({ parts }: CopiedDisk): readonly string[] {
  return parts.map(
    ({ layout, copies }) =>
      `${layout}: ${copies.map((copy) => `${copy.deviceId} ${copy.state}${copy.isOpen ? " open" : ""}`).join(", ")}`,
  );
}

/** Returns a publication to h1 in session 9 that its holder follows. */
export function aPublication(fields: Partial<CopiedPublication> = {}): CopiedPublication {
  return { hostId: hostId("h1"), state: "PUBLISHED", session: 9, revision: 3, confirmedRevision: 3, ...fields };
}

/** Each device is on a host of its own, which has its name; a1 and a2 are both on host a. */
export const hostOf = (id: DeviceId): HostId => hostId(id.slice(0, 1));
