import { InvalidStateError } from "@diskmesh/domain";

export type DiskHint = string | { readonly [key: string]: DiskHint };

/**
 * The hint that attach_disk gave, with every value inside as a string: stock agents crash on any other. Keys without a
 * value are left out. No hint at all is an error, since the disk could not be found on the VM.
 */
export function stringifiedHint(hint: unknown, diskCid: string): DiskHint {
  const stringified = stringify(hint);
  if (stringified !== undefined && Object.keys(stringified).length > 0) return stringified;
  throw new InvalidStateError(`the CPI attached disk ${diskCid} but gave no disk hint by which an agent finds it`, {
    about: { disk_cid: diskCid },
  });
}

function stringify(value: unknown): DiskHint | undefined {
  if (value === null || value === undefined) return undefined;
  if (typeof value === "string") return value;
  if (typeof value !== "object" || Array.isArray(value)) return JSON.stringify(value);
  const entries = Object.entries(value).map(([key, inner]) => [key, stringify(inner)] as const);
  return Object.fromEntries(entries.filter(([, inner]) => inner !== undefined)) as DiskHint;
}
