import type { InstanceSelection, InstanceUpdateOptions } from "@diskmesh/api/director";
import {
  InvalidArgumentError,
  InvalidStateError,
  MIB_BYTES,
  messageOf,
  parseId,
  parseName,
  parseSizeBytes,
} from "@diskmesh/domain";
import type { TaskContext } from "../context.js";
import type { MeantAttachment } from "../model/disk-decisions.js";
import type { Json, JsonObject } from "../model/json.js";
import type { Selection } from "../model/lifecycle.js";
import type { UpdateOptions } from "../model/task.js";
import { checkCount } from "../model/update-block.js";

/** Dynamic disks are off unless an operator has turned them on. */
export function refuseUnlessEnabled(context: TaskContext): void {
  if (context.config.dynamicDisks.enabled) return;
  throw new InvalidStateError(
    "dynamic disks are off: set dynamicDisks.enabled to true in the director's config and restart it",
  );
}

export const parseDiskName = (value: string): string => parseName("disk_name", value);
export const parseInstanceId = (value: string): string => parseId("instance_id", value);

/** The attachment that a request names, wholly, in part, or not at all. */
export function parseMeantAttachment({ instanceId, attachmentId }: MeantAttachment): MeantAttachment {
  if (instanceId !== "") parseInstanceId(instanceId);
  if (attachmentId !== "") parseId("attachment_id", attachmentId);
  return { instanceId, attachmentId };
}

/** Whole MiB, BOSH's unit, and not less than asked for. */
export function parseSizeMib(value: number): number {
  return Math.ceil(parseSizeBytes("size_bytes", value) / MIB_BYTES);
}

export function parseTaskId(value: number): number {
  if (Number.isSafeInteger(value) && value > 0) return value;
  throw new InvalidArgumentError(`task_id is ${value}: task ids count up from 1`, { about: { field: "task_id" } });
}

/** One that names no deployment is as wrong as one that is left out. */
export function parseSelection(value: InstanceSelection | undefined): Selection & { readonly deployment: string } {
  const { deployment = "", group = "", instance = "" } = value ?? {};
  parseName("selection.deployment", deployment);
  if (group !== "") parseName("selection.group", group);
  if (instance === "") return { deployment, group, instance };
  parseId("selection.instance", instance);
  if (group === "")
    throw new InvalidArgumentError(`name the group of instance \`${instance}\``, {
      about: { field: "selection.group" },
    });
  return { deployment, group, instance };
}

/** The selected deployment, group or instance, as descriptions and events name it. */
export function placeOf({ deployment, group, instance }: Selection & { readonly deployment: string }): string {
  return [deployment, group, instance].filter(Boolean).join("/");
}

export function parseUpdateOptions(value: InstanceUpdateOptions | undefined): UpdateOptions {
  const { skipDrain = false, skipDrainGroups = [], canaries = "", maxInFlight = "", dryRun = false } = value ?? {};
  for (const group of skipDrainGroups) parseName("skip_drain_groups", group);
  for (const [field, count] of Object.entries({ canaries, max_in_flight: maxInFlight })) {
    try {
      if (count !== "") checkCount(count);
    } catch (error) {
      throw new InvalidArgumentError(`${field}: ${messageOf(error)}`, { about: { field } });
    }
  }
  const skips = skipDrain || skipDrainGroups.length === 0 ? skipDrain : [...skipDrainGroups];
  return { skipDrain: skips, canaries, maxInFlight, dryRun };
}

/** Size of the metadata of a disk, which is kept with the disk in memory. */
const MAX_METADATA_BYTES = 16 * 1_024;
const MAX_METADATA_DEPTH = 16;

/** Null when none was given. */
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

/** Protobuf's numbers may be infinite or none at all, JSON's may not. */
function refuseOddValues(value: unknown, depthLeft: number): asserts value is Json {
  const about = { about: { field: "metadata" } };
  if (typeof value === "number" && !Number.isFinite(value))
    throw new InvalidArgumentError(`metadata holds ${value}, which is no JSON value`, about);
  if (typeof value !== "object" || value === null) return;
  if (depthLeft === 0) throw new InvalidArgumentError(`metadata is nested more than ${MAX_METADATA_DEPTH} deep`, about);
  for (const inner of Object.values(value)) refuseOddValues(inner, depthLeft - 1);
}
