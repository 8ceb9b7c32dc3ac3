import { spawnSync } from "node:child_process";
import { copyFileSync, existsSync, symlinkSync } from "node:fs";
import { basename, delimiter, join } from "node:path";
import {
  type DatabasePlace,
  type DatabaseProcess,
  databaseUrl,
  newDocumentDatabase,
  newTabletName,
} from "@diskmesh/tablet/testing";
import { runFolder } from "@diskmesh/testkit";
import { repositoryFolder } from "../repository-folder.js";
import { DocumentedMesh } from "./documented-mesh.js";
import { plugIn } from "./sections.js";
import type { Site } from "./site.js";

/** Programs in addition to those of Node and the operating system. */
const PROGRAMS = ["bash", "nats-server", "grpcurl", "nbdcopy"];

export interface NewMachines {
  readonly mesh: DocumentedMesh;
  /** Undefined when the test did not start the database. */
  readonly database: DatabaseProcess | undefined;
}

/** Returns why this machine cannot run the documents, with any database; undefined when it can. */
export function whatIsMissing(): string | undefined {
  const missing = PROGRAMS.find((program) => spawnSync(program, ["--version"]).error !== undefined);
  return missing === undefined ? undefined : `${missing} is not on PATH`;
}

/** Links the programs into the machine's own folder, because PATH there excludes the repository's programs. */
export function install(machineFolder: string): void {
  for (const program of PROGRAMS) {
    const found = (process.env.PATH ?? "").split(delimiter).find((folder) => existsSync(join(folder, program)));
    if (found?.startsWith(repositoryFolder)) symlinkSync(join(found, program), join(machineFolder, "bin", program));
  }
}

/** Returns the version and the archive of this repository's release. */
export async function release(): Promise<{ readonly version: string; readonly file: string }> {
  const { ensureRelease } = await import(join(repositoryFolder, "deploy/local/bootstrap/release.mjs"));
  return ensureRelease(repositoryFolder, runFolder());
}

/**
 * Creates the machines of the document, with drives and with the release on `admin`. Returns the reason when that is
 * impossible.
 */
export async function newMachines(site: Site, databasePlace: DatabasePlace): Promise<NewMachines | string> {
  const found = await newDocumentDatabase(databasePlace);
  if (typeof found === "string") return found;
  const { version, file } = await release();
  const mesh = new DocumentedMesh(site, {
    values: {
      VERSION: version,
      DATABASE: `"${databaseUrl(found.url, newTabletName())}"`,
      DRIVES: '"MACHINE/drives/*"',
    },
    prepare: (machine) => {
      install(machine.folder);
      if (machine.name === "admin")
        for (const one of [file, `${file}.sha256`]) copyFileSync(one, join(machine.folder, "home", basename(one)));
      if (machine.name.startsWith("host-")) for (const number of [1, 2]) plugIn(machine, number);
    },
  });
  return { mesh, database: found.process };
}
