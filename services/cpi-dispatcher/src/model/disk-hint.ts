import { InvalidStateError } from "@diskmesh/domain";

export type DiskHint = string | { readonly [key: string]: DiskHint };

/**
 * Returns the hint from attach_disk with every value as a string, because stock agents crash on other types. Keys
 * without a value are dropped. Throws for a missing hint, because the agent could not find the disk.
 */
export function stringifiedHint(hint: unknown, diskCid: string): DiskHint {
  const stringified = stringify(hint);
  if (stringified !== undefined && Object.keys(stringified).length > 0) return stringified;
  throw new InvalidStateError(
    `the CPI attached disk ${diskCid} but returned no disk hint, without which the agent cannot find the disk`,
    {
      about: { disk_cid: diskCid },
    },
  );
}

function stringify(value: unknown): DiskHint | undefined {
  if (value === null || value === undefined) return undefined;
  if (typeof value === "string") return value;
  if (typeof value !== "object" || Array.isArray(value)) return JSON.stringify(value);
  const entries = Object.entries(value).map(([key, inner]) => [key, stringify(inner)] as const);
  return Object.fromEntries(entries.filter(([, inner]) => inner !== undefined)) as DiskHint;
}
