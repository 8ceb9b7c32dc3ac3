import type { CreateVolumeRequest, CreateVolumeResponse } from "@diskmesh/api/csi";
import type { DynamicDisk } from "@diskmesh/api/director";
import { OnHostSilence } from "@diskmesh/api/registry";
import {
  AlreadyExistsError,
  bytesText,
  DomainError,
  InvalidArgumentError,
  NotFoundError,
  parseName,
  ResourceExhaustedError,
} from "@diskmesh/domain";
import type { SocketCall } from "@diskmesh/rpc";
import { accessOf } from "../model/capability.js";
import { isInRange, OutOfRangeError, sizeFor } from "../model/capacity.js";
import { limitsFrom } from "../model/limits.js";
import { nodeIdOf } from "../model/node-id.js";
import { needFields } from "../model/required-fields.js";
import { anywhereIn, isAccessible, type Place, placesFor } from "../model/topology.js";
import type { ControllerContext } from "./context.js";
import { kindParameterOf } from "./kind-parameter.js";
import { volumeOf } from "./volume.js";
import { CLUSTER, type Owner, volumeIdOf } from "./volume-id.js";

/** Parameter of a storage class that says whether a silent node loses the volume; by default the disk type says so. */
const ON_HOST_SILENCE = "onHostSilence";
const SILENCE_RULES: ReadonlyMap<string, OnHostSilence> = new Map([
  ["", OnHostSilence.UNSPECIFIED],
  ["keep", OnHostSilence.KEEP],
  ["fence", OnHostSilence.FENCE],
]);
/** Prefix of parameters that Kubernetes adds: the names of the claim and of the volume. */
const KUBERNETES = "csi.storage.k8s.io/";

interface Wanted {
  readonly volumeId: string;
  readonly name: string;
  /** A disk type, or a pool of the disks for hosts. */
  readonly kind: string;
  readonly sizeBytes: number;
  readonly onHostSilence: OnHostSilence;
  /** Facts about the volume for operators, stored with the disk. */
  readonly metadata: Readonly<Record<string, string>>;
}

export async function createVolume(
  context: ControllerContext,
  request: CreateVolumeRequest,
  call: SocketCall,
): Promise<Partial<CreateVolumeResponse>> {
  const { name, volumeCapabilities, volumeContentSource, mutableParameters } = request;
  needFields({ name, volume_capabilities: volumeCapabilities });
  for (const capability of volumeCapabilities) accessOf(capability);
  if (volumeContentSource !== undefined)
    throw new InvalidArgumentError("volume_content_source is given: volumes are created empty only");
  limitsFrom(mutableParameters, undefined);
  const wanted = {
    volumeId: volumeIdOf(context.disks.owner, name),
    name,
    ...parsedParameters(context.disks.owner, name, request.parameters),
    sizeBytes: sizeFor(request.capacityRange),
  };
  const places = placesFor(request.accessibilityRequirements, context.places);
  const disk = await context.work.run(wanted.volumeId, "CreateVolume", request, call, async () =>
    withLimits(context, await create(context, request, wanted, places), mutableParameters),
  );
  return { volume: volumeOf(disk) };
}

async function create(
  { disks }: ControllerContext,
  request: CreateVolumeRequest,
  wanted: Wanted,
  places: readonly Place[],
): Promise<DynamicDisk> {
  const existing = await disks.get(wanted.volumeId);
  if (existing === undefined) {
    const made = await createInOneOf(places, (place) => disks.create({ ...wanted, ...place }));
    if (isInRange(made.sizeBytes, request.capacityRange)) return made;
    // A pool may make disks of certain sizes only.
    await disks.delete(wanted.volumeId);
    throw new OutOfRangeError(
      `${wanted.kind} has no disk in the range: the smallest one has ${bytesText(made.sizeBytes)}`,
    );
  }
  refuseContradiction(disks.owner, existing, request, wanted);
  const { az, sizeBytes, diskCid, metadata } = existing;
  // The metadata is the last thing that a creation sets.
  if (diskCid !== "" && metadata?.csi_name === wanted.name) return existing;
  return disks.create({ ...wanted, ...anywhereIn(az), sizeBytes });
}

