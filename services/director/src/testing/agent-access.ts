import { X509Certificate } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Identity, identityUri } from "@diskmesh/domain";
import { mbusPermissions, serverUsersFiles } from "@diskmesh/mbus";
import { identifiedKey, openAgentAuthority } from "@diskmesh/pki";
import type { NatsOptions, TestCertificates } from "@diskmesh/testkit";
import { openCalloutIssuer } from "../agents/callout-issuer.js";

/** How NATS learns who its users are. */
export type NatsUsers = "written" | "callout";

interface AgentAccess {
  readonly nats: Pick<NatsOptions, "usersFolder" | "blocks" | "caFile">;
  /** Of the director. */
  readonly config: { readonly agents: object };
}

/** Of certificates of agents of hosts, which come when a test puts them there. */
export const HOSTS_FOLDER = "hosts";

const DIRECTOR: Identity = { role: "director", name: "" };

/** What NATS and a director are to be told so that each agent has a certificate of its own; undefined without `how`. */
export async function agentAccess(
  folder: string,
  certs: TestCertificates,
  how: NatsUsers | undefined,
): Promise<AgentAccess | undefined> {
  if (how === undefined) return undefined;
  const authority = { certFile: join(folder, "agents-ca.pem"), keyFile: join(folder, "agents-ca-key.pem") };
  const { nats, natsUsers } = how === "written" ? written(folder, certs) : await callout(folder, certs, authority);
  const certificates = { authority, checkIntervalMs: 200, natsUsers };
  // An agent starts once a test sees its VM.
  const waits = { requestTimeoutMs: 2_000, detachTimeoutMs: 500, readyTimeoutMs: 60_000, lostAfterMs: 3_000 };
  return { nats, config: { agents: { ...waits, certificates } } };
}

function written(folder: string, certs: TestCertificates) {
  const usersFolder = join(folder, "nats");
  const { caFile, certFile } = certs.files("director");
  const { identity, pin } = identifiedKey(new X509Certificate(readFileSync(certFile)));
  const first = serverUsersFiles(usersFolder, [{ identity, pins: [pin] }], [readFileSync(caFile, "utf8")]);
  const certFolder = join(folder, HOSTS_FOLDER);
  for (const each of [usersFolder, certFolder]) mkdirSync(each);
  for (const [path, text] of first) writeFileSync(path, text);
  const pidFile = join(usersFolder, "nats-server.pid");
  return { nats: { usersFolder }, natsUsers: { written: { folder: usersFolder, pidFile, certFolder } } };
}

/** As README has it. */
async function callout(folder: string, certs: TestCertificates, authority: Parameters<typeof openAgentAuthority>[0]) {
  const issuerSeedFile = join(folder, "issuer.seed");
  const issuer = await openCalloutIssuer(issuerSeedFile, { makes: true });
  const { certPem } = await openAgentAuthority(authority, { makes: true });
  const caFile = join(folder, "nats-ca.pem");
  writeFileSync(caFile, readFileSync(certs.files("nats").caFile, "utf8") + certPem);
  const user = identityUri(DIRECTOR);
  const { publish, subscribe } = mbusPermissions(DIRECTOR);
  const [list, kick] = ["$SYS.REQ.SERVER.PING.CONNZ", "$SYS.REQ.SERVER.*.KICK"];
  const permissions = {
    publish: [...publish, list, kick],
    subscribe: [...subscribe, "$SYS.REQ.USER.AUTH"],
    allow_responses: true,
  };
  const imported = [list, kick].map((subject) => ({ service: { account: "SYS", subject } }));
  const exported = [
    { service: list, accounts: ["MESH"], response_type: "stream" },
    { service: kick, accounts: ["MESH"] },
  ];
  const blocks = {
    system_account: "SYS",
    accounts: { SYS: { exports: exported }, MESH: { users: [{ user, permissions }], imports: imported } },
    authorization: {
      timeout: 10,
      auth_callout: { issuer: issuer.getPublicKey(), account: "MESH", auth_users: [user] },
    },
  };
  return {
    nats: { caFile, blocks },
    natsUsers: { callout: { issuerSeedFile, account: "MESH" } },
  };
}
