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
import type { Disk } from "@diskmesh/disk-registry/simulation";
import type { World } from "./parts.js";

type Part = Disk["parts"][number];

/**
 * Checks every change of where a disk's bytes are: one copy of a part counts, it has what was acknowledged, and a former
 * source is freed only when nobody uses it.
 */
export class MoveWatch {
  /** Number of parts that were moved by a copy between agents. */
  copied = 0;
  /** Number of parts that were moved while a host used them. */
  mirrored = 0;
  /** Copies that agents have confirmed as whole, and answers EQUAL. */
  readonly #whole = new Set<string>();
  /** Highest revision that a host has confirmed, by history, disk and session. */
  readonly #served = new Map<string, number>();
  /** Devices with the sessions that were given to them for a move. */
  readonly #ownSessions = new Set<string>();

  constructor(private readonly world: World) {}

  received(method: string, request: unknown): void {
    if (method === "CopyDevice") {
      const { deviceId, sessionNumber } = request as CopyDeviceRequest;
      this.#ownSessions.add(`${deviceId} ${sessionNumber}`);
    }
    if (method !== "ExportDisk") return;
    for (const extent of (request as ExportDiskRequest).extents)
      for (const device of [extent, extent.target])
        if (device?.sessionNumber) this.#ownSessions.add(`${device.deviceId} ${device.sessionNumber}`);
  }

  answered(method: string, request: unknown, response: unknown): void {
    const { epoch } = this.world.rewinds;
    if (method === "CopyDevice") {
      const { diskId, sessionNumber, deviceId } = request as CopyDeviceRequest;
      const { outcome } = (response as CopyDeviceResponse).outcome ?? {};
      if (outcome === OrderOutcome.DONE || outcome === OrderOutcome.ALREADY)
        this.#whole.add(`${epoch} ${diskId} copy ${sessionNumber} ${deviceId}`);
    }
    if (method === "GetMirror") {
      const { diskId, sessionNumber, revision, targetDeviceId } = request as GetMirrorRequest;
      if ((response as GetMirrorResponse).state === MirrorState.EQUAL)
        this.#whole.add(`${epoch} ${diskId} mirror ${sessionNumber} ${revision} ${targetDeviceId}`);
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
    const copying = after.parts.flatMap(({ copies }) => copies.filter(({ state }) => state === "COPYING"));
    if (copying.length > 1)
      this.world.violation(`disk ${diskId} has the targets ${copying.map(({ deviceId }) => deviceId).join(" and ")}`);
    const named = after.parts.flatMap(({ copies }) => copies.map(({ deviceId }) => deviceId));
    const twice = named.find((deviceId, at) => named.indexOf(deviceId) !== at);
    if (twice !== undefined) this.world.violation(`disk ${diskId} has ${twice} twice`);
    for (const [index, part] of after.parts.entries()) {
      const counting = part.copies.filter(({ state }) => state === "COUNTS");
      if (counting.length !== 1)
        this.world.violation(`part ${index} of disk ${diskId} has ${counting.length} copies that count`);
      const was = before?.createdAtMs === after.createdAtMs ? before.parts[index] : undefined;
      if (before === undefined || was === undefined) continue;
      if (countingIn(was) !== countingIn(part)) this.#movedTo(countingIn(part), before, after);
      this.#checkLeaving(was, part, before, after);
    }
  }

  #movedTo(deviceId: string, { publication, parts, diskId }: Disk, after: Disk): void {
    const { world } = this;
    if (publication === undefined) this.copied += 1;
    else this.mirrored += 1;
    world.trace(`disk ${diskId} has moved to ${deviceId}`);
    if (world.rewinds.epoch > 0) return;
    const session = parts.flatMap(({ copies }) => copies).find((copy) => copy.deviceId === deviceId)?.sessionNumber;
    const way =
      publication === undefined
        ? `copy ${session}`
        : `mirror ${publication.sessionNumber} ${publication.revision ?? 0}`;
    if (!this.#whole.has(`0 ${diskId} ${way} ${deviceId}`))
      world.violation(`disk ${diskId} moved to ${deviceId}, and nobody said that it has all bytes: ${way}`);
    world.bytes.requireKept(after);
  }

  /** Requires that a device that had the part's bytes leaves the disk only when no host uses it in this session. */
  #checkLeaving(was: Part, is: Part, before: Disk, after: Disk): void {
    const { publication } = before;
    if (publication?.state !== "PUBLISHED" || after.publication?.state !== "PUBLISHED") return;
    if (publication.sessionNumber !== after.publication.sessionNumber || this.world.rewinds.epoch > 0) return;
    for (const { deviceId, state } of was.copies) {
      if (state === "COPYING" || is.copies.some((copy) => copy.deviceId === deviceId)) continue;
      const served = this.#served.get(`0 ${before.diskId} ${publication.sessionNumber}`) ?? 0;
      if (state === "COUNTS" || served < (publication.revision ?? 0))
        this.world.violation(`${deviceId} was freed, and the host of disk ${before.diskId} may still use it`);
    }
  }
}

function countingIn({ copies }: Part): string {
  return copies.find(({ state }) => state === "COUNTS")?.deviceId ?? "";
}
