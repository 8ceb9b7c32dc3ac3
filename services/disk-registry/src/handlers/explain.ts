import {
  type ExplainRequest,
  type ExplainResponse,
  SubjectKind,
  type Subject as SubjectMessage,
} from "@diskmesh/api/common";
import {
  NotFoundError,
  NotImplementedError,
  parseDeviceId,
  parseDiskId,
  parseHostId,
  parseOptionalName,
} from "@diskmesh/domain";
import { explanation } from "@diskmesh/tablet-admin";
import type { Context } from "../calls/context.js";
import type { Known, Subject } from "../model/explain/cause.js";
import { causesOf } from "../model/explain/explain.js";
import type { RegistryTables } from "../model/store/schema.js";

export async function explain(context: Context, request: ExplainRequest): Promise<ExplainResponse> {
  const subject = parseSubject(request.subject);
  const { known, tablet } = context;
  return tablet.read((tables) =>
    explanation(summaryOf(tables, subject, known), subject, (each) => causesOf(tables, each, known)),
  );
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

function summaryOf(tables: RegistryTables, { kind, name }: Subject, known: Known): string {
  if (kind === "HOST") {
    const host = tables.hosts.get(name);
    if (host !== undefined) return `host ${name} is ${host.state}${host.removalRequested ? ", to be removed" : ""}`;
    if (known.refusalOf(name) !== undefined || known.refusedRegistrationOf(name) !== undefined)
      return `host ${name} has never registered with this registry`;
  } else if (kind === "DEVICE") {
    const device = tables.devices.get(name);
    if (device !== undefined) {
      const use = device.diskId === "" ? "free" : `of disk ${device.diskId}`;
      return `device ${name} is ${device.attachState}, ${device.health}, ${use}`;
    }
  } else if (kind === "POOL") {
    if ([...tables.devices.entries()].some(({ pool }) => pool === name)) return `pool ${name}`;
  } else if (kind === "DISK") {
    const disk = tables.disks.get(name);
    if (disk !== undefined) {
      const { publication } = disk;
      const use = publication === undefined ? "not published" : `${publication.state} to host ${publication.hostId}`;
      return `disk ${name} is ${use}`;
    }
  }
  const what = kind.toLowerCase();
  throw new NotFoundError(`there is no ${what} ${name}`, { about: { [`${what}_id`]: name } });
}
