import { DiskRegistryServiceDefinition } from "@diskmesh/api/registry";
import { ResourceExhaustedError } from "@diskmesh/domain";
import { type Client, createClient, type TlsFiles } from "@diskmesh/rpc";

export type RegistryClient = Client<typeof DiskRegistryServiceDefinition>;

// Unused in practice, because each call has its caller's remaining deadline.
const DEFAULT_DEADLINE_MS = 30_000;

/** Maximum registries named by fleet CPIs in total. Each keeps a connection until the dispatcher restarts. */
const MAX_REGISTRIES = 100;

/** Shares a client per registry among all fleet CPIs and config versions. */
export class RegistryClients {
  readonly #clients = new Map<string, RegistryClient & { close(): void }>();

  constructor(private readonly tls: TlsFiles) {}

  /** Returns the client of the registry at an address, or of the leader among several addresses. */
  at(address: string | readonly string[]): RegistryClient {
    const key = [address].flat().join(",");
    const known = this.#clients.get(key);
    if (known) return known;
    if (this.#clients.size >= MAX_REGISTRIES)
      throw new ResourceExhaustedError(
        `this dispatcher has reached its limit of ${MAX_REGISTRIES} registries: restart it, which drops registries that are no longer configured`,
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
