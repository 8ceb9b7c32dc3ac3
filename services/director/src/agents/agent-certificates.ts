import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { type AgentAuthority, issueAgentCertificate, openAgentAuthority } from "@diskmesh/pki";
import { isDatabaseUrl } from "@diskmesh/tablet";
import type { DirectorConfig } from "../config.js";
import type { AgentKey, AgentTrust } from "../model/agent-key.js";

/** As BOSH's agents take it; `ca` is what they know NATS by. */
export type MbusCert = {
  readonly ca: string;
  readonly certificate: string;
  readonly private_key: string;
};

export interface IssuedCertificate {
  readonly key: AgentKey;
  readonly cert: MbusCert;
}

/** Signs certificates for the agents of VMs. The private key of each is with its caller alone. */
export class AgentCertificates {
  private constructor(
    readonly authority: AgentAuthority,
    readonly trust: AgentTrust,
    private readonly natsCa: string,
    private readonly validDays: number,
  ) {}

  /** Undefined when the config says nothing of it: then agents have what `agents.settings` gives to all. */
  static async open({ agents, tls, tablet }: DirectorConfig): Promise<AgentCertificates | undefined> {
    const { certificates: config } = agents;
    if (config === undefined) return undefined;
    // Directors on a database may be many, and all need the same.
    const authority = await openAgentAuthority(config.authority, { makes: !isDatabaseUrl(tablet.storage) });
    const ca = await readFile(config.natsCaFile ?? tls.caFile, "utf8");
    const trusted = createHash("sha256").update(ca).digest("hex");
    const trust = { authority: authority.id, trusted };
    return new AgentCertificates(authority, trust, ca, config.validDays);
  }

  async issue(agentId: string): Promise<IssuedCertificate> {
    const issuedAtMs = Date.now();
    const { certPem, keyPem, pin, endsAtMs } = await issueAgentCertificate(this.authority, agentId, this.validDays);
    const cert = { ca: this.natsCa, certificate: certPem, private_key: keyPem };
    return { key: { pin, ...this.trust, issuedAtMs, endsAtMs }, cert };
  }
}
