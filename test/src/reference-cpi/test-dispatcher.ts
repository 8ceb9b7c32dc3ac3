import { join } from "node:path";
import { type CpiConfig, CpiServiceDefinition } from "@diskmesh/api/cpi";
import { newCall } from "@diskmesh/cpi/testing";
import { type Client, createClient } from "@diskmesh/rpc";
import { freePort, type ServiceProcess, spawnService, type TestCertificates, temporaryFolder } from "@diskmesh/testkit";
import { repositoryFolder } from "../repository-folder.js";

export const CPI_CONFIG_VERSION = "v1";

/** A dispatcher process, and a director's client of it. */
export class TestDispatcher implements AsyncDisposable {
  private constructor(
    readonly process: ServiceProcess,
    readonly director: Client<typeof CpiServiceDefinition>,
    /** Folder in which CPIs are installed. */
    readonly folder: string,
    readonly runFolder: string,
  ) {}

  static async start(certificates: TestCertificates, executables: object = {}): Promise<TestDispatcher> {
    const folder = temporaryFolder();
    const port = await freePort();
    const address = `127.0.0.1:${port}`;
    const runFolder = join(folder, "run");
    const process = await spawnService({
      name: "cpi-dispatcher",
      mainFile: join(repositoryFolder, "services/cpi-dispatcher/dist/main.js"),
      folder,
      config: {
        listen: { host: "127.0.0.1", port },
        tls: certificates.files("cpi-dispatcher"),
        log: { level: "warn" },
        registry: { address: "127.0.0.1:1" },
        executables: { jobsFolder: folder, runFolder, ...executables },
      },
      health: { address, tls: certificates.files("operator"), serverRole: "cpi-dispatcher" },
    });
    const director = createClient(CpiServiceDefinition, {
      address,
      tls: certificates.files("director"),
      serverRole: "cpi-dispatcher",
      defaultDeadlineMs: 60_000,
    });
    return new TestDispatcher(process, director, folder, runFolder);
  }

  async setCpis(cpis: CpiConfig[], cpiConfigVersion = CPI_CONFIG_VERSION): Promise<void> {
    const { directorId } = newCall();
    await this.director.setCpiConfig({ directorId, directorGeneration: 1, cpiConfigVersion, cpis });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.director.close();
    await this.process.kill();
  }
}
