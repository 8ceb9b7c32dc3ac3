import {
  ConfigServiceService,
  DeploymentServiceService,
  DynamicDiskServiceService,
  TaskServiceService,
} from "@diskmesh/api/director";
import { DiskRegistryServiceService } from "@diskmesh/api/registry";
import type { Role } from "@diskmesh/domain";
import { createClient, type ServiceDefinition, type TlsFiles } from "@diskmesh/rpc";

/** An operator's clients of a mesh's services. */
export class MeshClients {
  readonly registry;
  readonly configs;
  readonly deployments;
  readonly disks;
  readonly tasks;
  readonly #open: { close(): void }[] = [];

  constructor(
    private readonly tls: TlsFiles,
    private readonly addresses: ReadonlyMap<string, string>,
  ) {
    this.registry = this.#client(DiskRegistryServiceService, "disk-registry");
    this.configs = this.#client(ConfigServiceService, "director");
    this.deployments = this.#client(DeploymentServiceService, "director");
    this.disks = this.#client(DynamicDiskServiceService, "director");
    this.tasks = this.#client(TaskServiceService, "director");
  }

  close(): void {
    for (const client of this.#open) client.close();
  }

  #client<Definition extends ServiceDefinition>(definition: Definition, service: Role) {
    const address = this.addresses.get(service) ?? "";
    const client = createClient(definition, { address, tls: this.tls, serverRole: service, defaultDeadlineMs: 30_000 });
    this.#open.push(client);
    return client;
  }
}
