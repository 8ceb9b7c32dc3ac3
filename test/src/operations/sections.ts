import { X509Certificate } from "node:crypto";
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { MIB_BYTES } from "@diskmesh/domain";
import { certificateFiles } from "@diskmesh/pki";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { makeDeviceFile } from "../mesh/device-files.js";
import { repositoryFolder } from "../repository-folder.js";
import { type Step, stepsOf } from "./document.js";
import type { DocumentedMesh } from "./documented-mesh.js";
import type { Machine } from "./machine.js";
import { isLetIn, shownSerial } from "./tls-asked.js";

/** Typed pages of docs/operate, in order; each depends on the earlier ones. */
const PAGES = [
  "install",
  "services",
  "first-disk",
  "backup-and-restore",
  "certificates",
  "hosts-and-drives",
  "processes",
  "monitoring",
  "when-a-part-is-away",
];

/** Text of these pages. */
export const document = PAGES.map((name) =>
  readFileSync(join(repositoryFolder, `docs/operate/${name}.md`), "utf8"),
).join("\n");

/** Steps by section, in the document's order. */
const steps = new Map<string, Step[]>();
for (const step of stepsOf(document)) steps.set(step.section, [...(steps.get(step.section) ?? []), step]);

/** Headings of the sections that have something to type. */
export const SECTIONS: readonly string[] = [...steps.keys()];

/** Types a section, compares its output, and checks its effects. */
export async function followSection(mesh: DocumentedMesh, section: string): Promise<void> {
  const typed = steps.get(section);
  if (typed === undefined) throw new Error(`the document has no section ${section}`);
  for (const step of typed) await mesh.follow(step);
  await AFTERWARDS[section]?.(mesh);
}

/** Actions and checks after the steps of a section. */
const AFTERWARDS: Readonly<Record<string, (mesh: DocumentedMesh) => Promise<void> | void>> = {
  NATS: async (mesh) => {
    const asked = { host: mesh.address("control-1"), port: 6222 };
    await eventually(async () => expect(await isLetIn(asked, pkiFiles(mesh, "nats-control-2"))).to.equal(true));
    for (const other of ["disk-agent-host-1", "director"])
      expect(await isLetIn(asked, pkiFiles(mesh, other)), `${other} as a server of the cluster`).to.equal(false);
  },
  "Replace the mesh's authority (rotate the CA)": async (mesh) => {
    const servers = [
      ["control-1", 4222, "nats-control-1"],
      ["control-2", 7010, "director"],
      ["control-1", 7020, "cpi-dispatcher"],
      ["control-2", 7030, "disk-registry"],
      ["host-3", 7040, "disk-agent-host-3"],
    ] as const;
    for (const [name, port, holder] of servers) {
      const files = pkiFiles(mesh, holder);
      const wanted = new X509Certificate(readFileSync(files.certFile)).serialNumber;
      const asked = { host: mesh.address(name), port, isNats: port === 4222 };
      await eventually(async () => expect(await shownSerial(asked, files), holder).to.equal(wanted));
    }
  },
  "Add a host": (mesh) => plugIn(mesh.machine("host-4"), 3),
};

/** Returns the TLS files of a certificate, as `admin` stores them. */
export function pkiFiles(mesh: DocumentedMesh, name: string) {
  return certificateFiles(join(mesh.machine("admin").folder, "home/pki"), name);
}

/** Gives a machine a drive. */
export function plugIn({ folder }: Machine, number: number): void {
  mkdirSync(join(folder, "drives"), { recursive: true });
  makeDeviceFile(join(folder, "drives", `${number}`), 4 * MIB_BYTES);
}
