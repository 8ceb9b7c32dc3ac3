import { DiskRegistryServiceDefinition } from "@diskmesh/api/registry";
import { ResourceExhaustedError } from "@diskmesh/domain";
import { type Client, createClient, type TlsFiles } from "@diskmesh/rpc";

export type RegistryClient = Client<typeof DiskRegistryServiceDefinition>;

// Never reached: each call carries the rest of its caller's own deadline.
const DEFAULT_DEADLINE_MS = 30_000;

/** Registries that fleet CPIs name, in all: each keeps a connection until the dispatcher restarts. */
const MAX_REGISTRIES = 100;

/** One client for each registry, however many fleet CPIs and versions of their config name it. */
export class RegistryClients {
  readonly #clients = new Map<string, RegistryClient & { close(): void }>();

  constructor(private readonly tls: TlsFiles) {}

  /** Returns the client of the registry at an address, or of the leader among several. */
  at(address: string | readonly string[]): RegistryClient {
    const key = [address].flat().join(",");
    const known = this.#clients.get(key);
    if (known) return known;
    if (this.#clients.size >= MAX_REGISTRIES)
      throw new ResourceExhaustedError(
        `this dispatcher has clients of ${MAX_REGISTRIES} registries already: restart it to have it forget those that are gone`,
      );
    const client = createClient(DiskRegistryServiceDefinition, {
      address,
      tls: this.tls,
      serverRole: "disk-registry",
      defaultDeadlineMs: DEFAULT_DEADLINE_MS,
    });
    this.#clients.set(key, client);
    return client;
  }

  close(): void {
    for (const client of this.#clients.values()) client.close();
  }
}
