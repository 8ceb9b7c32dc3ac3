import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Child, eventually, temporaryFolder } from "@diskmesh/testkit";
import { type CsiClients, csiClients } from "../client.js";
import type { CsiConfig } from "../config.js";
import type { Mode } from "../start.js";

const START_TIMEOUT_MS = 120_000;

/** A driver in its own process, which can be killed and started again. */
export class DriverProcess implements AsyncDisposable {
  readonly clients: CsiClients;
  readonly socketPath: string;
  readonly #folder = temporaryFolder();
  #child: Child;

  private constructor(
    private readonly config: Partial<CsiConfig>,
    private readonly modes: readonly Mode[],
  ) {
    this.socketPath = join(this.#folder, "csi.sock");
    this.#child = this.#start();
    this.clients = csiClients(this.socketPath);
  }

  /** Starts the driver, and waits until it answers. */
  static async start(config: object, ...modes: readonly Mode[]): Promise<DriverProcess> {
    const driver = new DriverProcess(config, modes);
    try {
      await driver.#answers();
      return driver;
    } catch (error) {
      await driver[Symbol.asyncDispose]();
      throw error;
    }
  }

  get output(): string {
    return this.#child.output;
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.signal(signal);
  }

  async killAndStart(): Promise<void> {
    this.#child.signal("SIGKILL");
    await this.#child.exited;
    this.#child = this.#start();
    await this.#answers();
  }

  /** Stops the driver as an init system does. Resolves to its exit code. */
  async stop(): Promise<number | null> {
    this.#child.signal("SIGTERM");
    return (await this.#child.exited).code;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.clients.close();
    this.#child.signal("SIGKILL");
    await this.#child.exited;
  }

  async #answers(): Promise<void> {
    const ended = this.#child.exited.then(() => Promise.reject(new Error(`the driver ended: ${this.#child.output}`)));
    ended.catch(() => {});
    // A client of a killed driver first finds that its connection is lost.
    const answered = eventually(() => this.clients.identity.probe({}), { timeoutMs: START_TIMEOUT_MS });
    await Promise.race([answered, ended]);
  }

  #start(): Child {
    const configFile = join(this.#folder, "csi-driver.yaml");
    writeFileSync(configFile, JSON.stringify(this.config));
    return new Child({
      name: "csi-driver",
      command: process.execPath,
      args: [
        fileURLToPath(new URL("../main.js", import.meta.url)),
        ...this.modes.map((mode) => `--${mode}`),
        "--config",
        configFile,
      ],
      env: { CSI_ENDPOINT: `unix://${this.socketPath}` },
      logFile: join(this.#folder, "csi-driver.log"),
    });
  }
}
