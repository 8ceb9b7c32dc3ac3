import { isDeepStrictEqual } from "node:util";
import type { DeviceConfig } from "./device-place.js";

/**
 * Adds the devices that a reloaded config lists for the first time. Returns the list that is in effect now: changed and
 * removed devices stay as they are until a restart, and so do new ones on a path that another device uses.
 */
export function addNewDevices<Entry extends DeviceConfig>(
  table: {
    all(): readonly { readonly id: string; readonly file: { readonly path: string } }[];
    add(entry: Entry): unknown;
  },
  present: readonly Entry[],
  wanted: readonly Entry[],
  maxDevices: number,
): readonly Entry[] {
  const stays = (id: string): boolean => present.some((entry) => entry.deviceId === id && isIn(wanted, entry));
  const others = table.all().filter(({ id }) => !stays(id));
  const ids = new Set<string>(table.all().map(({ id }) => id));
  const usedPaths = new Set(others.map(({ file }) => file.path));
  const isNew = ({ deviceId, path }: Entry): boolean => !ids.has(deviceId) && !usedPaths.has(path);
  const added = wanted.filter(isNew).slice(0, Math.max(0, maxDevices - ids.size));
  for (const entry of added) table.add(entry);
  const inEffect = [...present, ...added];
  // The order of the file, so that an order alone is no difference.
  return inEffect.every((entry) => isIn(wanted, entry)) && inEffect.length === wanted.length ? wanted : inEffect;
}

function isIn<Entry>(entries: readonly Entry[], entry: Entry): boolean {
  return entries.some((each) => isDeepStrictEqual(each, entry));
}
