import {
  durationMsConfig,
  groupConfig,
  partlySecretConfig,
  pathConfig,
  privateFileConfig,
  secretConfig,
} from "@diskmesh/service";
import * as z from "zod";

/** This maximum lets a deploy, which waits for agents, end within its timeout of 24 h. */
const READY_TIMEOUT_MAX_MS = 12 * 3_600_000;

const text = z.string().min(1);
const pem = z.string().min(1).max(65_536);

const agentCertificatesConfig = z.strictObject({
  authority: z
    .strictObject({
      certFile: pathConfig.describe("PEM: the authority's certificate."),
      keyFile: privateFileConfig.describe("PEM: the authority's private key."),
    })
    .describe(
      "Authority that signs the agents' certificates. If both files are missing and the tablet is a folder, the director creates the authority.",
    ),
  natsCaFile: pathConfig
    .optional()
    .describe(
      "PEM: the authorities by which agents verify NATS servers, reloaded when the file changes; `tls.caFile` by default.",
    ),
  validDays: z
    .number()
    .min(1e-4)
    .max(825)
    .default(90)
    .describe("Lifetime of an agent's certificate, which the director renews after a third of it."),
});

export const agentsConfig = groupConfig("The agents in VMs.", {
  settings: partlySecretConfig(
    groupConfig(
      "Default of BOSH's env.bosh, which agents get by create_vm; the manifest can override it. Treated as a secret.",
      {
        mbus: z
          .strictObject({
            urls: z.array(text).min(1).describe("nats://HOST:PORT of each server."),
            cert: z
              .strictObject({
                ca: pem.describe("PEM: the authorities by which agents verify NATS servers."),
                certificate: pem.describe("PEM: the certificate that all agents share."),
                private_key: secretConfig(pem).describe("PEM: the certificate's private key."),
              })
              .optional()
              .describe("One certificate for all agents; `agents.certificates` gives each agent its own."),
          })
          .optional()
          .describe("NATS servers, at addresses that VMs reach."),
        ntp: z.array(text).optional().describe("NTP servers, by name or address."),
        blobstores: z
          .array(
            z.strictObject({
              provider: text.describe("Blobstore provider as in BOSH: dav, local, s3 and so on."),
              options: secretConfig(z.record(z.string(), z.json()))
                .optional()
                .describe("Options of the provider, including credentials."),
            }),
          )
          .optional()
          .describe("Blobstore of the agents."),
      },
    ),
  ),
  certificates: agentCertificatesConfig
    .optional()
    .describe("A certificate for each agent, instead of the shared `settings.mbus.cert`."),
  natsIssuerSeedFile: privateFileConfig
    .optional()
    .describe(
      "Seed that signs the director's answers to nats-server, which authenticates clients through the director (auth callout). If the file is missing and the tablet is a folder, the director creates it.",
    ),
  readyTimeoutMs: durationMsConfig
    .max(READY_TIMEOUT_MAX_MS)
    .default(600_000)
    .describe("Time within which the agent of a new VM must answer."),
  logs: groupConfig("Logs of VMs, which agents upload to the director's HTTPS API (`http`).", {
    folder: pathConfig
      .prefault("agent-logs")
      .describe("Folder that keeps uploaded logs until the caller has fetched them."),
    url: z
      .url({ protocol: /^https$/ })
      .optional()
      .describe(
        "URL at which agents reach the HTTPS API; by default the host of `advertisedAddress` with `http.listen.port`.",
      ),
    caFile: pathConfig
      .optional()
      .describe(
        "PEM: the authorities by which agents verify the HTTPS API; by default `http.tls.caFile`, or `tls.caFile` if that is not set.",
      ),
  }),
});
