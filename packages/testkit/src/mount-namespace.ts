/** Ends the copies of mounts of loop devices, except below the kept path, and executes the program. */
const SCRIPT = `
keep=$0
while read -r source path rest; do
  case $path in "$keep"*) continue;; esac
  case $source in /dev/loop*) umount --lazy "$path";; esac
done </proc/self/mounts
exec "$@"`;

/** Path that no mount is below. */
const NOTHING = "//";

interface MountNamespaceOptions {
  /** More flags of unshare. */
  readonly flags?: readonly string[];
  /** Path whose mounts the namespace keeps. */
  readonly keep?: string;
}

/**
 * Returns the beginning of a command that runs a program in a mount namespace of its own. The namespace drops the file
 * systems of loop devices, so that it does not hold the disks of tests that run at the same time.
 */
export function mountNamespace({ flags = [], keep = NOTHING }: MountNamespaceOptions = {}): readonly string[] {
  return ["unshare", ...flags, "--mount", "--propagation", "private", "--", "sh", "-c", SCRIPT, keep];
}
