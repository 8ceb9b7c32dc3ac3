import {
  type ExplainRequest,
  type ExplainResponse,
  SubjectKind,
  type Subject as SubjectMessage,
} from "@diskmesh/api/common";
import {
  countText,
  type HostId,
  ioLimitsText,
  NotFoundError,
  NotImplementedError,
  otherNames,
  parseDeviceId,
  parseDiskId,
  parseHostId,
  parseOptionalName,
} from "@diskmesh/domain";
import { explanation, MAX_CAUSES } from "@diskmesh/tablet-admin";
import type { Context } from "../calls/context.js";
import { disksText } from "../model/devices/action-result.js";
import { noDevice, noHost } from "../model/devices/device-selection.js";
import type { Known, Subject } from "../model/explain/cause.js";
import { causesOf, troubleOf } from "../model/explain/explain.js";
import { disksServedBy } from "../model/hosts/removal-step.js";
import { disksOn, holdsAnyDisk } from "../model/store/runs.js";
import type { Disk, Host, RegistryTables } from "../model/store/schema.js";

export async function explain(context: Context, request: ExplainRequest): Promise<ExplainResponse> {
  const subject = parseSubject(request.subject);
  const { known, tablet } = context;
  return tablet.read((tables) => {
    const answer = explanation(summaryOf(tables, subject, known), subject, (each) => causesOf(tables, each, known));
    return subject.kind === "HOST" ? withThingsOfHost(tables, subject.name, known, answer) : answer;
  });
}

/** Adds the troubles of the host's devices, and of the disks on them and at the host, that the answer does not have. */
function withThingsOfHost(
  tables: RegistryTables,
  hostId: HostId,
  known: Known,
  { summary, causes }: ExplainResponse,
): ExplainResponse {
  const explained = new Set(causes.map(({ subject }) => subject?.name));
  const devices = [...tables.devices.by("byHost", hostId)];
  const diskIds = new Set([...disksServedBy(tables, hostId), ...disksOn(devices)]);
  const things: Subject[] = [
    ...devices.map(({ deviceId }): Subject => ({ kind: "DEVICE", name: deviceId })),
    ...[...diskIds].map((diskId): Subject => ({ kind: "DISK", name: diskId })),
  ];
  const others = things.filter(({ name }) => !explained.has(name));
  const { causes: more } = explanation("", others, (each) => {
    const trouble = troubleOf(tables, each, known);
    return trouble === undefined ? [] : [{ ...trouble, becauseOf: [] }];
  });
  const told = new Set(causes.map(({ message }) => message));
  const unsaid = more.filter(({ message }) => !told.has(message));
  return { summary, causes: [...causes, ...unsaid].slice(0, MAX_CAUSES) };
}

function parseSubject(subject: SubjectMessage | undefined): Subject {
  const { kind = SubjectKind.UNSPECIFIED, name = "" } = subject ?? {};
  switch (kind) {
    case SubjectKind.HOST:
      return { kind: "HOST", name: parseHostId(name) };
    case SubjectKind.DEVICE:
      return { kind: "DEVICE", name: parseDeviceId(name) };
    case SubjectKind.DISK:
      return { kind: "DISK", name: parseDiskId(name) };
    case SubjectKind.POOL:
      return { kind: "POOL", name: parseOptionalName("pool", name) ?? "default" };
    default:
      throw new NotImplementedError("a disk-registry explains hosts, devices, disks and pools");
  }
}

function removalText(tables: RegistryTables, { hostId, removalRequested }: Host, known: Known): string {
  if (!removalRequested) return "";
  const causes = causesOf(tables, { kind: "HOST", name: hostId }, known);
  return causes.some(({ reason }) => reason === "REMOVAL_WAITS") ? ", to be removed" : ", out of operation";
}

/** Describes where the disk is published, what carries its bytes there, the limits in force there, and what waits for them. */
function useOfDisk({ diskId, publication, limits }: Disk, known: Known): string {
  const limited = limits === undefined ? "" : `, limited to ${ioLimitsText(limits)}`;
  if (publication === undefined) return `not published${limited}`;
  const { state, hostId } = publication;
  const { throttled = 0 } = known.openIoOf(diskId, hostId) ?? {};
  const waits = throttled === 0 ? "" : `, for which ${countText(throttled, "request waits", "requests wait")}`;
  const engine = known.engineOf(diskId, hostId);
  const because = engine === undefined || engine.reason === "" ? "" : ` (${engine.reason})`;
  const carried = engine === undefined ? "" : `, carried by engine ${engine.name}${because}`;
  return `${state} to host ${hostId}${limited}${waits}${carried}`;
}

function summaryOf(tables: RegistryTables, { kind, name }: Subject, known: Known): string {
  if (kind === "HOST") {
    const host = tables.hosts.get(name);
    if (host !== undefined) return `host ${name} is ${host.state}${removalText(tables, host, known)}`;
    if (known.refusalOf(name) !== undefined || known.refusedRegistrationOf(name) !== undefined)
      return `host ${name} has never registered with this registry`;
  } else if (kind === "DEVICE") {
    const device = tables.devices.get(name);
    if (device !== undefined) {
      const use = holdsAnyDisk(device) ? `of ${disksText(device)}` : "free";
      return `device ${name} is ${device.attachState}, ${device.health}, ${use}`;
    }
  } else if (kind === "POOL") {
    if ([...tables.devices.entries()].some(({ pool }) => pool === name)) return `pool ${name}`;
  } else if (kind === "DISK") {
    const disk = tables.disks.get(name);
    if (disk === undefined && tables.devices.count("unknownByDisk", name) > 0)
      return `disk ${name} is not in this registry, and agents remember it`;
    if (disk !== undefined) {
      if (disk.deleted !== undefined) return `disk ${name} is deleted`;
      return `disk ${name} is ${useOfDisk(disk, known)}`;
    }
  }
  if (kind === "HOST") throw noHost(tables, name);
  if (kind === "DEVICE") throw noDevice(tables, name);
  const pools = kind === "POOL" ? [...new Set([...tables.devices.entries()].map(({ pool }) => pool))].sort() : [];
  const others = kind === "POOL" ? `; ${otherNames(name, pools)}` : "";
  const what = kind.toLowerCase();
  throw new NotFoundError(`there is no ${what} ${name}${others}`, { about: { [`${what}_id`]: name } });
}
