import type { IoLimits } from "@diskmesh/domain";
import { checkOf, shapeOf, type Tablet } from "@diskmesh/tablet";
import * as z from "zod";
import type { Counter, Gap } from "../model/store/counter.js";
import type { Deletion } from "../model/store/deletion.js";
import type { FoundLabel, Replacement } from "../model/store/device-label.js";
import type { Copy, CopyMark, Move, Part } from "../model/store/disk-parts.js";
import type { HostCertificate, JoinedHost, JoinToken } from "../model/store/join-token.js";
import type { OtherFleet } from "../model/store/other-fleet.js";
import type { RegistryEvent } from "../model/store/registry-event.js";
import { type Run, type UnknownSession, withRunOfVersion1 } from "../model/store/runs.js";
import {
  type Device,
  type Disk,
  type DiskRequest,
  type Fence,
  type ForeignDevice,
  type Host,
  type KeptHealth,
  type Label,
  type Maintenance,
  type OperatorsWord,
  type Pending,
  type PendingDevice,
  type Publication,
  type PublicationProblem,
  type RegistrySchema,
  type Start,
  schema,
  type VmAssignment,
} from "../model/store/schema.js";
import { VIGIL, type Vigil } from "../model/store/vigil.js";

// Schemas of the stored documents. The mapped types require a line for each field of a document's type.
const text = z.string();
const flag = z.boolean();
const whole = z.int().min(0);
const health = z.enum(["ONLINE", "WARNING", "ERROR"]);

const word = { by: text, atMs: z.number(), reason: text };
const operatorsWord = shapeOf<OperatorsWord>()(word);

const hostCertificate = shapeOf<HostCertificate>()({ serialNumber: text, endsAtMs: z.number() });

const host = shapeOf<Host>()({
  hostId: text,
  address: text,
  az: text,
  rack: text,
  state: z.enum(["ONLINE", "WARNING", "UNAVAILABLE", "DEAD"]),
  stateMessage: text,
  stateChangedAtMs: z.number(),
  bootId: text,
  formerBootIds: z.array(text).readonly().optional(),
  probationEndsAtMs: z.number().optional(),
  saidDead: operatorsWord.optional(),
  cordoned: operatorsWord.optional(),
  maintenance: shapeOf<Maintenance>()({ ...word, untilMs: z.number() }).optional(),
  removalRequested: flag,
  mustRegister: z.literal(true).optional(),
  servesUnwanted: z.literal(true).optional(),
  assignment: shapeOf<VmAssignment>()({ vmCid: text, assignedAtMs: z.number() }).optional(),
  slices: z.literal(true).optional(),
  agentWarning: text.optional(),
  silentAtListenedMs: z.number().optional(),
  lossNoted: z.literal(true).optional(),
  removalCountsFromMs: z.number().optional(),
  foreignDevices: z
    .array(shapeOf<ForeignDevice>()({ deviceId: text, hostId: text }))
    .readonly()
    .optional(),
  certificates: z.array(hostCertificate).readonly().optional(),
  renewedAtMs: z.number().optional(),
  createdAtMs: z.number(),
});

const identity = {
  path: text,
  offsetBytes: whole,
  sizeBytes: whole,
  blockSizeBytes: whole,
  serialNumber: text,
  fileIdentity: text.optional(),
};

const pending = { message: text, sinceMs: z.number(), inFlightOperations: whole };

const keptHealth = shapeOf<KeptHealth>()({
  hardwareError: z.object({ message: text, atMs: z.number() }).optional(),
  said: z.object({ by: text, atMs: z.number(), reason: text, health: z.enum(["WARNING", "ERROR"]) }).optional(),
  reported: z.object({ health, healthMessage: text }),
});

const refusedFor = z.enum([
  "UNIDENTIFIED",
  "OTHER_HARDWARE",
  "LABEL_LOST",
  "LABEL_ON_OTHER_HARDWARE",
  "LABEL_TWICE",
  "LABEL_OF_OTHER_DEVICE",
  "LABEL_OF_OTHER_FLEET",
]);

const device = shapeOf<Device>()({
  ...identity,
  sliceBytes: whole.optional(),
  deviceId: text,
  hostId: text,
  pool: text,
  health,
  healthMessage: text,
  keptHealth: keptHealth.optional(),
  saidWellAtMs: z.number().optional(),
  unwellSinceMs: z.number().optional(),
  attachState: z.enum(["UNKNOWN", "ATTACHING", "ATTACHED", "CLOSING", "DETACHED"]),
  generation: whole,
  attempts: whole,
  lastError: text,
  pending: shapeOf<Pending>()(pending).optional(),
  runs: z
    .array(
      shapeOf<Run>()({
        first: whole,
        count: whole.optional(),
        diskId: text,
        lastSessionNumber: whole.optional(),
        eraseSessionNumber: whole.optional(),
      }),
    )
    .readonly(),
  removalRequested: flag,
  removalRequestedAtMs: z.number().optional(),
  keepData: z.literal(true).optional(),
  leavesAs: z.enum(["DEVICE", "PATH"]).optional(),
  detachConfirmed: flag,
  lastSessionNumber: whole.optional(),
  endedSessionNumber: whole.optional(),
  unknownSession: shapeOf<UnknownSession>()({ sessionNumber: whole, diskId: text }).optional(),
  stateChangedAtMs: z.number(),
  missing: z.literal(true).optional(),
  nothingThere: z.literal(true).optional(),
  refused: z.literal(true).optional(),
  replacement: shapeOf<Replacement>()({ ...identity, refusedFor: refusedFor.optional() }).optional(),
  label: shapeOf<NonNullable<Device["label"]>>()({ labelId: text }).optional(),
  labelState: z.enum(["NONE", "DAMAGED", "VALID", "USERS"]).optional(),
  foundLabel: shapeOf<FoundLabel>()({ labelId: text, deviceId: text, fleetId: text.optional() }).optional(),
  formerLabelId: text.optional(),
  grownToBytes: whole.optional(),
});

