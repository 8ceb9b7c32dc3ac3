import { X509Certificate } from "node:crypto";
import { mkdir, readFile } from "node:fs/promises";
import { replaceFile } from "@diskmesh/atomic-file";
import { InvalidStateError, type Logger, messageOf } from "@diskmesh/domain";
import { type ServerUser, serverUsersFiles } from "@diskmesh/mbus";
import { identifiedKey } from "@diskmesh/pki";
import type { Clock } from "@diskmesh/service";
import type { CurrentTls } from "@diskmesh/tls";
import type { DirectorTablet } from "../stored-schema.js";
import type { AgentUsers } from "./agent-users.js";

export interface WrittenUsersOptions {
  /** Where the files are that nats-server's configuration includes. */
  readonly folder: string;
  readonly pidFile: string;
  /** Certificates of all others whom NATS lets in. */
  readonly certFiles: readonly string[];
  /** Whose certificates count that are no VM agents'. */
  readonly tls: CurrentTls;
  readonly tablet: DirectorTablet;
  readonly users: AgentUsers;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Changes that come sooner after each other are written together: deploys make many VMs at once. */
const GATHER_MS = 100;
const RETRY_MS = 2_000;
/** Certificates of others are renewed without anybody saying so. */
const LOOK_INTERVAL_MS = 2_000;

/** Writes down for nats-server on this machine whom it lets in, and has it read that, whenever it changes. */
export class WrittenUsers {
  readonly #options: WrittenUsersOptions;
  readonly #closed = new AbortController();
  #unwatch = () => {};
  readonly #unreadable = new Map<string, string>();
  #isStale = true;
  #wake = () => {};
  #running = Promise.resolve();

  constructor(options: WrittenUsersOptions) {
    this.#options = options;
  }

  start(): void {
    this.#unwatch = this.#options.users.onChange(() => {
      this.#isStale = true;
      this.#wake();
    });
    this.#options.tls.onChange(() => this.#wake());
    this.#running = this.#run();
  }

  async close(): Promise<void> {
    this.#unwatch();
    this.#closed.abort();
    this.#wake();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { signal } = this.#closed;
    const { clock, log } = this.#options;
    for (let failures = 0; !signal.aborted; ) {
      await this.#due();
      if (signal.aborted) return;
      const isStale = this.#isStale;
      this.#isStale = false;
      try {
        await this.#tell(isStale);
        failures = 0;
      } catch (error) {
        this.#isStale = true;
        // Until then agents of new VMs are not let in, and those of deleted ones still are.
        if (failures++ % 30 === 0)
          log.error(
            { alert: "nats_users", error: messageOf(error) },
            "cannot tell nats-server who its users are; tried again",
          );
      }
      await clock.sleep(failures > 0 ? RETRY_MS : GATHER_MS, signal).catch(() => {});
    }
  }

  /** Resolves when users have come or gone, and from time to time. */
  async #due(): Promise<void> {
    const { clock } = this.#options;
    if (this.#isStale || this.#closed.signal.aborted) return;
    const woken = new AbortController();
    this.#wake = () => woken.abort();
    await clock.sleep(LOOK_INTERVAL_MS, woken.signal).catch(() => {});
    this.#wake = () => {};
  }

  /** Writes what has changed; the server reads it again if anything has, or whenever `isStale`. */
  async #tell(isStale: boolean): Promise<void> {
    const { folder, pidFile, tls, tablet, users, log } = this.#options;
    const own = String(tls.material.ca);
    const [others, authorities] = await Promise.all([
      this.#others(),
      tablet.read((tables) => [...tables.agentAuthorities.entries()].map(({ certPem }) => certPem)),
    ]);
    const agents = users.all();
    tablet.checkMayAct();
    await mkdir(folder, { recursive: true });
    let isChanged = isStale;
    for (const [path, text] of serverUsersFiles(folder, [...others, ...agents], [own, ...authorities]))
      if (text !== (await readFile(path, "utf8").catch(() => undefined))) {
        isChanged = true;
        await replaceFile(path, text, { mode: 0o644 });
      }
    if (!isChanged) return;
    await reload(pidFile);
    log.info({ agents: agents.length, others: others.length }, "told nats-server who its users are");
  }

  /** One whose certificate cannot be read is left out: all others are still to be let in. */
  async #others(): Promise<ServerUser[]> {
    const { certFiles, tls } = this.#options;
    const found = await Promise.all(
      certFiles.map(async (certFile) => {
        try {
          const certificate = new X509Certificate(await readFile(certFile, "utf8"));
          const { identity, pin } = identifiedKey(certificate);
          if (tls.isRevoked(certificate.serialNumber)) return undefined;
          return { identity, pins: [pin] };
        } catch (error) {
          this.#tellUnreadable(certFile, messageOf(error));
          return undefined;
        }
      }),
    );
    return found.filter((user) => user !== undefined);
  }

  /** Once for each reason: it is looked at again and again. */
  #tellUnreadable(certFile: string, error: string): void {
    if (this.#unreadable.get(certFile) === error) return;
    this.#unreadable.set(certFile, error);
    const text = "a certificate cannot be read: NATS does not let its holder in";
    this.#options.log.warn({ certFile, error }, text);
  }
}

/** Has the nats-server of a pid file read its configuration again. */
async function reload(pidFile: string): Promise<void> {
  const text = await readFile(pidFile, "utf8").catch(() => "");
  const pid = Number(text.trim());
  if (!Number.isInteger(pid) || pid <= 1)
    throw new InvalidStateError(`${pidFile} names no process: nats-server does not run`);
  // To most programs the signal is their end, and a pid that was left in the file may be anybody's by now.
  const program = await readFile(`/proc/${pid}/comm`, "utf8").catch(() => "");
  if (program.trim() !== "nats-server")
    throw new InvalidStateError(
      `process ${pid} of ${pidFile} is no nats-server: see that it runs, and writes that file`,
    );
  process.kill(pid, "SIGHUP");
}
