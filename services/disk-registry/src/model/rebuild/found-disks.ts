import type { DiskId, HostId, RecordedPart, RunRecord } from "@diskmesh/domain";
import type { Copy, Part } from "../store/disk-parts.js";
import type { Disk, Publication } from "../store/schema.js";
import { headBytes } from "../store/slices.js";
import type { AgentClaims, ServedDisk } from "./claims.js";
import { type FoundDevice, type FoundRun, isWithin } from "./found-devices.js";

/** A disk of which every part was found exactly once, and the runs that it has. */
export interface FoundDisk {
  readonly disk: Disk;
  readonly runs: readonly FoundRun[];
}

/** A disk that is not rebuilt, and why. */
export interface LeftDisk {
  readonly diskId: DiskId;
  readonly reason: string;
}

interface Served extends ServedDisk {
  readonly hostId: HostId;
}

/** A part of a disk, and the run that has its bytes. */
interface PlacedPart {
  readonly run: FoundRun;
  /** First byte of the part, counted from the run's. */
  readonly offsetBytes: number;
  readonly sizeBytes: number;
  /** Session of the run, when it is not the publication's. */
  readonly sessionNumber?: number | undefined;
}

/** Returns the disks of the fleet as records, and the agents that serve them, have them. */
export function findDisks(
  devices: readonly FoundDevice[],
  agents: readonly AgentClaims[],
  nowMs: number,
): { readonly found: readonly FoundDisk[]; readonly left: readonly LeftDisk[] } {
  const runsOf = new Map<DiskId, FoundRun[]>();
  for (const run of devices.flatMap(({ runs }) => runs)) {
    const { diskId } = run;
    if (diskId !== "" && !run.isErased) runsOf.set(diskId, [...(runsOf.get(diskId) ?? []), run]);
  }
  const asked = new Set(agents.map(({ registration }) => registration.hostId));
  const served = agents.flatMap(({ registration: { hostId }, served: disks }) =>
    disks.map((disk): Served => ({ ...disk, hostId })),
  );
  const heads = new Map(
    devices.map(({ reported, label }) => [reported.deviceId, headBytes(label.sliceBytes)] as const),
  );
  const found: FoundDisk[] = [];
  const left: LeftDisk[] = [];
  for (const [diskId, runs] of runsOf) {
    const exports = served.filter((each) => each.diskId === diskId);
    const made = foundDisk({ runs, nowMs, heads, exports, asked });
    if (typeof made === "string") left.push({ diskId, reason: made });
    else found.push(made);
  }
  for (const { diskId, hostId } of served)
    if (!runsOf.has(diskId))
      left.push({
        diskId,
        reason: `host ${hostId} serves it, and no record of it was found: its devices have no slices, or were not read`,
      });
  return { found, left };
}

interface Sought {
  /** Runs of the disk, of which no later erase was begun. */
  readonly runs: readonly FoundRun[];
  readonly exports: readonly Served[];
  /** Hosts whose agents have answered. */
  readonly asked: ReadonlySet<HostId>;
  /** Bytes before the parts of a run, by device. */
  readonly heads: ReadonlyMap<string, number>;
  readonly nowMs: number;
}

function foundDisk(sought: Sought): FoundDisk | string {
  const { runs, exports, heads, nowMs } = sought;
  const lastSessionNumber = Math.max(...runs.map((run) => run.lastSessionNumber));
  const taken = runs.find(({ takenBy }) => takenBy !== "");
  if (taken !== undefined) return `disk ${taken.takenBy} has a later session on bytes of ${nameOf(taken)}`;
  const newest = newestOf(runs);
  if (newest?.record === undefined) return "no record of it is whole";
  const holder = exports.find((each) => partsServed(each, runs) !== undefined);
  const other = exports.find(({ sessionNumber }) => sessionNumber >= lastSessionNumber);
  if (holder === undefined && other !== undefined)
    return `host ${other.hostId} serves it from bytes that devices do not give to it`;
  const parts = holder === undefined ? partsRecorded(runs, newest.record) : (partsServed(holder, runs) ?? []);
  if (typeof parts === "string") return parts;
  const [first, ...others] = parts;
  if (first === undefined) return "its records name no part";
  const { az } = first.run;
  const elsewhere = others.find(({ run }) => run.az !== az);
  if (elsewhere !== undefined) return `its parts are in azs ${az} and ${elsewhere.run.az}`;
  const sizeBytes = parts.reduce((sum, part) => sum + part.sizeBytes, 0);
  const { blockSizeBytes, pool, diskSizeBytes } = newest.record;
  if (holder === undefined && sizeBytes !== diskSizeBytes)
    return `its parts have ${sizeBytes} bytes, and the newest record says ${diskSizeBytes}`;
  const publication = holder === undefined ? heldElsewhere(sought, parts, lastSessionNumber) : publicationOf(holder);
  const disk: Disk = {
    diskId: newest.diskId as DiskId,
    requested: { sizeBytes, az, hostId: "", pool, spreadRacks: false },
    ...{ sizeBytes, blockSizeBytes, az, lastSessionNumber, labels: [], createdAtMs: nowMs },
    parts: parts.map((part) => partOf(part, heads.get(part.run.deviceId) ?? 0)),
    ...(publication && { publication }),
    ...(holder?.limits && { limits: holder.limits }),
    ...(holder?.exportKind && { exportKind: holder.exportKind }),
  };
  return { disk, runs: [...new Set(parts.map(({ run }) => run))] };
}