const part = shapeOf<Part>()({
  sizeBytes: whole.optional(),
  staysOn: text.optional(),
  copies: z
    .array(
      shapeOf<Copy>()({
        deviceId: text,
        first: whole.optional(),
        skipBytes: whole.optional(),
        state: z.enum(["COUNTS", "COPYING", "LEAVING"]),
        sessionNumber: whole.optional(),
        mark: shapeOf<CopyMark>()({ copiedBytes: whole, sourceSession: whole, targetSession: whole }).optional(),
      }),
    )
    .readonly(),
  move: shapeOf<Move>()({
    reason: z.enum(["REMOVAL", "OPERATOR", "HEALTH"]),
    requestedAtMs: z.number(),
    toHostId: text.optional(),
    elsewhere: z.literal(true).optional(),
    attempts: whole,
    lastError: text,
  }).optional(),
});

const disk = shapeOf<Disk>()({
  diskId: text,
  requested: shapeOf<DiskRequest>()({ sizeBytes: whole, az: text, hostId: text, pool: text, spreadRacks: flag }),
  sizeBytes: whole,
  blockSizeBytes: whole,
  az: text,
  parts: z.array(part).readonly(),
  publication: shapeOf<Publication>()({
    hostId: text,
    state: z.enum(["PUBLISHING", "PUBLISHED", "UNPUBLISHING"]),
    sessionNumber: whole,
    exportPath: text,
    attempts: whole,
    lastError: text,
    onHostSilence: z.literal("FENCE").optional(),
    pending: z
      .array(shapeOf<PendingDevice>()({ ...pending, deviceId: text }))
      .readonly()
      .optional(),
    unasked: z.literal(true).optional(),
    readOnly: z.literal(true).optional(),
    vmCid: text.optional(),
    fixedSize: z.literal(true).optional(),
    revision: whole.optional(),
    confirmedRevision: whole.optional(),
    problem: shapeOf<PublicationProblem>()({ message: text, sinceMs: z.number() }).optional(),
  }).optional(),
  fence: shapeOf<Fence>()({ hostId: text, by: text, atMs: z.number(), reason: text }).optional(),
  lastSessionNumber: whole.optional(),
  labels: z.array(shapeOf<Label>()({ name: text, value: text })).readonly(),
  createdAtMs: z.number(),
  limits: shapeOf<IoLimits>()({
    readIops: whole,
    writeIops: whole,
    readBytesPerSecond: whole,
    writeBytesPerSecond: whole,
    burstSeconds: whole,
  }).optional(),
  exportKind: z.enum(["DEVICE", "NBD"]).optional(),
  onHostSilence: z.literal("FENCE").optional(),
  deleted: shapeOf<Deletion>()({ by: text, atMs: z.number(), untilMs: z.number() }).optional(),
});

const gap = shapeOf<Gap>()({ above: whole, upTo: whole, reportedAtMs: z.number().optional() });

const counter = shapeOf<Counter>()({
  name: z.enum(["device_generation", "session_number"]),
  value: whole,
  gaps: z.array(gap).readonly().optional(),
});

const fleet = shapeOf<OtherFleet>()({
  tabletId: text,
  incarnation: text,
  hostId: text,
  heardAtMs: z.number(),
  adoptedAtMs: z.number().optional(),
});

const start = shapeOf<Start>()({ tabletGeneration: whole, deviceGeneration: whole, sessionNumber: whole });

const ids = z.array(text).readonly();

const event = shapeOf<RegistryEvent>()({
  eventId: whole,
  atMs: z.number(),
  user: text,
  action: text,
  hostIds: ids,
  deviceIds: ids,
  diskIds: ids,
  more: z.literal(true).optional(),
  answer: text,
  message: text,
  requestId: text.optional(),
  traceId: text.optional(),
  routine: z.literal(true).optional(),
});

const vigil = shapeOf<Vigil>()({
  name: z.literal(VIGIL),
  listenedMs: z.number().optional(),
  awakeAtMs: z.number().optional(),
  massSilence: z.literal(true).optional(),
  massSilenceSinceMs: z.number().optional(),
});

const joinToken = shapeOf<JoinToken>()({
  tokenId: text,
  secretHash: text,
  hosts: text,
  uses: whole,
  usesLeft: whole,
  endsAtMs: z.number(),
  createdBy: text,
  createdAtMs: z.number(),
  isRestored: z.literal(true).optional(),
});

const joinedHost = shapeOf<JoinedHost>()({
  hostId: text,
  tokenId: text,
  keyHash: text,
  certificates: z.array(hostCertificate).readonly(),
  isRestored: z.literal(true).optional(),
});

export type RegistryTablet = Tablet<RegistrySchema>;

/** The model's tables with the schemas of their documents. */
export const storedSchema: RegistrySchema = {
  hosts: { ...schema.hosts, check: checkOf(host) },
  devices: { ...schema.devices, check: checkOf(device), version: 2, upgrade: withRunOfVersion1 },
  disks: { ...schema.disks, check: checkOf(disk), version: 2 },
  counters: { ...schema.counters, check: checkOf(counter) },
  fleets: { ...schema.fleets, check: checkOf(fleet) },
  starts: { ...schema.starts, check: checkOf(start) },
  events: { ...schema.events, check: checkOf(event) },
  vigils: { ...schema.vigils, check: checkOf(vigil) },
  joinTokens: { ...schema.joinTokens, check: checkOf(joinToken) },
  joinedHosts: { ...schema.joinedHosts, check: checkOf(joinedHost) },
};
