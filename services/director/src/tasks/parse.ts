import type { InstanceSelection, InstanceUpdateOptions } from "@diskmesh/api/director";
import { InvalidArgumentError, MIB_BYTES, messageOf, parseId, parseName, parseSizeBytes } from "@diskmesh/domain";
import { checkCount } from "../specs/update-block.js";
import type { Selection, UpdateOptions } from "../store/task.js";

export const parseDiskName = (value: string): string => parseName("disk_name", value);
export const parseInstanceId = (value: string): string => parseId("instance_id", value);

/** Returns the size rounded up to whole MiB, BOSH's unit. */
export function parseSizeMib(value: number): number {
  return Math.ceil(parseSizeBytes("size_bytes", value) / MIB_BYTES);
}

export function parseTaskId(value: number): number {
  if (Number.isSafeInteger(value) && value > 0) return value;
  throw new InvalidArgumentError(`task_id is ${value}: task ids count up from 1`, { about: { field: "task_id" } });
}

/** Throws for a missing selection and for a selection without a deployment. */
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

/** Returns the selected deployment, group or instance as descriptions and events show it. */
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

/** Maximum size of a disk's metadata, which the director keeps in memory with the disk. */
export const MAX_METADATA_BYTES = 16 * 1_024;
