import { certificateFiles, createDevelopmentCertificates } from "@diskmesh/pki";
import type { TlsFiles } from "@diskmesh/rpc";
import { temporaryFolder } from "./folders.js";

/** The certificates of one authority, as `npm start` makes them. */
export interface TestCertificates {
  readonly folder: string;
  /** Files of `operator`, `director`, `cpi-dispatcher`, `disk-registry`, `nats` or `disk-agent-<hostId>`. */
  files(name: string): TlsFiles;
}

let folder: string | undefined;
let making: Promise<void> = Promise.resolve();

/** Certificates for all roles and the hosts named; one authority for the whole test process. */
export async function testCertificates(
  options: { readonly hostIds?: readonly string[] } = {},
): Promise<TestCertificates> {
  folder ??= temporaryFolder();
  const into = folder;
  // One after the other: two at once would both make an authority.
  const made = making.then(() => createDevelopmentCertificates(into, { hostIds: options.hostIds ?? [] }));
  making = made.catch(() => {});
  await made;
  return { folder: into, files: (name) => certificateFiles(into, name) };
}
