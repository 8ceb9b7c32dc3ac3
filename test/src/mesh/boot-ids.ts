import { randomUUID } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { mountNamespace } from "@diskmesh/testkit";
import { isolationProblem } from "../namespaces/isolation.js";

/** Shell script that bind-mounts the file, if it exists, over the kernel's boot id, and executes the program. */
const REBOOTED = '[ ! -e "$0" ] || mount --bind "$0" /proc/sys/kernel/random/boot_id; exec "$@"';

/**
 * Returns a launcher that runs a host's agent in its own mount namespace, so that `reboot` can change its boot id.
 * Empty where that requires root.
 */
export function rebootable(folder: string, hostId: string): readonly string[] {
  if (isolationProblem() !== undefined) return [];
  return [...mountNamespace(), "sh", "-c", REBOOTED, bootIdFile(folder, hostId)];
}

/** Gives a host another boot id, which its agent reads from its next start on. */
export function reboot(folder: string, hostId: string): void {
  writeFileSync(bootIdFile(folder, hostId), `${randomUUID()}\n`);
}

const bootIdFile = (folder: string, hostId: string) => join(folder, `${hostId}.boot-id`);