/** Sets the limits of a new volume. A volume with other limits was created with other parameters. */
async function withLimits(
  { disks }: ControllerContext,
  disk: DynamicDisk,
  mutableParameters: Readonly<Record<string, string>>,
): Promise<DynamicDisk> {
  const limits = limitsFrom(mutableParameters, disk.limits);
  if (limits === undefined) return disk;
  if (disk.limits !== undefined) throw new AlreadyExistsError(`volume ${disk.diskName} exists with other I/O limits`);
  return disks.setLimits(disk.diskName, limits);
}

/** Creates the disk in the first AZ that has room for it. */
async function createInOneOf(
  places: readonly Place[],
  create: (place: Place) => Promise<DynamicDisk>,
): Promise<DynamicDisk> {
  let noRoom: unknown;
  for (const place of places)
    try {
      return await createNear(place, create);
    } catch (error) {
      if (!(error instanceof ResourceExhaustedError)) throw translated(error);
      noRoom = error;
    }
  throw noRoom;
}

/** Creates the disk near the place's node, which the orchestrator may know longer than the mesh. */
async function createNear(place: Place, create: (place: Place) => Promise<DynamicDisk>): Promise<DynamicDisk> {
  try {
    return await create(place);
  } catch (error) {
    if (!(error instanceof NotFoundError) || nodeIdOf(place) === "") throw error;
    return create(anywhereIn(place.az));
  }
}

function parsedParameters(owner: Owner, name: string, parameters: Readonly<Record<string, string>>) {
  const { key, byDefault, meaning } = kindParameterOf(owner);
  const { [key]: kind = byDefault, ...others } = parameters;
  const { [ON_HOST_SILENCE]: rule = "", ...rest } = others;
  const unknown = Object.keys(rest).find((key) => !key.startsWith(KUBERNETES));
  if (unknown !== undefined)
    throw new InvalidArgumentError(
      `parameter ${JSON.stringify(unknown)} is unknown: there are ${key} and ${ON_HOST_SILENCE}`,
    );
  const onHostSilence = SILENCE_RULES.get(rule);
  if (onHostSilence === undefined)
    throw new InvalidArgumentError(`parameter ${ON_HOST_SILENCE} is ${JSON.stringify(rule)}: give keep or fence`);
  if (kind === "") throw new InvalidArgumentError(`parameter ${key} is missing: name ${meaning}`);
  const metadata = { ...others, ...("cluster" in owner && { [CLUSTER]: owner.cluster }), csi_name: name };
  return { kind: parseName(`parameters[${key}]`, kind), onHostSilence, metadata };
}

function refuseContradiction(owner: Owner, disk: DynamicDisk, request: CreateVolumeRequest, wanted: Wanted): void {
  const { name, kind, metadata } = wanted;
  const differs = (what: string): never => {
    throw new AlreadyExistsError(`volume ${JSON.stringify(name)} exists with ${what}`);
  };
  if (!isInRange(disk.sizeBytes, request.capacityRange)) differs(`${disk.sizeBytes} bytes`);
  const was = disk.diskPoolName || disk.pool;
  if (was !== kind) differs(`${kindParameterOf(owner).key} ${was}`);
  const [rule = "", wants = ""] = [disk.metadata?.[ON_HOST_SILENCE], metadata[ON_HOST_SILENCE]];
  if (disk.metadata?.csi_name === name && rule !== wants) differs(`${ON_HOST_SILENCE} ${JSON.stringify(rule)}`);
  if (!isAccessible(disk.az, request.accessibilityRequirements)) differs(`AZ ${disk.az}`);
}

/** Returns the error with CSI's code for it. */
export function translated(error: unknown): unknown {
  if (!(error instanceof DomainError)) return error;
  if (error.reason === "DISK_DIFFERS") return new AlreadyExistsError(error.message, { cause: error });
  // The names come from the request's parameters and topology.
  if (error.reason === "NOT_IN_CLOUD_CONFIG") return new InvalidArgumentError(error.message, { cause: error });
  return error;
}
