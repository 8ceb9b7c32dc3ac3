import { mkdir, readFile } from "node:fs/promises";
import { replaceFile } from "@diskmesh/atomic-file";
import { type Logger, messageOf } from "@diskmesh/domain";
import { isToldOnceMore, reloadServer, serverTlsFile, serverUsersFiles } from "@diskmesh/mbus";
import type { Clock } from "@diskmesh/service";
import type { CurrentTls } from "@diskmesh/tls";
import type { DirectorTablet } from "../stored-schema.js";
import type { AgentUsers } from "./agent-users.js";
import type { OtherUsers } from "./other-users.js";

export interface WrittenUsersOptions {
  /** Where the files are that nats-server's configuration includes. */
  readonly folder: string;
  readonly pidFile: string;
  /** All others whom NATS lets in. */
  readonly others: OtherUsers;
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
/** Long beside what nats-server takes to read what it was told. */
const ONCE_MORE_MS = 1_000;
/** Certificates of others are renewed without anybody saying so. */
const LOOK_INTERVAL_MS = 2_000;

/** Writes down for nats-server on this machine whom it lets in, and has it read that, whenever it changes. */
export class WrittenUsers {
  readonly #options: WrittenUsersOptions;
  readonly #closed = new AbortController();
  #unwatch = () => {};
  /** Of those who were told last. */
  #toldOthers = "";
  #isStale = true;
  /** What it says of keys, once nats-server was told. */
  #toldTls: string | undefined;
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
      const waitMs = isToldOnceMore(this.#toldTls ?? "") ? ONCE_MORE_MS : GATHER_MS;
      await clock.sleep(failures > 0 ? RETRY_MS : waitMs, signal).catch(() => {});
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
    const others = await this.#options.others.all();
    const toldOthers = JSON.stringify([own, others]);
    // Then nothing is asked of the state, which may be away for a while.
    if (!isStale && toldOthers === this.#toldOthers) return;
    const authorities = await tablet.read((tables) =>
      [...tables.agentAuthorities.entries()].map(({ certPem }) => certPem),
    );
    const agents = users.all();
    tablet.checkMayAct();
    await mkdir(folder, { recursive: true });
    let isChanged = isStale;
    const tlsFile = serverTlsFile(folder);
    this.#toldTls ??= await readFile(tlsFile, "utf8").catch(() => "");
    const files = serverUsersFiles(folder, [...others, ...agents], [own, ...authorities], this.#toldTls);
    for (const [path, text] of files)
      if (text !== (await readFile(path, "utf8").catch(() => undefined))) {
        isChanged = true;
        await replaceFile(path, text, { mode: 0o644 });
      }
    if (isChanged) await reloadServer(pidFile);
    this.#toldOthers = toldOthers;
    this.#toldTls = files.get(tlsFile) ?? "";
    if (isToldOnceMore(this.#toldTls)) this.#isStale = true;
    if (!isChanged) return;
    log.info({ agents: agents.length, others: others.length }, "told nats-server who its users are");
  }
}
