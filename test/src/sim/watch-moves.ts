import {
  type CopyDeviceRequest,
  type CopyDeviceResponse,
  type ExportDiskRequest,
  type ExportDiskResponse,
  type GetMirrorRequest,
  type GetMirrorResponse,
  MirrorState,
  OrderOutcome,
} from "@diskmesh/api/internal";
import { type Disk, partOffsetBytes, runAt } from "@diskmesh/disk-registry/simulation";
import type { World } from "./parts.js";

type Part = Disk["parts"][number];
type Copy = Part["copies"][number];

/**
 * Checks every change of where a disk's bytes are: one copy of a part counts, it has what was acknowledged, and a former
 * source is freed only when nobody uses it.
 */
export class MoveWatch {
  /** Number of parts that were moved by a copy between agents. */
  copied = 0;
  /** Number of parts that were moved while a host used them. */
  mirrored = 0;
  /** Number of orders to go on where another session was. */
  goneOn = 0;
  /** Copies that agents have confirmed as whole, and answers EQUAL. */
  readonly #whole = new Set<string>();
  /** Highest revision that a host has confirmed, by history, disk and session. */
  readonly #served = new Map<string, number>();
  /** Devices with the sessions that were given to them for a move. */
  readonly #ownSessions = new Set<string>();

  constructor(private readonly world: World) {}

  received(method: string, request: unknown): void {
    if (method === "CopyDevice") {
      const { deviceId, sessionNumber, copiedBytes } = request as CopyDeviceRequest;
      if (copiedBytes > 0) this.goneOn += 1;
      this.#ownSessions.add(`${deviceId} ${sessionNumber}`);
    }
    if (method !== "ExportDisk") return;
    for (const extent of (request as ExportDiskRequest).extents) {
      if (extent.target?.copiedBytes) this.goneOn += 1;
      for (const device of [extent, extent.target])
        if (device?.sessionNumber) this.#ownSessions.add(`${device.deviceId} ${device.sessionNumber}`);
    }
  }

  answered(method: string, request: unknown, response: unknown): void {
    const { epoch } = this.world.rewinds;
    if (method === "CopyDevice") {
      const { diskId, sessionNumber, ...target } = request as CopyDeviceRequest;
      const { outcome } = (response as CopyDeviceResponse).outcome ?? {};
      if (outcome === OrderOutcome.DONE || outcome === OrderOutcome.ALREADY)
        this.#whole.add(`${epoch} ${diskId} copy ${sessionNumber} ${placeOf(target)}`);
    }
    if (method === "GetMirror") {
      const { diskId, sessionNumber, revision, targetDeviceId, targetOffsetBytes } = request as GetMirrorRequest;
      const target = { deviceId: targetDeviceId, offsetBytes: targetOffsetBytes };
      if ((response as GetMirrorResponse).state === MirrorState.EQUAL)
        this.#whole.add(`${epoch} ${diskId} mirror ${sessionNumber} ${revision} ${placeOf(target)}`);
    }
    if (method === "ExportDisk" && (response as ExportDiskResponse).exportPath !== "") {
      const { diskId, sessionNumber, revision } = request as ExportDiskRequest;
      const key = `${epoch} ${diskId} ${sessionNumber}`;
      this.#served.set(key, Math.max(revision, this.#served.get(key) ?? 0));
    }
  }

  /** Returns whether the device granted the session to a move: the writes of other sessions are repeated in it. */
  isOwnSession(deviceId: string, session: number): boolean {
    return this.#ownSessions.has(`${deviceId} ${session}`);
  }

  /** Called after a commit that changed the disk. */
  committed(before: Disk | undefined, after: Disk | undefined): void {
    if (after === undefined) return;
    const { diskId } = after;
    this.#checkTargets(after);
    this.#checkRuns(after);
    for (const [index, part] of after.parts.entries()) {
      const counting = part.copies.filter(({ state }) => state === "COUNTS");
      if (counting.length !== 1)
        this.world.violation(`part ${index} of disk ${diskId} has ${counting.length} copies that count`);
      const was = before?.createdAtMs === after.createdAtMs ? formerPart(part, before, after) : undefined;
      if (before === undefined || was === undefined) continue;
      const [from, to] = [countingIn(was), countingIn(part)];
      const isAdopted = this.world.adoptions.isAdopted(to?.deviceId ?? "", from?.deviceId ?? "");
      if (nameOf(from) !== nameOf(to) && !isAdopted) this.#movedTo(to, was, before, after);
      this.#checkLeaving(was, part, before, after);
    }
  }

