import { readFileSync } from "node:fs";
import { type Identity, identityUri } from "@diskmesh/domain";
import { mbusPermissions } from "@diskmesh/mbus";
import { publicKeyPin } from "@diskmesh/pki";
import { agentName, HOSTS, type MeshLayout } from "./layout.js";

/** The configuration of nats-server: TLS for everybody, and each certificate's own subjects. */
export function natsConfig(layout: MeshLayout): string {
  const { caFile, certFile, keyFile } = layout.tlsFiles("nats");
  const identities: Identity[] = [
    { role: "director", name: "" },
    ...HOSTS.map(({ hostId }) => ({ role: "disk-agent" as const, name: hostId })),
  ];
  const pins = identities.map((identity) => publicKeyPin(readFileSync(certFileOf(layout, identity), "utf8"), identity));
  // verify_and_map takes the first of a certificate's e-mail addresses, DNS names and URIs that is a user, so of one with
  // two identities the first: only certificates that were looked at are let in. JSON strings are valid there.
  return `listen: ${quote(layout.natsAddress)}
server_name: "diskmesh-local"
max_payload: 1048576
tls {
  ca_file: ${quote(caFile)}
  cert_file: ${quote(certFile)}
  key_file: ${quote(keyFile)}
  verify_and_map: true
  timeout: 5
  pinned_certs: [${pins.map(quote).join(", ")}]
}
authorization {
  users: [
${identities.map((identity) => `    ${userOf(identity)}`).join("\n")}
  ]
}
`;
}

function certFileOf(layout: MeshLayout, { role, name }: Identity): string {
  return layout.tlsFiles(role === "disk-agent" ? agentName(name) : "director").certFile;
}

function userOf(identity: Identity): string {
  const { publish, subscribe } = mbusPermissions(identity);
  const list = (subjects: readonly string[]) => `[${subjects.map(quote).join(", ")}]`;
  return `{ user: ${quote(identityUri(identity))}, permissions: { publish: ${list(publish)}, subscribe: ${list(subscribe)} } }`;
}

function quote(text: string): string {
  return JSON.stringify(text);
}
