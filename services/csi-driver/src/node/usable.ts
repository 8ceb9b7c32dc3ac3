import { statfs } from "node:fs/promises";
import { InvalidStateError, messageOf, UnavailableError } from "@diskmesh/domain";
import type { MountEntry } from "../model/mount-info.js";
import { checkAnswers, deviceNumbered } from "./device.js";

/** Throws when the mounted file system cannot be used: its device is gone or silent, or it stopped after errors. */
export async function checkUsable(mounted: MountEntry): Promise<void> {
  const { path, source } = mounted;
  const device = await deviceNumbered(mounted.device);
  if (device === undefined) throw new UnavailableError(`the device ${source} of ${path} is gone`);
  await checkAnswers(device);
  if (hasStopped(mounted))
    throw new InvalidStateError(
      `the file system at ${path} takes no writes: the kernel stopped it after errors of ${source}`,
    );
  try {
    await statfs(path);
  } catch (error) {
    throw new UnavailableError(`the file system at ${path} does not answer: ${messageOf(error)}`, { cause: error });
  }
}

/** Returns true for a file system that was mounted for writing and takes no writes. */
export function hasStopped({ isReadOnly, isFileSystemReadOnly }: MountEntry): boolean {
  return isFileSystemReadOnly && !isReadOnly;
}
