import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Role } from "@diskmesh/domain";
import { type TlsFiles, waitForHealth } from "@diskmesh/rpc";
import { Child, type Exit } from "./child-process.js";

export interface ServiceProcessOptions {
  /** Base name of the config and log files. */
  readonly name: string;
  /** Absolute path of the compiled entry point, e.g. of `services/disk-registry/dist/main.js`. */
  readonly mainFile: string;
  /** Content of the process's config file. */
  readonly config: object;
  /** Folder of the config and log files. */
  readonly folder: string;
  /** Parameters of the gRPC health check. */
  readonly health: {
    readonly address: string;
    /** Certificate of the caller, of any role. */
    readonly tls: TlsFiles;
    readonly serverRole: Role;
    readonly serverName?: string;
  };
  readonly waitFor?: WaitFor;
  readonly startTimeoutMs?: number;
  readonly env?: Readonly<Record<string, string>>;
  /** Command prefix that executes the program, e.g. `nsenter` with its options. */
  readonly launcher?: readonly string[] | undefined;
}

/**
 * Condition that a start waits for. `serving`: all dependencies are available. `leading`: leads, even if dependencies
 * are unavailable. `listening`: answers health checks, e.g. as a standby or an agent without a registry.
 */
export type WaitFor = "serving" | "leading" | "listening" | "nothing";

/** Sized for a machine that gives the service 1 % of a CPU. */
const START_TIMEOUT_MS = 180_000;

/** Starts a real service process and waits for the condition `waitFor`. */
export async function spawnService(options: ServiceProcessOptions): Promise<ServiceProcess> {
  const service = new ServiceProcess(options);
  await service.start();
  return service;
}

/** A service in its own process, which can be killed and restarted. */
export class ServiceProcess {
  #child: Child | undefined;
  #logs = "";
  /** Config used at the next start. */
  config: object;
  /** Entry point used at the next start; a test may set that of another version. */
  mainFile: string;

  constructor(private readonly options: ServiceProcessOptions) {
    this.config = options.config;
    this.mainFile = options.mainFile;
  }

  get pid(): number {
    return this.#running().pid;
  }

  /** Output of all its runs. */
  get logs(): string {
    return this.#logs + (this.#child?.output ?? "");
  }

  /** Result of the current run; undefined while it runs. */
  get exit(): Exit | undefined {
    return this.#child?.exit;
  }

  async start(waitFor: WaitFor = this.options.waitFor ?? "serving"): Promise<void> {
    if (this.#child && !this.#child.exit) throw new Error(`${this.options.name} runs already`);
    this.#logs = this.logs;
    const configFile = this.#writeConfig();
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

  /** Has the running process read another config, and the next start, too. */
  reload(config: object): void {
    this.config = config;
    this.#writeConfig();
    this.signal("SIGHUP");
  }

  #writeConfig(): string {
    const configFile = join(this.options.folder, `${this.options.name}.yaml`);
    // Writes JSON, which every YAML parser accepts.
    writeFileSync(configFile, `${JSON.stringify(this.config, null, 2)}\n`, { mode: 0o600 });
    return configFile;
  }

  /** Sends a signal, e.g. SIGSTOP or SIGCONT, without waiting for its effect. */
  signal(signal: NodeJS.Signals): void {
    this.#running().signal(signal);
  }

  /** Kills it with SIGKILL, as a crash would. */
  async kill(): Promise<void> {
    if (!this.#child || this.#child.exit) return;
    this.#child.signal("SIGKILL");
    await this.#child.exited;
  }

  async stop(): Promise<Exit> {
    const child = this.#running();
    child.signal("SIGTERM");
    return child.exited;
  }

  /** Kills it if it runs, and starts it again. */
  async restart(config: object = this.config, waitFor?: WaitFor): Promise<void> {
    await this.kill();
    this.config = config;
    await this.start(waitFor);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.kill();
  }

  #running(): Child {
    if (!this.#child) throw new Error(`${this.options.name} was not started`);
    return this.#child;
  }
}

/** Returns the path of the bundle that users run, if `npm test` built one; otherwise the compiled file. */
function asStarted(mainFile: string): string {
  return process.env.DISKMESH_BUNDLED === undefined
    ? mainFile
    : mainFile.replace(/services\/([\w-]+)\/dist\/(?:testing\/)?([\w-]*main\.js)$/, "bundle/$1-$2");
}

function formatExit(exit: Exit): string {
  return exit.signal ? `signal ${exit.signal}` : `exit code ${exit.code}`;
}

function lastLines(output: string): string {
  return output.trimEnd().split("\n").slice(-20).join("\n");
}
