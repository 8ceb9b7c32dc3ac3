import { spawnSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { SmallDisk } from "@diskmesh/testkit";

const SIZE_BYTES = 64 * 1024 * 1024;

/** Returns why this machine cannot mount a small disk; undefined when it can. */
export function smallDiskProblem(): string | undefined {
  for (const program of ["mke2fs", "mount", "losetup"])
    if (spawnSync(program, ["-V"]).error !== undefined) return `${program} is not on PATH`;
  if (spawnSync("losetup", ["--find"]).status !== 0) return "this machine has no loop devices";
  return undefined;
}

/** Mounts a small file system on a folder, which must be empty or missing. */
export function mountSmallDisk(folder: string): SmallDisk {
  mkdirSync(folder, { recursive: true });
  const disk = SmallDisk.mountExt4(SIZE_BYTES, folder);
  if (disk === undefined) throw new Error(`no small disk can be mounted at ${folder}`);
  return disk;
}