const nameOf = ({ deviceId, first, count }: FoundRun): string =>
  `device ${deviceId}, slices ${first} to ${first + count - 1}`;

function isNewer(one: FoundRun, other: FoundRun | undefined): boolean {
  if (other?.record === undefined) return one.record !== undefined;
  if (one.record === undefined) return false;
  if (one.sessionNumber !== other.sessionNumber) return one.sessionNumber > other.sessionNumber;
  return one.record.layout > other.record.layout;
}

function newestOf(runs: readonly FoundRun[]): FoundRun | undefined {
  return runs.reduce((best: FoundRun | undefined, run) => (isNewer(run, best) ? run : best), undefined);
}

/** Returns where the records of the highest session and layout have each part; a reason where one is missing or twice. */
function partsRecorded(runs: readonly FoundRun[], { partCount }: RunRecord): readonly PlacedPart[] | string {
  const parts: PlacedPart[] = [];
  for (let index = 0; index < partCount; index++) {
    const claims = runs.flatMap((run) => {
      const recorded = run.record?.parts.find((part) => part.index === index);
      return recorded === undefined ? [] : [{ run, recorded }];
    });
    const best = newestOf(claims.map(({ run }) => run));
    const chosen = claims.filter(({ run }) => best !== undefined && !isNewer(best, run));
    const [one, other] = chosen;
    if (one === undefined) return `part ${index + 1} of ${partCount} was not found`;
    if (other !== undefined)
      return `part ${index + 1} of ${partCount} was found on ${nameOf(one.run)}, and on ${nameOf(other.run)}`;
    parts.push(placed(one.run, one.recorded));
  }
  return parts;
}

const placed = (run: FoundRun, { offsetBytes, sizeBytes }: RecordedPart): PlacedPart => ({
  run,
  offsetBytes,
  sizeBytes,
});

/** Returns where a host that serves the disk has each part; undefined unless every run is its, in its session. */
function partsServed(
  { extents, sessionNumber }: ServedDisk,
  runs: readonly FoundRun[],
): readonly PlacedPart[] | undefined {
  const parts = extents.flatMap((extent): PlacedPart[] => {
    const { sessionNumber: own } = extent;
    const run = runs.find(({ deviceId, ...bytes }) => deviceId === extent.deviceId && isWithin(extent, bytes));
    if (run === undefined || run.lastSessionNumber !== (own ?? sessionNumber)) return [];
    const { sizeBytes } = extent;
    return [{ run, offsetBytes: extent.offsetBytes - run.offsetBytes, sizeBytes, sessionNumber: own }];
  });
  return parts.length === extents.length ? parts : undefined;
}

function publicationOf(served: Served): Publication {
  const { hostId, sessionNumber, exportPath, revision, readOnly, fixedSize } = served;
  return {
    ...{ hostId, state: "PUBLISHED", sessionNumber, exportPath, attempts: 0, lastError: "" },
    ...(readOnly && { readOnly }),
    ...(fixedSize && { fixedSize }),
    ...(revision > 0 && { revision, confirmedRevision: revision }),
  };
}

/** Returns the publication to a host that devices name, and that has not answered; undefined when they name none. */
function heldElsewhere(
  { asked }: Sought,
  parts: readonly PlacedPart[],
  sessionNumber: number,
): Publication | undefined {
  const hostId = parts.find(({ run }) => run.lastSessionNumber === sessionNumber)?.run.holderHostId ?? "";
  if (hostId === "" || asked.has(hostId)) return undefined;
  return { hostId, state: "PUBLISHED", sessionNumber, exportPath: "", attempts: 0, lastError: "" };
}

function partOf({ run, offsetBytes, sizeBytes, sessionNumber }: PlacedPart, headBytes: number): Part {
  const skipBytes = offsetBytes - headBytes;
  const copy: Copy = {
    ...{ deviceId: run.deviceId, first: run.first, state: "COUNTS" },
    ...(skipBytes > 0 && { skipBytes }),
    ...(sessionNumber !== undefined && { sessionNumber }),
  };
  return { sizeBytes, copies: [copy] };
}
