import { fileDifference, identifiedBy, isKnownSame, sizeChangeText } from "@diskmesh/domain";
import type { DeviceIdentity } from "../store/device-identity.js";

/**
 * Returns false when the identities are known and differ. An unknown identity (an unreadable file) or size (0) proves
 * no difference.
 */
export function isShownSame(known: DeviceIdentity, found: DeviceIdentity): boolean {
  if (identifiedBy(known) === undefined || identifiedBy(found) === undefined) return true;
  return known.sizeBytes === 0 || found.sizeBytes === 0 || isKnownSame(known, found);
}

export function identityOf(of: DeviceIdentity): DeviceIdentity {
  const { path, offsetBytes, sizeBytes, blockSizeBytes, serialNumber, fileIdentity } = of;
  return { path, offsetBytes, sizeBytes, blockSizeBytes, serialNumber, ...(fileIdentity && { fileIdentity }) };
}

const FIELD_NAMES = { offsetBytes: "its offset", sizeBytes: "its size", blockSizeBytes: "its block size" } as const;

/**
 * Returns the differences as text; empty when none is known. The path is not compared, because it may depend on the
 * order in which drives are found. A larger size with the same identity is growth. A device of size 0 could not be
 * opened by its agent, so nothing is known of its hardware.
 */
export function identityChange(known: DeviceIdentity, found: DeviceIdentity): string {
  if (known.sizeBytes === 0 || found.sizeBytes === 0) return "";
  const changes: string[] = [];
  const isGrown = found.sizeBytes > known.sizeBytes && isKnownSame(known, found);
  for (const field of ["offsetBytes", "sizeBytes", "blockSizeBytes"] as const) {
    if (field === "sizeBytes" && isGrown) continue;
    if (known[field] !== found[field])
      changes.push(`${FIELD_NAMES[field]} ${sizeChangeText(known[field], found[field])}`);
  }
  const otherFile = fileDifference(known, found);
  // The size says more to people than the number of a file.
  const isNumber = identifiedBy(known) !== "SERIAL";
  if (otherFile !== undefined && !(isNumber && known.sizeBytes !== found.sizeBytes)) changes.push(otherFile);
  return changes.join("; ");
}
