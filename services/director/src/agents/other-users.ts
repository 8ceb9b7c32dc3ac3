import { X509Certificate } from "node:crypto";
import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { type Logger, messageOf } from "@diskmesh/domain";
import type { ServerUser } from "@diskmesh/mbus";
import { identifiedKey } from "@diskmesh/pki";
import type { CurrentTls } from "@diskmesh/tls";

export interface OtherUsersOptions {
  readonly certFiles: readonly string[];
  /** Its `*.pem` count that are of directors and of agents of hosts. */
  readonly certFolder?: string | undefined;
  readonly tls: Pick<CurrentTls, "isRevoked">;
  readonly log: Logger;
}

interface ReadCertificate {
  /** When and what it was read of. */
  readonly version: string;
  readonly user: ServerUser;
  readonly serialNumber: string;
}

/** Those whom NATS lets in by the files of their certificates, which may be renewed, come and go. */
export class OtherUsers {
  readonly #options: OtherUsersOptions;
  #read = new Map<string, ReadCertificate>();
  readonly #unreadable = new Map<string, string>();

  constructor(options: OtherUsersOptions) {
    this.#options = options;
  }

  /** One whose certificate cannot be read is left out: all others are still to be let in. */
  async all(): Promise<ServerUser[]> {
    const { certFiles, tls } = this.#options;
    const files = [...certFiles, ...(await this.#filesInFolder())];
    const found = await Promise.all(files.map(async (file) => [file, await this.#certificateIn(file)] as const));
    this.#read = new Map(found.flatMap(([file, read]) => (read === undefined ? [] : [[file, read]])));
    return [...this.#read]
      .filter(([file, read]) => !tls.isRevoked(read.serialNumber) && (certFiles.includes(file) || isUser(read.user)))
      .map(([, { user }]) => user);
  }

  async #filesInFolder(): Promise<string[]> {
    const { certFolder } = this.#options;
    if (certFolder === undefined) return [];
    try {
      const names = (await readdir(certFolder)).filter(
        (name) => /^[^.].*(?<!-key)\.pem$/.test(name) && name !== "ca.pem",
      );
      return names.sort().map((name) => join(certFolder, name));
    } catch (error) {
      this.#tellUnreadable(certFolder, messageOf(error));
      return [];
    }
  }

  async #certificateIn(file: string): Promise<ReadCertificate | undefined> {
    try {
      const { mtimeMs, size, ino } = await stat(file);
      const version = `${mtimeMs} ${size} ${ino}`;
      const former = this.#read.get(file);
      if (former?.version === version) return former;
      const certificate = new X509Certificate(await readFile(file, "utf8"));
      const { identity, pin } = identifiedKey(certificate);
      this.#unreadable.delete(file);
      return { version, user: { identity, pins: [pin] }, serialNumber: certificate.serialNumber };
    } catch (error) {
      this.#tellUnreadable(file, messageOf(error));
      return undefined;
    }
  }

  /** Once for each reason: it is looked at again and again. */
  #tellUnreadable(file: string, error: string): void {
    if (this.#unreadable.get(file) === error) return;
    this.#unreadable.set(file, error);
    const text = "a certificate cannot be read: NATS does not let its holder in";
    this.#options.log.warn({ certFile: file, error }, text);
  }
}

const isUser = ({ identity: { role } }: ServerUser): boolean => role === "director" || role === "disk-agent";
