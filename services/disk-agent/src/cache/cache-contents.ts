import {
  type HostId,
  type IoLimits,
  parseAcceptedIoLimits,
  parseDeviceId,
  parseDiskId,
  parseHostId,
} from "@diskmesh/domain";
import * as z from "zod";
import type {
  AgentMemory,
  DeviceMemory,
  ExportDevice,
  ExportExtent,
  ExportMemory,
  ExportSpec,
  ExportTarget,
  RememberedIdentity,
  RememberedOrder,
  RememberedSession,
} from "../model/memory.js";
import { type Run, WHOLE_DEVICE } from "../model/runs.js";

const FORMAT = "diskmesh-agent-cache-3";
/** Format of 0.1.0, in which a device has one session, of all its bytes. */
const FORMER_FORMAT = "diskmesh-agent-cache-2";

/** A schema for each field, so that the compiler demands a line here for each field that is remembered. */
type Fields<Remembered> = { readonly [Name in keyof Remembered]-?: z.ZodType<Remembered[Name]> };

const text = z.string();
const count = z.int().min(0);

const run: Fields<Run> = { offsetBytes: count, sizeBytes: count };

const identity = z.object<Fields<RememberedIdentity>>({
  ...run,
  blockSizeBytes: count,
  serialNumber: text,
  fileIdentity: text,
});

const order = z.object<Fields<RememberedOrder>>({
  tabletGeneration: count,
  deviceGeneration: count,
  kind: z.enum(["attach", "detach"]),
});

const formerSession = z.object<Fields<Omit<RememberedSession, keyof Run>>>({
  number: count,
  purpose: z.enum(["disk", "erase", "label"]),
  diskId: text,
  holderHostId: text,
  ended: z.boolean(),
  sessionKey: text.optional(),
});

const device = z
  .object<Fields<DeviceMemory & { readonly session?: z.output<typeof formerSession> }>>({
    order: order.optional(),
    identity: identity.optional(),
    formerIdentity: identity.optional(),
    labelId: text.optional(),
    sessions: z.array(formerSession.extend(run)).optional(),
    floor: count.optional(),
    hardwareError: text.optional(),
    hardwareErrorAtMs: count.optional(),
    session: formerSession.optional(),
  })
  .transform(
    ({ session, ...rest }): DeviceMemory =>
      session === undefined ? rest : { ...rest, sessions: [{ ...session, ...WHOLE_DEVICE }] },
  );

const exportDevice: Fields<ExportDevice> = {
  deviceId: text.transform((id) => parseDeviceId(id)),
  hostId: text.transform((id) => parseHostId(id)),
  sizeBytes: count,
  offsetBytes: count.optional(),
  skipBytes: count.optional(),
  sessionNumber: count.optional(),
  blockAddress: text,
  sessionKey: text,
};

const target = z.object<Fields<Omit<ExportTarget, "copiedBytes">>>({ ...exportDevice, bytesPerSecond: count });

const spec = z.object<Fields<ExportSpec>>({
  diskId: text.transform((id) => parseDiskId(id)),
  sessionNumber: count,
  blockSizeBytes: count,
  extents: z.array(z.object<Fields<ExportExtent>>({ ...exportDevice, target: target.optional() })),
  readOnly: z.literal(true).optional(),
  limits: z
    .custom<IoLimits>()
    .transform((limits) => parseAcceptedIoLimits(limits))
    .optional(),
  exportKind: z.enum(["DEVICE", "NBD"]).optional(),
  revision: count.optional(),
});

const served = z.object<Fields<ExportMemory>>({ sessionNumber: count, spec: spec.optional() });

const memory = z.object<Fields<AgentMemory>>({
  hostId: text.transform((id) => parseHostId(id)),
  tabletId: text,
  incarnation: text,
  formerIncarnations: z.array(text),
  tabletGeneration: count,
  devices: z
    .record(text, device)
    .transform((devices) => new Map(Object.entries(devices).map(([id, each]) => [parseDeviceId(id), each]))),
  exports: z
    .record(text, served)
    .transform((exports) => new Map(Object.entries(exports).map(([id, each]) => [parseDiskId(id), each]))),
  exportFloor: count,
  blockPort: count.optional(),
});

/** Encodes the memory as text, which the caller seals with a checksum. */
export function encodeCache({ devices, exports, ...rest }: AgentMemory): string {
  const maps = { devices: Object.fromEntries(devices), exports: Object.fromEntries(exports) };
  return `${JSON.stringify({ format: FORMAT, ...rest, ...maps, complete: true })}\n`;
}

/**
 * Decodes the text of a cache file. Throws an Error with the reason when the text must not be used: incomplete, of
 * another format, or of another host.
 */
export function decodeCache(contents: string, hostId: HostId): AgentMemory {
  const root = parse(z.looseObject({}), JSON.parse(contents));
  if (root.format !== FORMAT && root.format !== FORMER_FORMAT)
    throw new Error(`the cache's format is ${JSON.stringify(root.format)}, not ${FORMAT}`);
  // `complete` is the last key. A truncated text does not parse as JSON; the key detects texts that were shortened by
  // hand.
  if (root.complete !== true) throw new Error("the cache is not complete");
  if (root.hostId !== hostId)
    throw new Error(`the cache belongs to host ${JSON.stringify(root.hostId)}, not ${hostId}`);
  return parse(memory, root);
}

function parse<Parsed>(schema: z.ZodType<Parsed>, value: unknown): Parsed {
  const { data, error } = schema.safeParse(value);
  if (error === undefined) return data;
  const [issue] = error.issues;
  const place = ["cache", ...(issue?.path ?? [])].join(".");
  throw new Error(`${place}: ${issue?.message}`);
}
