import { X509Certificate } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, readFile } from "node:fs/promises";
import { dirname, relative } from "node:path";
import { replaceFile } from "@diskmesh/atomic-file";
import { type ServerUser, serverUsersFiles } from "@diskmesh/mbus";
import { identifiedKey } from "@diskmesh/pki";
import { agentName, HOSTS, type MeshLayout } from "./layout.js";

/**
 * Writes the configuration of nats-server: TLS for everybody, and whom it lets in. The latter is the director's, which
 * writes it anew as VMs come and go; it is begun here for the director to connect at all, and kept: VMs may be there from
 * an earlier run.
 */
export async function writeNatsConfig(layout: MeshLayout): Promise<void> {
  await mkdir(layout.natsFolder, { recursive: true, mode: 0o700 });
  for (const [path, text] of await firstUsersFiles(layout)) if (!existsSync(path)) await replaceFile(path, text);
  await replaceFile(layout.configFile("nats-server", "conf"), natsConfig(layout));
}

/** Certificates of those hosts' agents that NATS lets in, beside the director and the agents of its VMs. */
export function natsCertFiles(layout: MeshLayout): string[] {
  return HOSTS.map(({ hostId }) => layout.tlsFiles(agentName(hostId)).certFile);
}

async function firstUsersFiles(layout: MeshLayout): Promise<ReadonlyMap<string, string>> {
  const { caFile, certFile } = layout.tlsFiles("director");
  const users = await Promise.all(
    [certFile, ...natsCertFiles(layout)].map(async (file): Promise<ServerUser> => {
      const { identity, pin } = identifiedKey(new X509Certificate(await readFile(file)));
      return { identity, pins: [pin] };
    }),
  );
  return serverUsersFiles(layout.natsFolder, users, [await readFile(caFile, "utf8")]);
}

function natsConfig(layout: MeshLayout): string {
  const { certFile, keyFile } = layout.tlsFiles("nats");
  // Relative to this file's folder, whatever they look like. JSON strings are valid there.
  const include = (name: string) =>
    `include ${quote(`${relative(dirname(layout.configFile("nats-server")), layout.natsFolder)}/${name}`)}`;
  return `listen: ${quote(layout.natsAddress)}
server_name: "diskmesh-local"
pid_file: ${quote(layout.natsPidFile)}
max_payload: 1048576
tls {
  cert_file: ${quote(certFile)}
  key_file: ${quote(keyFile)}
  verify_and_map: true
  timeout: 5
  ${include("tls.conf")}
}
authorization {
  ${include("authorization.conf")}
}
`;
}

function quote(text: string): string {
  return JSON.stringify(text);
}
