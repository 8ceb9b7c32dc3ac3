import { realpathSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { messageOf, shellWord } from "@diskmesh/domain";
import { UsageError } from "../output/exit-codes.js";

// Only other users of the machine count. A group has the rights that the operator gave it on purpose: the keys of a
// Kubernetes secret belong to root and to the pod's group.
const OTHERS_READ = 0o004;
const OTHERS_WRITE = 0o002;
/** In a sticky folder such as /tmp, others may not replace a user's files. */
const STICKY = 0o1000;

/** Throws UsageError when all users of the machine may read a key or replace it. */
export function refuseOpenKey(file: string): void {
  const stat = statSync(file, { throwIfNoEntry: false });
  if (stat !== undefined && (stat.mode & OTHERS_READ) !== 0)
    throw new UsageError(`all users of this machine may read the key ${file}: chmod 600 ${shellWord(file)}`);
  refuseChangeable(file);
}

/**
 * Throws UsageError when all users of the machine may change a file, or a folder above it. Such a file could send the
 * command and its manifests to another mesh. A missing file passes, because reading it fails with a reason.
 */
export function refuseChangeable(file: string): void {
  for (const path of withFolders(file)) {
    const stat = statSync(path, { throwIfNoEntry: false });
    if (stat === undefined || (stat.mode & OTHERS_WRITE) === 0) continue;
    if (stat.isDirectory() && (stat.mode & STICKY) !== 0) continue;
    const what = stat.isDirectory() ? `replace what is in ${path}, as ${file}` : `change ${path}`;
    throw new UsageError(`all users of this machine may ${what}: chmod o-w ${shellWord(path)}`);
  }
}

/** Throws UsageError for a folder that the command found by itself and that belongs to another user. */
export function refuseFolderOfOthers(folder: string): void {
  const { uid } = statSync(folder);
  if (uid === 0 || uid === process.getuid?.()) return;
  throw new UsageError(`${folder} belongs to another user: give --state ${shellWord(folder)} if you trust it`);
}

/** Returns the file and all folders above it, both as named and where links lead. */
function withFolders(file: string): ReadonlySet<string> {
  const paths = new Set<string>();
  for (const start of [resolve(file), realPathOf(file)])
    for (let path = start; !paths.has(path); path = dirname(path)) paths.add(path);
  return paths;
}

function realPathOf(file: string): string {
  try {
    return realpathSync(file);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return resolve(file);
    throw new UsageError(`cannot read ${file}: ${messageOf(error)}`);
  }
}
