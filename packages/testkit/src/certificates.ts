import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { certificateFiles, createDevelopmentCertificates, issueCertificate } from "@diskmesh/pki";
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

type Holder = Omit<Parameters<typeof issueCertificate>[1], "dnsNames" | "ipAddresses" | "validDays"> & {
  readonly ipAddresses?: readonly string[];
};

/** One more certificate of the authority whose certificates are in that folder, in files of that name beside them. */
export async function anotherCertificate(folder: string, name: string, holder: Holder): Promise<TlsFiles> {
  const read = (file: string) => readFileSync(join(folder, file), "utf8");
  const authority = { certPem: read("ca.pem"), keyPem: read("ca-key.pem") };
  const { ipAddresses = [], ...options } = holder;
  const made = await issueCertificate(authority, {
    ...options,
    dnsNames: [],
    ipAddresses: [...ipAddresses],
    validDays: 1,
  });
  const files = certificateFiles(folder, name);
  writeFileSync(files.certFile, made.certPem);
  writeFileSync(files.keyFile, made.keyPem, { mode: 0o600 });
  return files;
}
