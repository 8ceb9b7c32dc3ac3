import { spawnSync } from "node:child_process";
import { endsWithParent, mountNamespace } from "@diskmesh/testkit";

const NAMESPACES = mountNamespace({ flags: ["--net"] });

/** Returns why this machine cannot create namespaces; undefined when it can. */
export function isolationProblem(): string | undefined {
  if (process.getuid?.() !== 0) return "only root can make network namespaces and mounts";
  const [unshare = "", ...flags] = NAMESPACES;
  const tried = spawnSync(unshare, [...flags, "ip", "link", "set", "lo", "up"], { encoding: "utf8" });
  if (tried.error !== undefined) return `unshare cannot be run: ${tried.error.message}`;
  if (tried.status === 0) return undefined;
  return `unshare and ip gave no network namespace: ${tried.stderr.trim()}`;
}

/**
 * Returns the command that runs a program of this repository in its own network and mount namespaces. The namespaces
 * end with it, and it ends with its parent.
 */
export function isolatedCommand(mainFile: string) {
  const [command = "", ...args] = [...endsWithParent(), ...NAMESPACES, process.execPath, mainFile];
  return { command, args };
}
