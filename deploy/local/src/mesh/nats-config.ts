import { mkdir, readFile } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { replaceFile } from "@diskmesh/atomic-file";
import { authCalloutConfig, natsServerConfig, openCalloutIssuer } from "@diskmesh/mbus";
import { openAgentAuthority } from "@diskmesh/pki";
import type { MeshLayout } from "./layout.js";

/** Writes nats-server's configuration: TLS for all clients, and authorisation by the director (auth callout). */
export async function writeNatsConfig(layout: MeshLayout): Promise<void> {
  await mkdir(layout.natsFolder, { recursive: true, mode: 0o700 });
  const issuer = await openCalloutIssuer(layout.natsIssuerSeedFile, { makes: true });
  const agents = await openAgentAuthority(layout.agentAuthority, { makes: true });
  const mesh = await readFile(layout.tlsFiles("nats").caFile, "utf8");
  await replaceFile(join(layout.natsFolder, "ca.pem"), mesh + agents.certPem);
  await replaceFile(join(layout.natsFolder, "auth-callout.conf"), authCalloutConfig(issuer.getPublicKey()));
  const { certFile, keyFile } = layout.tlsFiles("nats");
  const { natsFolder, natsAddress: listen } = layout;
  const include = relative(dirname(layout.configFile("nats-server")), natsFolder);
  const config = natsServerConfig({ listen, name: "diskmesh-local", certFile, keyFile, natsFolder, include });
  await replaceFile(layout.configFile("nats-server", "conf"), config);
}
