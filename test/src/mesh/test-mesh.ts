import { mkdirSync, truncateSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { identityUri, parseHostId, type Role } from "@diskmesh/domain";
import { mbusPermissions } from "@diskmesh/mbus";
import type { TlsFiles } from "@diskmesh/rpc";
import {
  freePort,
  type NatsServer,
  type NatsUser,
  ServiceProcess,
  startNats,
  type TestCertificates,
  temporaryFolder,
  testCertificates,
} from "@diskmesh/testkit";
import { repositoryFolder } from "../repository-folder.js";
import { MeshClients } from "./mesh-clients.js";

const STARTED_TOGETHER = 4;

export interface TestMeshOptions {
  readonly hosts: number;
  readonly devicesPerHost: number;
  readonly deviceSizeBytes: number;
  /** Laid over the config of each service of that name. */
  readonly overrides?: Partial<Record<ServiceName, object>>;
}

export type ServiceName = "director" | "cpi-dispatcher" | "disk-registry" | "disk-agent";

/** A whole mesh of real processes in a temporary folder, all hosts in az z1, which tests may kill and restart. */
export class TestMesh implements AsyncDisposable {
  readonly processes = new Map<string, ServiceProcess>();
  readonly clients: MeshClients;
  readonly operatorFiles: TlsFiles;

  private constructor(
    readonly folder: string,
    readonly hostIds: readonly string[],
    readonly nats: NatsServer,
    certificates: TestCertificates,
    readonly addresses: ReadonlyMap<string, string>,
  ) {
    this.operatorFiles = certificates.files("operator");
    this.clients = new MeshClients(this.operatorFiles, addresses);
  }

  /** Starts everything and waits until all of it serves. */
  static async start(options: TestMeshOptions): Promise<TestMesh> {
    const folder = temporaryFolder();
    const hostIds = Array.from({ length: options.hosts }, (_, index) => `host-${index + 1}`);
    const certificates = await testCertificates({ hostIds });
    const nats = await startNats({ folder, certs: certificates, users: natsUsers(hostIds) });
    const names = ["director", "cpi-dispatcher", "disk-registry", ...hostIds];
    const addresses = new Map<string, string>();
    for (const name of names) addresses.set(name, `127.0.0.1:${await freePort()}`);
    const mesh = new TestMesh(folder, hostIds, nats, certificates, addresses);
    try {
      for (const name of names) mesh.processes.set(name, mesh.#process(name, options, certificates));
      await mesh.process("disk-registry").start();
      await mesh.process("cpi-dispatcher").start();
      await mesh.process("director").start();
      // A few at a time: starting is all processor time, and each start has a limit.
      for (let first = 0; first < hostIds.length; first += STARTED_TOGETHER)
        await Promise.all(hostIds.slice(first, first + STARTED_TOGETHER).map((hostId) => mesh.process(hostId).start()));
      return mesh;
    } catch (error) {
      await mesh[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** The process of a service, or of the agent of a host. */
  process(name: string): ServiceProcess {
    const process = this.processes.get(name);
    if (process === undefined) throw new Error(`no process ${name}`);
    return process;
  }

  /** Where the agent of a host keeps its exports and links. */
  baseFolder(hostId: string): string {
    return join(this.folder, "agents", hostId);
  }

  deviceFile(hostId: string, index: number): string {
    return join(this.folder, "devices", hostId, `${index + 1}.img`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.clients.close();
    await Promise.all([...this.processes.values()].map((process) => process.kill()));
    await this.nats.kill();
  }

  #process(name: string, options: TestMeshOptions, certificates: TestCertificates): ServiceProcess {
    const isAgent = this.hostIds.includes(name);
    const service: ServiceName = isAgent ? "disk-agent" : (name as ServiceName);
    const address = this.#address(name);
    const [host, port] = address.split(":");
    const tls = certificates.files(isAgent ? `disk-agent-${name}` : name);
    const config = {
      listen: { host, port: Number(port) },
      tls,
      ...(isAgent ? this.#agentConfig(name, options, tls) : this.#serviceConfig(service)),
      ...options.overrides?.[service],
    };
    return new ServiceProcess({
      name,
      mainFile: join(repositoryFolder, "services", service, "dist/main.js"),
      config,
      folder: this.folder,
      // As deploy/local does: a hung device file holds a thread of the pool.
      ...(isAgent ? { env: { UV_THREADPOOL_SIZE: "64" } } : {}),
      health: {
        address,
        tls: certificates.files("operator"),
        serverRole: service satisfies Role,
        ...(isAgent ? { serverName: name } : {}),
      },
    });
  }

  #serviceConfig(service: ServiceName): object {
    const storage = join(this.folder, "data", service);
    switch (service) {
      case "director":
        return {
          tablet: { storage },
          dispatcher: { address: this.#address("cpi-dispatcher") },
          nats: { servers: [this.nats.address] },
          dynamicDisks: { enabled: true },
        };
      case "cpi-dispatcher":
        return { registry: { address: this.#address("disk-registry") } };
      default:
        return { tablet: { storage }, heartbeat: { intervalMs: 500, timeoutMs: 3_000 } };
    }
  }

  #agentConfig(hostId: string, options: TestMeshOptions, tls: object): object {
    const devices = Array.from({ length: options.devicesPerHost }, (_, index) => {
      const path = this.deviceFile(hostId, index);
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, "");
      truncateSync(path, options.deviceSizeBytes);
      return { deviceId: `${hostId}-device-${index + 1}`, path };
    });
    return {
      hostId,
      az: "z1",
      rack: `rack-${hostId}`,
      registry: { address: this.#address("disk-registry") },
      baseFolder: this.baseFolder(hostId),
      devices,
      nats: { servers: [this.nats.address], tls },
    };
  }

  #address(name: string): string {
    const address = this.addresses.get(name);
    if (address === undefined) throw new Error(`no address of ${name}`);
    return address;
  }
}

function natsUsers(hostIds: readonly string[]): NatsUser[] {
  const identities = [
    { role: "director", name: "" } as const,
    ...hostIds.map((hostId) => ({ role: "disk-agent", name: parseHostId(hostId) }) as const),
  ];
  return identities.map((identity) => ({ user: identityUri(identity), ...mbusPermissions(identity) }));
}
