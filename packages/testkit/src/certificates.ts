import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { certificateFiles, createDevelopmentCertificates, issueCertificate } from "@diskmesh/pki";
import type { TlsFiles } from "@diskmesh/rpc";
import { temporaryFolder } from "./folders.js";

/** Certificates signed by one authority, like those that `npm start` makes. */
export interface TestCertificates {
  readonly folder: string;
  /** Files of `operator`, `director`, `cpi-dispatcher`, `disk-registry`, `csi`, `nats` or `disk-agent-<hostId>`. */
  files(name: string): TlsFiles;
}

let folder: string | undefined;
let making: Promise<void> = Promise.resolve();

/** Makes certificates for all roles and the named hosts. All tests in one process share the authority. */
export async function testCertificates(
  options: { readonly hostIds?: readonly string[] } = {},
): Promise<TestCertificates> {
  folder ??= temporaryFolder();
  const into = folder;
  // Runs serially, because two concurrent calls would each create an authority.
  const made = making.then(() => createDevelopmentCertificates(into, { hostIds: options.hostIds ?? [] }));
  making = made.catch(() => {});
  await made;
  return { folder: into, files: (name) => certificateFiles(into, name) };
}

type Holder = Omit<Parameters<typeof issueCertificate>[1], "dnsNames" | "ipAddresses" | "validDays"> & {
  readonly ipAddresses?: readonly string[];
};

/** Issues another certificate with the authority in `folder`. The files are `<name>.pem` and `<name>-key.pem` there. */
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