  /** Requires one target at most of each part, and one at most that has a session. Parts of a part that was split have several. */
  #checkTargets({ diskId, parts }: Disk): void {
    const ofParts = parts.map(({ copies }) => copies.filter(({ state }) => state === "COPYING"));
    const begun = ofParts.flat().filter(({ sessionNumber }) => sessionNumber !== undefined);
    for (const targets of [...ofParts, begun])
      if (targets.length > 1)
        this.world.violation(`disk ${diskId} has the targets ${targets.map(({ deviceId }) => deviceId).join(" and ")}`);
  }

  /** Requires that no two copies of the disk have the same bytes of a run, and that a target has its run alone. */
  #checkRuns({ diskId, parts }: Disk): void {
    const used = new Map<string, { readonly start: number; readonly end: number }[]>();
    for (const { copies, sizeBytes = Number.POSITIVE_INFINITY } of parts)
      for (const copy of copies) {
        const { skipBytes = 0, state } = copy;
        const bytes = state === "COPYING" ? [0, Number.POSITIVE_INFINITY] : [skipBytes, skipBytes + sizeBytes];
        const [start = 0, end = 0] = bytes;
        const others = used.get(nameOf(copy)) ?? [];
        if (others.some((other) => start < other.end && other.start < end))
          this.world.violation(`disk ${diskId} has ${nameOf(copy)} twice`);
        used.set(nameOf(copy), [...others, { start, end }]);
      }
  }

  #movedTo(target: Copy | undefined, was: Part, before: Disk, after: Disk): void {
    const { world } = this;
    const { publication, diskId } = before;
    const name = nameOf(target);
    if (publication === undefined) this.copied += 1;
    else this.mirrored += 1;
    world.trace(`disk ${diskId} has moved to ${name}`);
    if (world.rewinds.epoch > 0) return;
    const session = was.copies.find((copy) => nameOf(copy) === name)?.sessionNumber;
    const device = world.store.device(target?.deviceId ?? "");
    const run = device && runAt(device, diskId, target?.first ?? 0);
    if (device === undefined || run === undefined) return;
    const way =
      publication === undefined
        ? `copy ${session}`
        : `mirror ${publication.sessionNumber} ${publication.revision ?? 0}`;
    const place = placeOf({ deviceId: device.deviceId, offsetBytes: partOffsetBytes(device, run) });
    if (!this.#whole.has(`0 ${diskId} ${way} ${place}`))
      world.violation(`disk ${diskId} moved to ${name}, and nobody said that it has all bytes: ${way}`);
    world.bytes.requireKept(after);
    // Nobody writes to a disk that is not in use, not even what was never acknowledged.
    if (publication === undefined) world.bytes.requireAlike(before, after);
  }

  /** Requires that a device that had the part's bytes leaves the disk only when no host uses it in this session. */
  #checkLeaving(was: Part, is: Part, before: Disk, after: Disk): void {
    const { publication } = before;
    if (publication?.state !== "PUBLISHED" || after.publication?.state !== "PUBLISHED") return;
    if (publication.sessionNumber !== after.publication.sessionNumber || this.world.rewinds.epoch > 0) return;
    for (const left of was.copies) {
      const { state } = left;
      if (state === "COPYING" || is.copies.some((copy) => nameOf(copy) === nameOf(left))) continue;
      const served = this.#served.get(`0 ${before.diskId} ${publication.sessionNumber}`) ?? 0;
      if (state === "COUNTS" || served < (publication.revision ?? 0))
        this.world.violation(`${nameOf(left)} was freed, and the host of disk ${before.diskId} may still use it`);
    }
  }
}

/** Returns the part as it was; undefined for an added part. */
function formerPart(part: Part, before: Disk, after: Disk): Part | undefined {
  if (before.parts.length === after.parts.length) return before.parts[after.parts.indexOf(part)];
  return before.parts.find((each) => nameOf(countingIn(each)) === nameOf(countingIn(part)));
}

function countingIn({ copies }: Part): Copy | undefined {
  return copies.find(({ state }) => state === "COUNTS");
}

function nameOf(copy: Copy | undefined): string {
  return copy === undefined ? "no device" : `${copy.deviceId} at slice ${copy.first ?? 0}`;
}

function placeOf({ deviceId, offsetBytes }: { readonly deviceId: string; readonly offsetBytes: number }): string {
  return `${deviceId} ${offsetBytes}`;
}
