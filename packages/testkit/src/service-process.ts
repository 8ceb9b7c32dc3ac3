import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Role } from "@diskmesh/domain";
import { type TlsFiles, waitForHealth } from "@diskmesh/rpc";
import { Child, type Exit } from "./child-process.js";

export interface ServiceProcessOptions {
  /** Names the config and log files. */
  readonly name: string;
  /** The built entry point, e.g. `services/disk-registry/dist/main.js`, absolute. */
  readonly mainFile: string;
  /** Written as the config file of the process. */
  readonly config: object;
  /** Where the config and log files go. */
  readonly folder: string;
  /** How its gRPC health is asked. */
  readonly health: {
    readonly address: string;
    /** The certificate of the caller; any role will do. */
    readonly tls: TlsFiles;
    readonly serverRole: Role;
    readonly serverName?: string;
  };
  readonly waitFor?: WaitFor;
  readonly startTimeoutMs?: number;
  readonly env?: Readonly<Record<string, string>>;
  /** Runs it and becomes it, e.g. `nsenter` with its options. */
  readonly launcher?: readonly string[] | undefined;
}

/**
 * The condition that a start waits for: serving with all dependencies, leading whatever else is away, listening (a
 * standby, an agent without a registry), or nothing.
 */
export type WaitFor = "serving" | "leading" | "listening" | "nothing";

/** On a machine that gives it a hundredth of a processor. */
const START_TIMEOUT_MS = 180_000;

/** Starts a real service process and waits for it as `waitFor` says. */
export async function spawnService(options: ServiceProcessOptions): Promise<ServiceProcess> {
  const service = new ServiceProcess(options);
  await service.start();
  return service;
}

/** A service as its own process, which can be killed and started again. */
export class ServiceProcess {
  #child: Child | undefined;
  #logs = "";
  /** The config of its next start. */
  config: object;
  /** The program of the next start, such as that of another version. */
  mainFile: string;

  constructor(private readonly options: ServiceProcessOptions) {
    this.config = options.config;
    this.mainFile = options.mainFile;
  }

  get pid(): number {
    return this.#running().pid;
  }

  /** Everything all its runs have written. */
  get logs(): string {
    return this.#logs + (this.#child?.output ?? "");
  }

  /** How the current run ended; undefined while it runs. */
  get exit(): Exit | undefined {
    return this.#child?.exit;
  }

  async start(waitFor: WaitFor = this.options.waitFor ?? "serving"): Promise<void> {
    if (this.#child && !this.#child.exit) throw new Error(`${this.options.name} runs already`);
    this.#logs = this.logs;
    const configFile = join(this.options.folder, `${this.options.name}.yaml`);
    // JSON is YAML.
    writeFileSync(configFile, `${JSON.stringify(this.config, null, 2)}\n`, { mode: 0o600 });
    this.#child = new Child({
      name: this.options.name,
      command: process.execPath,
      args: [asStarted(this.mainFile), "--config", configFile],
      launcher: this.options.launcher,
      logFile: join(this.options.folder, `${this.options.name}.log`),
      // Temporary files of a killed process are removed with the test's folder.
      env: { TMPDIR: this.options.folder, ...this.options.env },
    });
    if (waitFor !== "nothing") await this.waitFor(waitFor);
  }

  async waitFor(what: Exclude<WaitFor, "nothing">): Promise<void> {
    const child = this.#running();
    const ended = new AbortController();
    void child.exited.then(() => ended.abort());
    try {
      await waitForHealth({
        ...this.options.health,
        accept: what === "listening" ? "any" : "serving",
        ...(what === "leading" ? { service: "leader" } : {}),
        timeoutMs: this.options.startTimeoutMs ?? START_TIMEOUT_MS,
        signal: ended.signal,
      });
    } catch (error) {
      const why = child.exit ? `it ended with ${formatExit(child.exit)}` : (error as Error).message;
      if (!child.exit) await this.kill();
      throw new Error(`${this.options.name} did not start: ${why}\n${lastLines(child.output)}`);
    }
  }

  /** Sends a signal and does not wait, e.g. SIGSTOP and SIGCONT. */
  signal(signal: NodeJS.Signals): void {
    this.#running().signal(signal);
  }

  /** Ends it at once, as a crash would. */
  async kill(): Promise<void> {
    if (!this.#child || this.#child.exit) return;
    this.#child.signal("SIGKILL");
    await this.#child.exited;
  }

  /** Ends it cleanly with SIGTERM, and returns how it ended. */
  async stop(): Promise<Exit> {
    const child = this.#running();
    child.signal("SIGTERM");
    return child.exited;
  }

  /** Kills it, if it still runs, and starts it again, with another config if one is given. */
  async restart(config: object = this.config, waitFor?: WaitFor): Promise<void> {
    await this.kill();
    this.config = config;
    await this.start(waitFor);
  }

  /** Kills it; for `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.kill();
  }

  #running(): Child {
    if (!this.#child) throw new Error(`${this.options.name} was not started`);
    return this.#child;
  }
}

/** The bundle that users start, where `npm test` made one; by hand a test starts what was compiled last. */
function asStarted(mainFile: string): string {
  return process.env.DISKMESH_BUNDLED === undefined
    ? mainFile
    : mainFile.replace(/dist\/(?:testing\/)?([\w-]*main\.js)$/, "bundle/$1");
}

function formatExit(exit: Exit): string {
  return exit.signal ? `signal ${exit.signal}` : `exit code ${exit.code}`;
}

function lastLines(output: string): string {
  return output.trimEnd().split("\n").slice(-20).join("\n");
}
