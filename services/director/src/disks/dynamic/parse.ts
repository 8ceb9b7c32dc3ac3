import { OnHostSilence } from "@diskmesh/api/registry";
import { InvalidArgumentError, InvalidStateError, parseId } from "@diskmesh/domain";
import type { Json, JsonObject } from "../../store/json.js";
import type { MeantAttachment } from "../../store/task.js";
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
export function parseMeantAttachment({ instanceId, attachmentId }: MeantAttachment): MeantAttachment {
  if (instanceId !== "") parseInstanceId(instanceId);
  if (attachmentId !== "") parseId("attachment_id", attachmentId);
  return { instanceId, attachmentId };
}

/** Parses the policy of a request, in the form of a disk type's cloud property. */
export function parseOnHostSilence(rule: OnHostSilence): { readonly onHostSilence?: "keep" | "fence" } {
  if (rule === OnHostSilence.UNSPECIFIED) return {};
  if (rule === OnHostSilence.KEEP) return { onHostSilence: "keep" };
  if (rule === OnHostSilence.FENCE) return { onHostSilence: "fence" };
  throw new InvalidArgumentError("on_host_silence has a value that this director does not know", {
    about: { field: "on_host_silence" },
  });
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
