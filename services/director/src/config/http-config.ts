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
    .describe("User name."),
  passwordHash: secretConfig(z.string().refine(isPasswordHash, "give the output of `npm run password-hash`")).describe(
    "Output of `npm run password-hash`.",
  ),
  scopes: z
    .array(z.string().regex(SCOPE))
    .max(100)
    .default([ADMIN])
    .describe("Scopes as in BOSH: bosh.read, bosh.admin and so on."),
});

const tokens = z
  .strictObject({
    url: z.url({ protocol: /^https$/ }).describe("URL of the UAA, from which `bosh log-in` gets tokens."),
    keyFile: pathConfig.optional().describe("PEM: the public key that verifies tokens, RSA or EC on P-256."),
    jwksUrl: z
      .url({ protocol: /^https$/ })
      .optional()
      .describe("URL of a JSON Web Key Set with the public keys, instead of `keyFile`."),
    issuer: z
      .string()
      .min(1)
      .max(1_024)
      .optional()
      .describe("Issuer (`iss`) that tokens must have; not checked by default."),
    audience: z
      .string()
      .min(1)
      .max(1_024)
      .optional()
      .describe("Audience (`aud`) that tokens must have; not checked by default."),
  })
  .refine(({ keyFile, jwksUrl }) => (keyFile === undefined) !== (jwksUrl === undefined), {
    path: ["keyFile"],
    message: "give either keyFile or jwksUrl",
  });

/** The HTTPS API for the bosh CLI. */
export const httpConfig = z
  .strictObject({
    listen: groupConfig("Listen address of the HTTPS API.", {
      host: z
        .string()
        .min(1)
        .default("127.0.0.1")
        .describe("An address of this machine: 0.0.0.0 or :: for all, 127.0.0.1 for local clients only."),
      port: z.int().min(0).max(65_535).default(25_555).describe("0 lets the system choose."),
    }),
    tls: keyPairConfig
      .optional()
      .describe(
        "PEM: certificate and key of the HTTPS API; the director's by default. A standby verifies the leader's certificate by `caFile`, by `tls.caFile`, or by a public authority.",
      ),
    users: z.array(user).max(1_000).default([]).describe("Logins with a password."),
    tokens: tokens
      .optional()
      .describe(
        "Logins with a token of a UAA. The bosh CLI then asks the UAA; `users` are for the page and other clients.",
      ),
  })
  .refine(({ users, tokens: given }) => users.length > 0 || given !== undefined, {
    path: ["users"],
    message: "give users or tokens: without both nobody could log in",
  })
  .refine(({ users }) => new Set(users.map(({ name }) => name)).size === users.length, {
    path: ["users"],
    message: "two users have the same name",
  });

export type HttpConfig = z.output<typeof httpConfig>;
