import { DiskRegistryServiceService } from "@diskmesh/api/registry";
import { type Client, createClient, type TlsFiles } from "@diskmesh/rpc";

export type RegistryClient = Client<typeof DiskRegistryServiceService>;

// Never reached: each call carries the rest of its caller's own deadline.
const DEFAULT_DEADLINE_MS = 30_000;

/** Makes a client of the disk registry at an address, or of the one that leads of several. */
export function connectRegistry(address: string | readonly string[], tls: TlsFiles): RegistryClient {
  return createClient(DiskRegistryServiceService, {
    address,
    tls,
    serverRole: "disk-registry",
    defaultDeadlineMs: DEFAULT_DEADLINE_MS,
  });
}
