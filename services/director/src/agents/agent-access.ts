import type { Logger } from "@diskmesh/domain";
import type { NatsConnection } from "@diskmesh/mbus";
import { type Lifecycle, systemClock } from "@diskmesh/service";
import { isDatabaseUrl } from "@diskmesh/tablet";
import { CurrentTls } from "@diskmesh/tls";
import type { DirectorConfig } from "../config.js";
import type { DirectorTablet } from "../stored-schema.js";
import type { AgentCertificates } from "./agent-certificates.js";
import { AgentUsers } from "./agent-users.js";
import { openCalloutIssuer } from "./callout-issuer.js";
import { CalloutUsers } from "./callout-users.js";
import { OtherUsers } from "./other-users.js";
import { WrittenUsers } from "./written-users.js";

interface Parts {
  readonly config: DirectorConfig;
  readonly tablet: DirectorTablet;
  readonly nats: NatsConnection;
  readonly scope: Lifecycle;
  readonly log: Logger;
}

/** Has NATS let in the agents whose certificates are recorded, and nobody whose VM is gone, as long as this director leads. */
export async function keepAgentAccess(parts: Parts, certificates: AgentCertificates): Promise<void> {
  const { config, tablet, nats, scope: lifecycle, log } = parts;
  const { certificates: settings } = config.agents;
  if (settings === undefined) return;
  const clock = systemClock;
  const { id, certPem } = certificates.authority;
  await tablet.transact((tx) => {
    if (tx.agentAuthorities.get(id) === undefined) tx.agentAuthorities.put({ id, certPem, sinceMs: clock.nowMs() });
  });
  const users = lifecycle.use("agent users", new AgentUsers());
  await users.start(tablet);
  const tls = lifecycle.use("TLS files of NATS users", CurrentTls.open(config.tls, log));
  if ("callout" in settings.natsUsers) {
    const { issuerSeedFile, account } = settings.natsUsers.callout;
    const issuer = await openCalloutIssuer(issuerSeedFile, { makes: !isDatabaseUrl(config.tablet.storage) });
    log.info({ issuer: issuer.getPublicKey(), account }, "answers nats-server whom to let in");
    const checkMayAct = () => tablet.checkMayAct();
    const ownTls = lifecycle.use(
      "TLS files of the NATS connection",
      CurrentTls.open(config.nats.tls ?? config.tls, log),
    );
    const callout = new CalloutUsers({ nats, issuer, account, tls, ownTls, users, checkMayAct, clock, log });
    lifecycle.use("NATS users", callout);
    callout.start();
    return;
  }
  const { folder, pidFile, certFiles, certFolder } = settings.natsUsers.written;
  const others = new OtherUsers({ certFiles: [config.tls.certFile, ...certFiles], certFolder, tls, log });
  const written = new WrittenUsers({ folder, pidFile, others, tls, tablet, users, clock, log });
  lifecycle.use("NATS users", written);
  written.start();
}
