import type { Logger } from "@diskmesh/domain";
import type { Clock, Lifecycle } from "@diskmesh/service";
import type { DirectorConfig } from "../config.js";
import type { DirectorTablet } from "../stored-schema.js";
import type { AgentCertificates } from "./agent-certificates.js";
import { AgentUsers } from "./agent-users.js";
import { WrittenUsers } from "./written-users.js";

/** Has NATS let in the agents whose certificates are recorded, and nobody whose VM is gone, as long as this director leads. */
export async function keepAgentAccess(
  config: DirectorConfig,
  certificates: AgentCertificates,
  tablet: DirectorTablet,
  lifecycle: Lifecycle,
  clock: Clock,
  log: Logger,
): Promise<void> {
  const { certificates: settings } = config.agents;
  if (settings === undefined) return;
  const { id, certPem } = certificates.authority;
  await tablet.transact((tx) => {
    if (tx.agentAuthorities.get(id) === undefined) tx.agentAuthorities.put({ id, certPem, sinceMs: clock.nowMs() });
  });
  const users = lifecycle.use("agent users", new AgentUsers());
  await users.start(tablet);
  const { folder, pidFile, certFiles } = settings.natsUsers.written;
  const { caFile, certFile } = config.tls;
  const all = [certFile, ...certFiles];
  const written = new WrittenUsers({ folder, pidFile, certFiles: all, caFile, tablet, users, clock, log });
  lifecycle.use("NATS users", written);
  written.start();
}
