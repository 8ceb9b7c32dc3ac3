import { X509Certificate } from "node:crypto";
import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Identity } from "@diskmesh/domain";
import { issueCertificate, type KeyPair, NATS_COMMON_NAME } from "@diskmesh/pki";
import { temporaryFolder } from "@diskmesh/testkit";

interface Holder {
  readonly identity: Identity;
  /** True keeps the key: NATS identifies users by key, and `diskmesh pki` keeps a key when it renews a certificate. */
  readonly keepsKey?: boolean;
}

const role = (name: Identity["role"]): Holder => ({ identity: { role: name, name: "" } });

/** Certificate files of a mesh, which the test replaces as an operator's tool does. */
export class ReplacedFiles {
  readonly folder = temporaryFolder();
  readonly #holders: Readonly<Record<string, Holder>>;
  readonly #former: string[] = [];
  readonly #revoked: string[] = [];

  constructor(hostIds: readonly string[]) {
    const agents = hostIds.map((name): [string, Identity] => [`disk-agent-${name}`, { role: "disk-agent", name }]);
    const onNats: [string, Identity][] = [["director", { role: "director", name: "" }], ...agents];
    this.#holders = {
      operator: role("operator"),
      director: role("director"),
      "cpi-dispatcher": role("cpi-dispatcher"),
      "disk-registry": role("disk-registry"),
      nats: role("nats"),
      ...Object.fromEntries(agents.map(([name, identity]) => [name, { identity }])),
      ...Object.fromEntries(onNats.map(([name, identity]) => [mbusName(name), { identity, keepsKey: true }])),
    };
  }

  files(name: string) {
    const path = (file: string) => join(this.folder, file);
    const [caFile, revokedFile] = [path("ca.pem"), path("revoked")];
    return { caFile, certFile: path(`${name}.pem`), keyFile: path(`${name}-key.pem`), revokedFile };
  }

  /** Returns the TLS files of a NATS client. */
  mbusFiles(name: string) {
    return this.files(mbusName(name));
  }

  trust(...authorities: readonly KeyPair[]): void {
    this.#replace("ca.pem", authorities.map(({ certPem }) => certPem).join(""));
  }

  async issueAll(authority: KeyPair): Promise<void> {
    for (const [name, holder] of Object.entries(this.#holders)) {
      const { keyFile } = this.files(name);
      const isNats = holder.identity.role === "nats";
      const made = await issueCertificate(authority, {
        identity: holder.identity,
        commonName: isNats ? NATS_COMMON_NAME : name,
        dnsNames: [],
        ipAddresses: isNats ? ["127.0.0.1"] : [],
        validDays: 1,
        usages: ["server", "client"],
        ...(holder.keepsKey && existsSync(keyFile) && { keyPem: readFileSync(keyFile, "utf8") }),
      });
      this.#replace(`${name}-key.pem`, made.keyPem);
      this.#replace(`${name}.pem`, made.certPem);
      this.#former.push(new X509Certificate(made.certPem).serialNumber);
    }
  }

  /** Revokes all certificates except those in use. */
  revokeFormer(): void {
    const inUse = Object.keys(this.#holders).length;
    this.#revoked.push(...this.#former.splice(0, this.#former.length - inUse));
    this.#replace("revoked", this.#revoked.join("\n"));
  }

  #replace(name: string, text: string): void {
    writeFileSync(join(this.folder, `${name}.next`), text, { mode: 0o600 });
    renameSync(join(this.folder, `${name}.next`), join(this.folder, name));
  }
}

const mbusName = (name: string): string => `${name}-on-nats`;
