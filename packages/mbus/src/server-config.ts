import { identityUri } from "@diskmesh/domain";
import { mbusPermissions } from "./permissions.js";

/** NATS account of the director and the agents. */
export const NATS_ACCOUNT = "MESH";

const CONNECTIONS = "$SYS.REQ.SERVER.PING.CONNZ";
const KICK = "$SYS.REQ.SERVER.*.KICK";
/** Placeholder pin for an empty list, because nats-server accepts every key when the list is empty. */
const PIN_OF_NOBODY = "f".repeat(64);

/**
 * Returns the top-level part of nats-server's configuration that makes it ask the director which clients to accept
 * (auth callout). `issuer` is the public key of the director's answers.
 * Only the director connects without a callout. It lists and closes connections through services of the system account.
 */
export function authCalloutConfig(issuer: string): string {
  const director = { role: "director", name: "" } as const;
  const user = JSON.stringify(identityUri(director));
  const { publish, subscribe } = mbusPermissions(director);
  const list = (subjects: readonly string[]) => `[${subjects.map((subject) => JSON.stringify(subject)).join(", ")}]`;
  return `system_account: SYS
accounts {
  SYS {
    exports: [
      { service: "${CONNECTIONS}", accounts: [${NATS_ACCOUNT}], response_type: stream }
      { service: "${KICK}", accounts: [${NATS_ACCOUNT}] }
    ]
  }
  ${NATS_ACCOUNT} {
    users: [
      { user: ${user}, permissions: {
        publish: ${list([...publish, CONNECTIONS, KICK])}
        subscribe: ${list([...subscribe, "$SYS.REQ.USER.AUTH"])}
        allow_responses: true
      } }
    ]
    imports: [
      { service: { account: SYS, subject: "${CONNECTIONS}" } }
      { service: { account: SYS, subject: "${KICK}" } }
    ]
  }
}
authorization {
  timeout: 10
  auth_callout { issuer: "${issuer}", account: ${NATS_ACCOUNT}, auth_users: [${user}] }
}
`;
}

/** Options of one nats-server. */
export interface NatsServerOptions {
  /** Address to listen on, as host:port. */
  readonly listen: string;
  readonly name: string;
  readonly certFile: string;
  readonly keyFile: string;
  /** Folder with `ca.pem`, and with `auth-callout.conf` of `authCalloutConfig`. */
  readonly natsFolder: string;
  /** Path of that folder for the include, which begins at the configuration's own folder; "nats" by default. */
  readonly include?: string;
}

/** Returns nats-server's configuration: TLS for all clients, and authorisation by the director (auth callout). */
export function natsServerConfig(options: NatsServerOptions): string {
  const { listen, name, certFile, keyFile, natsFolder, include = "nats" } = options;
  // A JSON string is a valid string of the configuration.
  return `listen: ${JSON.stringify(listen)}
server_name: ${JSON.stringify(name)}
max_payload: 1048576
tls {
  cert_file: ${JSON.stringify(certFile)}
  key_file: ${JSON.stringify(keyFile)}
  ca_file: ${JSON.stringify(`${natsFolder}/ca.pem`)}
  verify_and_map: true
  timeout: 5
}
include ${JSON.stringify(`${include}/auth-callout.conf`)}
`;
}

/**
 * Returns the content of `tls` in `cluster`: the servers that may join the cluster, by SHA-256 of their public keys in
 * hex. Without these keys any holder of a mesh certificate could join as a server and read everything.
 */
export function clusterTlsConfig(authoritiesFile: string, pins: readonly string[]): string {
  const pinned = pins.length === 0 ? [PIN_OF_NOBODY] : pins;
  const lines = pinned.map((pin) => `\n  "${pin}"`).join("");
  return `verify: true\nca_file: ${JSON.stringify(authoritiesFile)}\npinned_certs: [${lines}\n]\n`;
}
