import { ExportKind, OnHostSilence } from "@diskmesh/api/registry";
import { CPI_NAME_PATTERN } from "@diskmesh/cpi";
import { InvalidArgumentError, InvalidStateError, parseHostId, parseId, parseName, quoted } from "@diskmesh/domain";
import type { Json, JsonObject } from "../../store/json.js";
import type { MeantAttachment, WantedPlace } from "../../store/task.js";
import type { TaskContext } from "../../tasks/context.js";
import { MAX_METADATA_BYTES, parseInstanceId } from "../../tasks/parse.js";

/** Throws InvalidStateError unless the config enables dynamic disks. */
export function refuseUnlessEnabled(context: TaskContext): void {
  if (context.config.dynamicDisks.enabled) return;
  throw new InvalidStateError(
    "dynamic disks are off: set dynamicDisks.enabled to true in the director's config and restart it",
    { reason: "FEATURE_OFF" },
  );
}

/** Parses the ids of the attachment that a request names; both are optional. */
export function parseMeantAttachment(request: Required<MeantAttachment>): MeantAttachment {
  const { attachmentId } = request;
  if (attachmentId !== "") parseId("attachment_id", attachmentId);
  if (request.instanceId === "" && request.hostId === "") return { instanceId: "", attachmentId };
  // A disk never changes its CPI, so the host's id suffices.
  const { hostCpi: _, ...place } = parsePlace(request);
  return { ...place, attachmentId };
}

/** Parses where a disk is to be attached: `host_id` is a host's id, or CPI/ID; an empty CPI is the default one. */
export function parsePlace(request: { readonly instanceId: string; readonly hostId: string }): WantedPlace {
  const { instanceId, hostId } = request;
  if (hostId === "") {
    if (instanceId !== "") return { instanceId: parseInstanceId(instanceId) };
    throw new InvalidArgumentError("instance_id and host_id are empty: give one of them", {
      about: { field: "instance_id" },
    });
  }
  if (instanceId !== "")
    throw new InvalidArgumentError("instance_id and host_id are both given: give only one of them", {
      about: { field: "host_id" },
    });
  return { instanceId, ...parseHost(hostId) };
}

/** Parses a host's id, or CPI/ID; an empty CPI is the default one. */
function parseHost(hostId: string): { readonly hostId: string; readonly hostCpi?: string } {
  const slash = hostId.indexOf("/");
  if (slash < 0) return { hostId: parseHostId(hostId) };
  const hostCpi = hostId.slice(0, slash);
  if (hostCpi !== "" && !CPI_NAME_PATTERN.test(hostCpi))
    throw new InvalidArgumentError(`host_id names the malformed CPI ${quoted(hostCpi)}: give HOST or CPI/HOST`, {
      about: { field: "host_id" },
    });
  return { hostId: parseHostId(hostId.slice(slash + 1)), hostCpi };
}

/** Parses where a disk is to be created: in an az, for a deployment near one of its instances, or for hosts near one of them. */
export function parseNewPlace(
  request: Readonly<Record<"deployment" | "az" | "instanceId" | "hostId", string>>,
): Readonly<Record<"deployment" | "az", string>> & Partial<WantedPlace> {
  const { az, instanceId, hostId } = request;
  if (hostId === "") {
    const deployment = request.deployment === "" ? "" : parseName("deployment", request.deployment);
    if (instanceId === "") return { deployment, az: parseName("az", az) };
    if (deployment !== "") return { deployment, az: parseName("az", az), instanceId: parseInstanceId(instanceId) };
    throw new InvalidArgumentError("instance_id is given without a deployment: give host_id, or the deployment", {
      about: { field: "instance_id" },
    });
  }
  const other = request.deployment === "" ? (az && "az") || (instanceId && "instance_id") : "deployment";
  if (other === "") return { deployment: "", az, ...parseHost(hostId) };
  throw new InvalidArgumentError(
    `host_id and ${other} are both given: a disk near a host gets the host's az, and is of no deployment`,
    {
      about: { field: "host_id" },
    },
  );
}

/** Parses the pool of a new disk: a disk type of the cloud config, or for hosts a pool of the registry. */
export function parsePool(
  { diskPoolName, pool }: { readonly diskPoolName: string; readonly pool: string },
  isForHosts: boolean,
): string {
  if (isForHosts && diskPoolName !== "")
    throw new InvalidArgumentError(
      "disk_pool_name names a disk type, which only a disk of a deployment has: give pool, or the deployment or instance",
      { about: { field: "disk_pool_name" } },
    );
  if (!isForHosts && pool !== "")
    throw new InvalidArgumentError(
      "pool is of disks for hosts: give disk_pool_name, the name of a disk type of the cloud config",
      { about: { field: "pool" } },
    );
  if (!isForHosts) return parseName("disk_pool_name", diskPoolName);
  return pool === "" ? DEFAULT_POOL : parseName("pool", pool);
}

/** The registry's name for the pool of devices and disks that name none. */
const DEFAULT_POOL = "default";

/** Parses the policy of a request, in the form of a disk type's cloud property. */
export function parseOnHostSilence(rule: OnHostSilence): { readonly onHostSilence?: "keep" | "fence" } {
  if (rule === OnHostSilence.UNSPECIFIED) return {};
  if (rule === OnHostSilence.KEEP) return { onHostSilence: "keep" };
  if (rule === OnHostSilence.FENCE) return { onHostSilence: "fence" };
  throw new InvalidArgumentError("on_host_silence has a value that this director does not know", {
    about: { field: "on_host_silence" },
  });
}

/** Parses the form of a disk for hosts, in the form of a cloud property. */
export function parseExportKind(kind: ExportKind, isForHosts: boolean): { readonly exportKind?: "device" | "nbd" } {
  if (kind === ExportKind.UNSPECIFIED) return {};
  const about = { about: { field: "export_kind" } };
  if (!isForHosts)
    throw new InvalidArgumentError(
      "export_kind is of disks for hosts: the disk type of a deployment's disk has it",
      about,
    );
  if (kind === ExportKind.DEVICE) return { exportKind: "device" };
  if (kind === ExportKind.NBD) return { exportKind: "nbd" };
  throw new InvalidArgumentError("export_kind has a value that this director does not know", about);
}

const MAX_METADATA_DEPTH = 16;

/** Parses the metadata of a request; returns null for a request without metadata. */
export function parseMetadata(value: Readonly<Record<string, unknown>> | undefined): JsonObject | null {
  if (value === undefined) return null;
  refuseOddValues(value, MAX_METADATA_DEPTH);
  const sizeBytes = Buffer.byteLength(JSON.stringify(value));
  if (sizeBytes > MAX_METADATA_BYTES) {
    throw new InvalidArgumentError(`metadata has ${sizeBytes} bytes as JSON: the limit is ${MAX_METADATA_BYTES}`, {
      about: { field: "metadata" },
    });
  }
  return value as JsonObject;
}

/** Throws InvalidArgumentError for values that JSON lacks: Protobuf numbers may be infinite or NaN. */
function refuseOddValues(value: unknown, depthLeft: number): asserts value is Json {
  const about = { about: { field: "metadata" } };
  if (typeof value === "number" && !Number.isFinite(value))
    throw new InvalidArgumentError(`metadata contains ${value}, which is not a JSON value`, about);
  if (typeof value !== "object" || value === null) return;
  if (depthLeft === 0) throw new InvalidArgumentError(`metadata is nested more than ${MAX_METADATA_DEPTH} deep`, about);
  for (const inner of Object.values(value)) refuseOddValues(inner, depthLeft - 1);
}
