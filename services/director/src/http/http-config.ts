import { MIB_BYTES } from "@diskmesh/domain";
import { isPasswordHash } from "@diskmesh/pki/password-hash";
import { durationMsConfig, pathConfig } from "@diskmesh/service";
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
    .refine((name) => !name.includes(":"), "a colon cannot be part of a login's name"),
  /** What `npm run password-hash` prints. */
  passwordHash: z.string().refine(isPasswordHash, "give what `npm run password-hash` prints"),
  scopes: z.array(z.string().regex(SCOPE)).max(100).default([ADMIN]),
});

const tokens = z
  .strictObject({
    /** Of the UAA: `bosh log-in` asks it for tokens. */
    url: z.url({ protocol: /^https$/ }),
    /** PEM file of the public key that tokens are signed for: RSA, or EC on P-256. */
    keyFile: pathConfig.optional(),
    /** Where the public keys are read instead, as a JSON Web Key Set. */
    jwksUrl: z.url({ protocol: /^https$/ }).optional(),
    /** What tokens must say of who made them, and for whom; not looked at by default. */
    issuer: z.string().min(1).max(1_024).optional(),
    audience: z.string().min(1).max(1_024).optional(),
    jwksTimeoutMs: durationMsConfig.default(5_000),
    /** How long keys are used before they are read again. */
    jwksMaxAgeMs: durationMsConfig.default(600_000),
  })
  .refine(({ keyFile, jwksUrl }) => (keyFile === undefined) !== (jwksUrl === undefined), {
    path: ["keyFile"],
    message: "give either keyFile or jwksUrl",
  });

/** The HTTPS face that the bosh CLI speaks to. */
export const httpConfig = z
  .strictObject({
    listen: z
      .strictObject({
        host: z.string().min(1).default("127.0.0.1"),
        port: z.int().min(0).max(65_535).default(25_555),
      })
      .prefault({}),
    /** PEM files of its own certificate and key; the director's by default. */
    tls: z.strictObject({ certFile: pathConfig, keyFile: pathConfig }).optional(),
    users: z.array(user).max(1_000).default([]),
    tokens: tokens.optional(),
    maxConnections: count.default(1_000),
    maxConnectionsPerAddress: count.default(250),
    handshakeTimeoutMs: durationMsConfig.default(10_000),
    /** All header lines of a request together. */
    maxHeaderBytes: z.int().min(1_024).max(65_536).default(16_384),
    headersTimeoutMs: durationMsConfig.default(10_000),
    /** Of a request that is no stemcell. */
    maxBodyBytes: z
      .int()
      .min(1_024)
      .max(64 * MIB_BYTES)
      .default(4 * MIB_BYTES),
    /** For a request to come whole and be answered. Of a stemcell, stemcells.idleTimeoutMs holds instead. */
    requestTimeoutMs: durationMsConfig.default(30_000),
    /** How long a request that comes while no director leads waits for one. */
    leaderWaitMs: durationMsConfig.default(15_000),
    /** How long a connection may wait for its next request. */
    keepAliveTimeoutMs: durationMsConfig.default(10_000),
    /** How long a stop waits for requests under way. */
    drainTimeoutMs: durationMsConfig.default(2_000),
    /** Passwords looked at once, each of which takes 32 MiB and a tenth of a second of a processor; and those that wait. */
    maxConcurrentPasswordChecks: z.int().min(1).max(64).default(2),
    maxWaitingPasswordChecks: count.default(100),
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
