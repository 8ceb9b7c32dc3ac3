import { identityUri } from "@diskmesh/domain";
import { mbusPermissions } from "./permissions.js";

/** The account of NATS in which the director and the agents are. */
export const NATS_ACCOUNT = "MESH";

const CONNECTIONS = "$SYS.REQ.SERVER.PING.CONNZ";
const KICK = "$SYS.REQ.SERVER.*.KICK";
/** Stands among the keys when there are none: to nats-server an empty list is no list, and it would let in everybody. */
const PIN_OF_NOBODY = "f".repeat(64);

/**
 * Returns what nats-server's configuration includes at its top level, so that nats-server asks the director whom to let in
 * (auth callout). `issuer` is the public key that the director signs its answers with.
 *
 * Only the director is let in unasked. It lists connections and closes them by services of the system account.
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
 * Returns what `tls` of `cluster` includes: which servers are let into the cluster, by SHA-256 of their public keys in
 * hex. Without these keys any holder of a certificate of the mesh could join as a server and read everything.
 */
export function clusterTlsConfig(authoritiesFile: string, pins: readonly string[]): string {
  const pinned = pins.length === 0 ? [PIN_OF_NOBODY] : pins;
  const lines = pinned.map((pin) => `\n  "${pin}"`).join("");
  return `verify: true\nca_file: ${JSON.stringify(authoritiesFile)}\npinned_certs: [${lines}\n]\n`;
}
