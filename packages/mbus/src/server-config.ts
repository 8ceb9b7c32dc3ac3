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

/**
 * Returns the content of `tls` in `cluster`: the servers that may join the cluster, by SHA-256 of their public keys in
 * hex. Without these keys any holder of a mesh certificate could join as a server and read everything.
 */
export function clusterTlsConfig(authoritiesFile: string, pins: readonly string[]): string {
  const pinned = pins.length === 0 ? [PIN_OF_NOBODY] : pins;
  const lines = pinned.map((pin) => `\n  "${pin}"`).join("");
  return `verify: true\nca_file: ${JSON.stringify(authoritiesFile)}\npinned_certs: [${lines}\n]\n`;
}
