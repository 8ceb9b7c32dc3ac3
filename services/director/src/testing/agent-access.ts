import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { authCalloutConfig, openCalloutIssuer } from "@diskmesh/mbus";
import { openAgentAuthority } from "@diskmesh/pki";
import type { TestCertificates } from "@diskmesh/testkit";

/** The parts of the NATS and director configs that control agent access. */
export type AgentAccess = Awaited<ReturnType<typeof agentAccess>>;

/** Returns the config with which each agent has its own certificate, as `diskmesh nats-config` creates it. */
export async function agentAccess(folder: string, certs: TestCertificates) {
  const authority = { certFile: join(folder, "agents-ca.pem"), keyFile: join(folder, "agents-ca-key.pem") };
  const natsIssuerSeedFile = join(folder, "nats-issuer.seed");
  const issuer = await openCalloutIssuer(natsIssuerSeedFile, { makes: true });
  const { certPem } = await openAgentAuthority(authority, { makes: true });
  const [caFile, authFile] = [join(folder, "nats-ca.pem"), join(folder, "auth-callout.conf")];
  writeFileSync(caFile, readFileSync(certs.files("nats").caFile, "utf8") + certPem);
  writeFileSync(authFile, authCalloutConfig(issuer.getPublicKey()));
  // Generous, because an agent starts only after the test has seen its VM.
  const agents = { readyTimeoutMs: 60_000, natsIssuerSeedFile, certificates: { authority } };
  const waits = { requestTimeoutMs: 2_000, detachTimeoutMs: 500, lostAfterMs: 3_000, certificateCheckIntervalMs: 200 };
  return { nats: { caFile, authFile }, config: { agents }, tuning: { agents: waits } };
}
