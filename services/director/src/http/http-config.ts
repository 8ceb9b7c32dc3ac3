import { MIB_BYTES } from "@diskmesh/domain";
import { isPasswordHash } from "@diskmesh/pki/password-hash";
import { durationMsConfig, groupConfig, keyPairConfig, pathConfig, secretConfig } from "@diskmesh/service";
import * as z from "zod";
import { ADMIN } from "../policy.js";

const count = z.int().min(1).max(1_000_000);

/** A name that goes into tasks and log lines. */
export const LOGIN_NAME = /^[\p{L}\p{N}][\p{L}\p{N} ._:@+-]{0,254}$/u;
const SCOPE = /^[\x21\x23-\x5b\x5d-\x7e]{1,255}$/;

const user = z.strictObject({
  name: z
    .string()
    .regex(LOGIN_NAME)
    .refine((name) => !name.includes(":"), "a colon cannot be part of a login's name")
    .describe("What they log in as."),
  passwordHash: secretConfig(z.string().refine(isPasswordHash, "give what `npm run password-hash` prints")).describe(
    "What `npm run password-hash` prints.",
  ),
  scopes: z
    .array(z.string().regex(SCOPE))
    .max(100)
    .default([ADMIN])
    .describe("What they may do, as BOSH names it: bosh.read, bosh.admin and so on."),
});

const tokens = z
  .strictObject({
    url: z.url({ protocol: /^https$/ }).describe("Of the UAA: `bosh log-in` asks it for tokens."),
    keyFile: pathConfig
      .optional()
      .describe("PEM file of the public key that tokens are signed for: RSA, or EC on P-256."),
    jwksUrl: z
      .url({ protocol: /^https$/ })
      .optional()
      .describe("Where the public keys are read instead, as a JSON Web Key Set."),
    issuer: z
      .string()
      .min(1)
      .max(1_024)
      .optional()
      .describe("What tokens must say of who made them, and for whom; not looked at by default."),
    audience: z
      .string()
      .min(1)
      .max(1_024)
      .optional()
      .describe("For whom tokens must say that they are; not looked at by default."),
    jwksTimeoutMs: durationMsConfig.default(5_000).describe("How long reading the keys at `jwksUrl` may take."),
    jwksMaxAgeMs: durationMsConfig.default(600_000).describe("How long keys are used before they are read again."),
  })
  .refine(({ keyFile, jwksUrl }) => (keyFile === undefined) !== (jwksUrl === undefined), {
    path: ["keyFile"],
    message: "give either keyFile or jwksUrl",
  });

/** The HTTPS face that the bosh CLI speaks to. */
export const httpConfig = z
  .strictObject({
    listen: groupConfig("Where the HTTPS face listens.", {
      host: z
        .string()
        .min(1)
        .default("127.0.0.1")
        .describe("An address of this machine: 0.0.0.0 or :: for all, 127.0.0.1 for none but this."),
      port: z.int().min(0).max(65_535).default(25_555).describe("0 lets the system choose."),
    }),
    tls: keyPairConfig
      .optional()
      .describe(
        "A certificate and key of its own, in files of PEM; the director's by default. A director that stands by knows the leader's by `caFile`, by `tls.caFile`, or by a public authority.",
      ),
    users: z.array(user).max(1_000).default([]).describe("Logins with a password."),
    tokens: tokens.optional().describe("Logins with a token of a UAA."),
    maxConnections: count.default(1_000).describe("Connections at once; more are cut at once."),
    maxConnectionsPerAddress: count.default(250).describe("Of them, connections from one address."),
    handshakeTimeoutMs: durationMsConfig.default(10_000).describe("Time for a whole TLS handshake."),
    maxHeaderBytes: z.int().min(1_024).max(65_536).default(16_384).describe("All header lines of a request together."),
    headersTimeoutMs: durationMsConfig.default(10_000).describe("Time for all header lines of a request to come."),
    maxBodyBytes: z
      .int()
      .min(1_024)
      .max(64 * MIB_BYTES)
      .default(4 * MIB_BYTES)
      .describe("Of a request that is no stemcell."),
    requestTimeoutMs: durationMsConfig
      .default(30_000)
      .describe(
        "For a request to come whole and its answer to begin. Of a stemcell, stemcells.idleTimeoutMs holds instead.",
      ),
    leaderWaitMs: durationMsConfig
      .default(15_000)
      .describe("How long a request that comes while no director leads waits for one."),
    keepAliveTimeoutMs: durationMsConfig
      .default(10_000)
      .describe("How long a connection may wait for its next request."),
    drainTimeoutMs: durationMsConfig.default(2_000).describe("How long a stop waits for requests under way."),
    maxConcurrentPasswordChecks: z
      .int()
      .min(1)
      .max(64)
      .default(2)
      .describe(
        "Passwords looked at once, each of which takes 32 MiB and a tenth of a second of a processor; and those that wait.",
      ),
    maxWaitingPasswordChecks: count
      .default(100)
      .describe("Passwords that wait for their turn; half of them may come from one address."),
  })
  .refine(({ users, tokens: given }) => users.length > 0 || given !== undefined, {
    path: ["users"],
    message: "give users, or tokens: nobody could log in",
  })
  .refine(({ users }) => new Set(users.map(({ name }) => name)).size === users.length, {
    path: ["users"],
    message: "two users have the same name",
  });

export type HttpConfig = z.output<typeof httpConfig>;
