/** A mount of the process's namespace. */
export interface MountEntry {
  /** Device number `major:minor`. */
  readonly device: string;
  /** Path within the file system that is mounted: "/" unless a part of it is. */
  readonly root: string;
  readonly path: string;
  readonly isReadOnly: boolean;
  /** True when the file system itself takes no writes: it was mounted for reading, or the kernel stopped it after errors. */
  readonly isFileSystemReadOnly: boolean;
  readonly fsType: string;
  /** Path of the mounted device. */
  readonly source: string;
}

/** Options of a file system that takes no writes. Newer kernels show ext4 that stopped after errors as `emergency_ro`. */
const READ_ONLY = ["ro", "emergency_ro", "shutdown"];

/** Parses /proc/self/mountinfo. */
export function parseMountInfo(text: string): MountEntry[] {
  return text.split("\n").flatMap((line) => {
    const [before = "", after = ""] = line.split(" - ");
    const [, , device = "", root = "", path = "", options = ""] = before.split(" ");
    const [fsType = "", source = "", superOptions = ""] = after.split(" ");
    if (path === "") return [];
    return [
      {
        device,
        root: unescaped(root),
        path: unescaped(path),
        isReadOnly: options.split(",").includes("ro"),
        isFileSystemReadOnly: READ_ONLY.some((option) => superOptions.split(",").includes(option)),
        fsType,
        source: unescaped(source),
      },
    ];
  });
}

/** Returns the mount that is on top at a path. */
export function mountedAt(mounts: readonly MountEntry[], path: string): MountEntry | undefined {
  return mounts.findLast((mount) => mount.path === path);
}

/** Reverses the kernel's escapes of blanks, which are octal. */
const unescaped = (text: string): string =>
  text.replace(/\\([0-7]{3})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 8)));
