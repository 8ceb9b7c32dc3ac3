import { createHash } from "node:crypto";
import type { Logger } from "@diskmesh/domain";
import { type AgentAuthority, issueAgentCertificate, openAgentAuthority } from "@diskmesh/pki";
import { isDatabaseUrl } from "@diskmesh/tablet";
import { CurrentTls } from "@diskmesh/tls";
import type { DirectorConfig } from "../config/config.js";
import type { AgentKey, AgentTrust } from "../store/instance.js";

/** A certificate in the format of BOSH agents. `ca` is the authority of the NATS server certificate. */
export type MbusCert = {
  readonly ca: string;
  readonly certificate: string;
  readonly private_key: string;
};

export interface IssuedCertificate {
  readonly key: AgentKey;
  readonly cert: MbusCert;
}

/**
 * Issues certificates for VM agents. Only the caller of `issue` keeps the private key. The NATS CA file is reloaded
 * when it changes.
 */
export class AgentCertificates {
  #read: { readonly ca: Buffer; readonly trusted: string } | undefined;

  private constructor(
    readonly authority: AgentAuthority,
    private readonly nats: CurrentTls,
    private readonly validDays: number,
  ) {}

  /**
   * Returns undefined when the config has no `agents.certificates`. Agents then use the shared certificate of
   * `agents.settings`.
   */
  static async open({ agents, tls, tablet }: DirectorConfig, log: Logger): Promise<AgentCertificates | undefined> {
    const { certificates: config } = agents;
    if (config === undefined) return undefined;
    // Several directors may share a database and need the same authority, so a director with a database requires an
    // existing authority.
    const authority = await openAgentAuthority(config.authority, { makes: !isDatabaseUrl(tablet.storage) });
    const { natsCaFile, validDays } = config;
    const nats =
      natsCaFile === undefined
        ? CurrentTls.open(tls, log)
        : CurrentTls.open({ ...tls, caFile: natsCaFile }, log, "agents.certificates");
    return new AgentCertificates(authority, nats, validDays);
  }

  /** The authority and NATS CA of new certificates. A certificate with a different trust is outdated. */
  get trust(): AgentTrust {
    const { ca } = this.nats.material;
    if (this.#read?.ca !== ca) this.#read = { ca, trusted: createHash("sha256").update(ca).digest("hex") };
    return { authority: this.authority.id, trusted: this.#read.trusted };
  }

  async issue(agentId: string): Promise<IssuedCertificate> {
    const issuedAtMs = Date.now();
    const { trust } = this;
    const ca = String(this.nats.material.ca);
    const { certPem, keyPem, pin, endsAtMs } = await issueAgentCertificate(this.authority, agentId, this.validDays);
    const cert = { ca, certificate: certPem, private_key: keyPem };
    return { key: { pin, ...trust, issuedAtMs, endsAtMs }, cert };
  }

  close(): void {
    this.nats.close();
  }
}
