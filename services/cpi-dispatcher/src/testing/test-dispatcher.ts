import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { CallContext, CpiConfig, CpiServiceDefinition } from "@diskmesh/api/cpi";
import { type Client, createClient, DEFAULT_RPC_SERVER_LIMITS, RpcServer } from "@diskmesh/rpc";
import { type TestCertificates, temporaryFolder } from "@diskmesh/testkit";
import { dispatcherConfig } from "../config/config.js";
import { CpiConfigs } from "../cpis/cpi-configs.js";
import { CpiLog } from "../cpis/cpi-log.js";
import { CpiSet, type OfferedCpi } from "../cpis/cpi-set.js";
import { Fence } from "../cpis/fence.js";
import { type CpiDescription, CpiMaker } from "../cpis/make-cpis.js";
import { EXECUTABLE_LIMITS } from "../executables/limits.js";
import { RunFolder } from "../executables/run-folder.js";
import { RegistryClients } from "../fleet/registry-client.js";
import { addServices } from "../services.js";

export type CpiClient = Client<typeof CpiServiceDefinition>;

export interface TestDispatcherOptions {
  /** Settings of `executables`. */
  readonly executables?: object;
  /** Overrides of the call limits. */
  readonly limits?: Partial<typeof EXECUTABLE_LIMITS>;
  /** The port to listen on; a free port by default. */
  readonly port?: number;
  /** Creates the CPIs of cpi-configs, instead of executables. */
  readonly makeCpi?: (description: CpiDescription) => OfferedCpi;
  /** Called for each request, regardless of its outcome. */
  readonly onRequest?: (method: string, request: object) => void;
}

/** A dispatcher within the test process, with CPIs of its own and executables by cpi-config. */
export class TestDispatcher {
  readonly folder = temporaryFolder();
  readonly runFolder = join(this.folder, "run");
  readonly #clients: CpiClient[] = [];
  readonly #server: RpcServer;
  readonly #fence = new Fence();
  #registries: RegistryClients | undefined;
  #configs: CpiConfigs | undefined;
  port = 0;

  constructor(
    private readonly certificates: TestCertificates,
    private readonly own: readonly [OfferedCpi, ...OfferedCpi[]],
    private readonly options: TestDispatcherOptions = {},
  ) {
    const limits = { ...DEFAULT_RPC_SERVER_LIMITS, drainTimeoutMs: 1_000 };
    this.#server = new RpcServer({ tls: certificates.files("cpi-dispatcher"), limits });
  }

  async start(): Promise<this> {
    const { executables = {}, limits, port = 0, makeCpi, onRequest } = this.options;
    const tls = this.certificates.files("cpi-dispatcher");
    const listen = { host: "127.0.0.1", port };
    const config = dispatcherConfig.parse({
      listen,
      tls,
      registry: { address: "127.0.0.1:1" },
      executables: { jobsFolder: this.folder, ...executables },
    });
    this.#registries = new RegistryClients(tls);
    this.#configs = new CpiConfigs(new CpiSet(this.own, this.own[0], false));
    const runFolder = await RunFolder.open(this.runFolder);
    const maker = new CpiMaker(config, this.#registries, runFolder, { ...EXECUTABLE_LIMITS, ...limits });
    if (makeCpi) maker.make = makeCpi;
    const server = onRequest ? tapped(this.#server, onRequest) : this.#server;
    const context = { configs: this.#configs, maker, fence: this.#fence, log: new CpiLog() };
    addServices(server, () => context);
    this.port = await this.#server.listen(listen);
    this.#server.setServing(true);
    return this;
  }

  /** Forgets the configs, as a restart does, so that directors must send their cpi-configs again. */
  forgetConfigs(): void {
    for (const { directorId } of this.#configs?.newest() ?? []) this.#configs?.forget(directorId);
  }

  client(name: string): CpiClient {
    const client = createClient(CpiServiceDefinition, {
      address: `127.0.0.1:${this.port}`,
      tls: this.certificates.files(name),
      serverRole: "cpi-dispatcher",
      defaultDeadlineMs: 60_000,
    });
    this.#clients.push(client);
    return client;
  }

  async close(): Promise<void> {
    for (const client of this.#clients) client.close();
    await this.#server.drain();
    await this.#fence.end();
    this.#registries?.close();
  }

  /** Writes a shell script as a CPI's executable and returns the CPI's description. */
  scriptCpi(name: string, script: string, more: Partial<CpiConfig> = {}): CpiConfig {
    const execPath = writeScript(this.folder, name, script);
    return CpiConfig.fromPartial({ name, type: "script", execPath, ...more });
  }

  /** Sets the CPIs of version `v` for the director of `contextOf`. */
  async setCpis(cpis: CpiConfig[], version = "v", generation = 1): Promise<void> {
    const request = { directorId: "d1", directorGeneration: generation, cpiConfigVersion: version, cpis };
    await this.client("director").setCpiConfig(request);
  }
}

/** Wraps the server to report each request to `onRequest`. */
function tapped(
  server: RpcServer,
  onRequest: (method: string, request: object) => void,
): Pick<RpcServer, "addService"> {
  const heard = (method: string, handler: unknown) => (request: object, call: unknown) => {
    onRequest(method, request);
    return (handler as (request: object, call: unknown) => unknown)(request, call);
  };
  return {
    addService: (definition, { roles, handlers }) => {
      const entries = Object.entries(handlers).map(([method, handler]) => [method, heard(method, handler)]);
      server.addService(definition, { roles, handlers: Object.fromEntries(entries) as typeof handlers });
    },
  };
}

export function writeScript(folder: string, name: string, script: string): string {
  const path = join(folder, `${name}.sh`);
  writeFileSync(path, `#!/bin/sh\n${script}\n`);
  chmodSync(path, 0o755);
  return path;
}

export const contextOf = (generation: number, more: Partial<CallContext> = {}): CallContext =>
  CallContext.fromPartial({ directorId: "d1", directorGeneration: generation, requestId: "r1", ...more });
