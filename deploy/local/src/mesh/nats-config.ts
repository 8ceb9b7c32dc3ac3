import { mkdir, readFile } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { replaceFile } from "@diskmesh/atomic-file";
import { authCalloutConfig, openCalloutIssuer } from "@diskmesh/mbus";
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
  await replaceFile(layout.configFile("nats-server", "conf"), natsConfig(layout));
}

function natsConfig(layout: MeshLayout): string {
  const { certFile, keyFile } = layout.tlsFiles("nats");
  // The includes are relative to the configuration's own folder. A JSON string is a valid string there.
  const folder = relative(dirname(layout.configFile("nats-server")), layout.natsFolder);
  return `listen: ${JSON.stringify(layout.natsAddress)}
server_name: "diskmesh-local"
max_payload: 1048576
tls {
  cert_file: ${JSON.stringify(certFile)}
  key_file: ${JSON.stringify(keyFile)}
  ca_file: ${JSON.stringify(join(layout.natsFolder, "ca.pem"))}
  verify_and_map: true
  timeout: 5
}
include ${JSON.stringify(`${folder}/auth-callout.conf`)}
`;
}
