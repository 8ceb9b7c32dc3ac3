import { DiskAgentServiceService } from "@diskmesh/api/agent";
import type { HostId } from "@diskmesh/domain";
import { type Client, createClient, type TlsFiles } from "@diskmesh/rpc";
import type { Host } from "./model/schema.js";

export type AgentClient = Client<typeof DiskAgentServiceService>;

/** One connection per host, made with its first order. The agent must carry the host's name in its certificate. */
export class AgentClients {
  readonly #clients = new Map<HostId, { readonly address: string; readonly client: AgentClient }>();
  readonly #tls: TlsFiles;
  readonly #defaultDeadlineMs: number;
  readonly #checkMayAct: () => void;

  constructor(options: {
    readonly tls: TlsFiles;
    readonly defaultDeadlineMs: number;
    /** Throws while another registry may lead. */
    readonly checkMayAct: () => void;
  }) {
    this.#tls = options.tls;
    this.#checkMayAct = options.checkMayAct;
    this.#defaultDeadlineMs = options.defaultDeadlineMs;
  }

  /** For sending at once: what was read before an await may be another leader's to order by now. */
  of(host: Host): AgentClient {
    this.#checkMayAct();
    const known = this.#clients.get(host.hostId);
    if (known?.address === host.address) return known.client;
    known?.client.close();
    const client = createClient(DiskAgentServiceService, {
      address: host.address,
      tls: this.#tls,
      serverRole: "disk-agent",
      serverName: host.hostId,
      defaultDeadlineMs: this.#defaultDeadlineMs,
    });
    this.#clients.set(host.hostId, { address: host.address, client });
    return client;
  }

  /** The host is gone for good. */
  forget(hostId: HostId): void {
    this.#clients.get(hostId)?.client.close();
    this.#clients.delete(hostId);
  }

  close(): void {
    for (const { client } of this.#clients.values()) client.close();
    this.#clients.clear();
  }
}
