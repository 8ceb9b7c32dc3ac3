import { existsSync } from "node:fs";
import { join } from "node:path";
import { repositoryFolder } from "../../repository-folder.js";
import { type Fault, LENGTHS_MS, must } from "./fault.js";

interface LastRelease {
  lastRelease(root: string): { readonly commit: string } | undefined;
  ensureLastRelease(root: string): Promise<string>;
}

const { lastRelease, ensureLastRelease }: LastRelease = await import(
  join(repositoryFolder, "deploy/local/bootstrap/last-release.mjs")
);

/** Builds it; until then nothing is replaced by it. */
export const buildLastRelease = (): Promise<string> => ensureLastRelease(repositoryFolder);

function folderOfLastRelease(): string {
  return join(repositoryFolder, ".cache/last-release", lastRelease(repositoryFolder)?.commit ?? "none");
}

/** A process is stopped, is of the last release for a while, and then of this version again. */
export const otherVersion: Fault = {
  name: "last release",
  lengthMs: LENGTHS_MS.pause,
  possible: () =>
    existsSync(folderOfLastRelease()) ? undefined : 'it is built when asked for: --faults "last release"',
  targets: (mesh) => [...mesh.supervised.keys()],
  async begin(mesh, target) {
    const supervised = must(mesh.supervised.get(target), target);
    const present = supervised.process.mainFile;
    const service = /services\/([\w-]+)\//.exec(present)?.[1] ?? "";
    await supervised.replace(join(folderOfLastRelease(), "services", service, "bundle/main.js"));
    return () => supervised.replace(present);
  },
};
