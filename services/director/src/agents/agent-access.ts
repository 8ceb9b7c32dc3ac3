import type { Logger } from "@diskmesh/domain";
import { type NatsConnection, openCalloutIssuer } from "@diskmesh/mbus";
import { type Lifecycle, systemClock } from "@diskmesh/service";
import { isDatabaseUrl } from "@diskmesh/tablet";
import { CurrentTls } from "@diskmesh/tls";
import type { DirectorConfig } from "../config/config.js";
import type { DirectorTablet } from "../store/stored-schema.js";
import type { AgentCertificates } from "./agent-certificates.js";
import { AgentUsers } from "./agent-users.js";
import { CalloutUsers } from "./callout-users.js";

interface Parts {
  readonly config: DirectorConfig;
  readonly tablet: DirectorTablet;
  readonly nats: NatsConnection;
  readonly scope: Lifecycle;
  readonly log: Logger;
}

/**
 * Answers nats-server's auth callouts for host agents and recorded VM agents while this director leads. Does nothing
 * when the config has no `natsIssuerSeedFile`, because nats-server then does not ask this director.
 */
export async function keepAgentAccess(parts: Parts, certificates: AgentCertificates | undefined): Promise<void> {
  const { config, tablet, nats, scope: lifecycle, log } = parts;
  const { natsIssuerSeedFile } = config.agents;
  if (natsIssuerSeedFile === undefined) return;
  const clock = systemClock;
  if (certificates !== undefined) {
    const { id, certPem } = certificates.authority;
    await tablet.transact((tx) => {
      if (tx.agentAuthorities.get(id) === undefined) tx.agentAuthorities.put({ id, certPem, sinceMs: clock.nowMs() });
    });
  }
  const users = lifecycle.use("agent users", new AgentUsers());
  await users.start(tablet);
  const tls = lifecycle.use("TLS files of NATS users", CurrentTls.open(config.tls, log));
  const ownTls = lifecycle.use("TLS files of the NATS connection", CurrentTls.open(config.nats.tls ?? config.tls, log));
  const issuer = await openCalloutIssuer(natsIssuerSeedFile, { makes: !isDatabaseUrl(config.tablet.storage) });
  log.info({ issuer: issuer.getPublicKey() }, "NATS auth callout responder started");
  const checkMayAct = () => tablet.checkMayAct();
  lifecycle.use("NATS users", new CalloutUsers({ nats, issuer, tls, ownTls, users, checkMayAct, clock, log })).start();
}
