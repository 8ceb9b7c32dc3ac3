import { execFile } from "node:child_process";
import { closeSync, ftruncateSync, mkdirSync, openSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { CpiServiceDefinition } from "@diskmesh/api/cpi";
import { AttachState, DiskRegistryServiceDefinition } from "@diskmesh/api/registry";
import { MIB_BYTES, type Role } from "@diskmesh/domain";
import { type Client, createClient, type ServiceDefinition } from "@diskmesh/rpc";
import {
  eventually,
  freePort,
  type ServiceProcess,
  spawnService,
  type TestCertificates,
  temporaryFolder,
  testCertificates,
} from "@diskmesh/testkit";

const HOST_IDS = ["host-1", "host-2"];
const DEVICES_PER_HOST = 12;

/** Starts the registry, two agents of an AZ and the dispatcher, each as its own process. */
export class TestFleet {
  /** The agents' processes by host id. */
  readonly agents = new Map<string, ServiceProcess>();
  readonly #closers: (() => unknown)[] = [];
  readonly #folder = temporaryFolder();

  private constructor(
    readonly certs: TestCertificates,
    readonly registryAddress: string,
    readonly dispatcherAddress: string,
  ) {}

  static async start(): Promise<TestFleet> {
    const certs = await testCertificates({ hostIds: HOST_IDS });
    const fleet = new TestFleet(certs, await freeAddress(), await freeAddress());
    try {
      await fleet.#startAll();
    } catch (error) {
      await fleet.stop();
      throw error;
    }
    return fleet;
  }

  /** Returns a dispatcher client with the named certificate. */
  dispatcher(name: string): Client<typeof CpiServiceDefinition> {
    return this.#client(CpiServiceDefinition, this.dispatcherAddress, name, "cpi-dispatcher");
  }

  registry(): Client<typeof DiskRegistryServiceDefinition> {
    return this.#client(DiskRegistryServiceDefinition, this.registryAddress, "operator", "disk-registry");
  }

  async stop(): Promise<void> {
    for (const close of this.#closers.splice(0).reverse()) await close();
  }

  async #startAll(): Promise<void> {
    await this.#startRegistry();
    const registry = { address: this.registryAddress };
    await Promise.all([
      ...HOST_IDS.map((hostId) => this.#startAgent(hostId)),
      this.#spawn("cpi-dispatcher", this.dispatcherAddress, "cpi-dispatcher", { registry }),
    ]);
    await this.#takeIntoOperation();
  }

  async #startRegistry(): Promise<void> {
    const tablet = { storage: join(this.#folder, "state") };
    const tls = this.certs.files("disk-registry");
    const configFile = join(this.#folder, "init.yaml");
    writeFileSync(configFile, JSON.stringify({ listen: { host: "127.0.0.1", port: 0 }, tls, tablet }));
    const init = fileURLToPath(new URL("../../../disk-registry/dist/init.js", import.meta.url));
    await promisify(execFile)(process.execPath, [init, "--config", configFile]);
    await this.#spawn("disk-registry", this.registryAddress, "disk-registry", { tablet });
  }

  async #startAgent(hostId: string): Promise<void> {
    const baseFolder = join(this.#folder, hostId);
    mkdirSync(baseFolder);
    const devices = Array.from({ length: DEVICES_PER_HOST }, (_, index) => ({
      deviceId: `${hostId}-${index}`,
      path: sparseFile(join(this.#folder, `${hostId}-device-${index}`)),
    }));
    const agent = await this.#spawn("disk-agent", await freeAddress(), `disk-agent-${hostId}`, {
      hostId,
      az: "z1",
      baseFolder,
      devices,
      registry: { address: this.registryAddress },
      engine: "node",
    });
    this.agents.set(hostId, agent);
  }

  async #takeIntoOperation(): Promise<void> {
    const registry = this.registry();
    for (const hostId of HOST_IDS)
      await eventually(async () => (await registry.addHost({ hostId })).result?.code === "ACTION_CODE_S_ALREADY");
    const isReady = async () => {
      const request = { attachState: AttachState.ATTACHED, pageSize: 1_000 };
      const { devices } = await registry.listDevices(request);
      return devices.filter((device) => !device.dirty).length === HOST_IDS.length * DEVICES_PER_HOST;
    };
    await eventually(isReady);
  }

  async #spawn(service: Role, address: string, name: string, config: object): Promise<ServiceProcess> {
    const [host, port] = address.split(":");
    const process = await spawnService({
      name,
      mainFile: fileURLToPath(new URL(`../../../${service}/dist/main.js`, import.meta.url)),
      config: { listen: { host, port: Number(port) }, tls: this.certs.files(name), log: { level: "warn" }, ...config },
      folder: this.#folder,
      health: { address, tls: this.certs.files("operator"), serverRole: service },
    });
    this.#closers.push(() => process.kill());
    return process;
  }

  #client<Definition extends ServiceDefinition>(
    definition: Definition,
    address: string,
    name: string,
    serverRole: Role,
  ): Client<Definition> {
    const client = createClient(definition, {
      address,
      tls: this.certs.files(name),
      serverRole,
      defaultDeadlineMs: 60_000,
    });
    this.#closers.push(() => client.close());
    return client;
  }
}

function sparseFile(path: string): string {
  const descriptor = openSync(path, "wx");
  ftruncateSync(descriptor, MIB_BYTES);
  closeSync(descriptor);
  return path;
}

async function freeAddress(): Promise<string> {
  return `127.0.0.1:${await freePort()}`;
}
