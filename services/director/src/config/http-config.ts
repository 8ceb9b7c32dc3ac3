import { isPasswordHash } from "@diskmesh/pki/password-hash";
import { groupConfig, keyPairConfig, pathConfig, secretConfig } from "@diskmesh/service";
import * as z from "zod";
import { ADMIN } from "./policy.js";

/** A login name that is safe in tasks and log lines. */
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
  })
  .refine(({ keyFile, jwksUrl }) => (keyFile === undefined) !== (jwksUrl === undefined), {
    path: ["keyFile"],
    message: "give either keyFile or jwksUrl",
  });

/** The HTTPS API for the bosh CLI. */
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
