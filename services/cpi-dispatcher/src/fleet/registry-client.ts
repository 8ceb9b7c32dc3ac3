import { DiskRegistryServiceDefinition } from "@diskmesh/api/registry";
import { ResourceExhaustedError } from "@diskmesh/domain";
import { type Client, createClient, type TlsFiles } from "@diskmesh/rpc";

export type RegistryClient = Client<typeof DiskRegistryServiceDefinition>;

// Never reached: each call carries the rest of its caller's own deadline.
const DEFAULT_DEADLINE_MS = 30_000;

/** One client for each registry, however many fleet CPIs and versions of their config name it. */
export class RegistryClients {
  readonly #clients = new Map<string, RegistryClient & { close(): void }>();

  constructor(
    private readonly tls: TlsFiles,
    private readonly limits: { readonly maxRegistries: number },
  ) {}

  /** Of the registry at an address, or of the one that leads of several. */
  at(address: string | readonly string[]): RegistryClient {
    const key = [address].flat().join(",");
    const known = this.#clients.get(key);
    if (known) return known;
    const { maxRegistries } = this.limits;
    if (this.#clients.size >= maxRegistries)
      throw new ResourceExhaustedError(
        `this dispatcher has clients of ${maxRegistries} registries already (limits.maxRegistries): raise it, or restart it`,
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
