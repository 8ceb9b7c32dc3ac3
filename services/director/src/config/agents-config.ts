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
      certFile: pathConfig.describe("PEM: the certificate of the authority."),
      keyFile: privateFileConfig.describe("PEM: its private key."),
    })
    .describe("Signs them. Where the tablet is a folder it is made when neither file is there."),
  natsCaFile: pathConfig
    .optional()
    .describe("The authorities by which agents know NATS, taken up when the file changes; `tls.caFile` by default."),
  validDays: z
    .number()
    .min(1e-4)
    .max(825)
    .default(90)
    .describe("An agent gets another one when a third of it is over."),
});

export const agentsConfig = groupConfig("The agents in VMs.", {
  settings: partlySecretConfig(
    groupConfig(
      "Given to agents in the env of create_vm, unless the manifest says otherwise: BOSH's env.bosh. Held secret.",
      {
        mbus: z
          .strictObject({
            urls: z.array(text).min(1).describe("nats://HOST:PORT of each server."),
            cert: z
              .strictObject({
                ca: pem.describe("PEM: the authorities by which agents know NATS."),
                certificate: pem.describe("PEM: the certificate that all agents have."),
                private_key: secretConfig(pem).describe("PEM: its private key."),
              })
              .optional()
              .describe("One certificate for all agents; `agents.certificates` gives each its own."),
          })
          .optional()
          .describe("NATS, as agents in VMs reach it."),
        ntp: z.array(text).optional().describe("Time servers, by name or address."),
        blobstores: z
          .array(
            z.strictObject({
              provider: text.describe("Its kind, as BOSH names it: dav, local, s3 and so on."),
              options: secretConfig(z.record(z.string(), z.json()))
                .optional()
                .describe("What that kind needs, credentials included."),
            }),
          )
          .optional()
          .describe("Where agents keep and find blobs."),
      },
    ),
  ),
  certificates: agentCertificatesConfig
    .optional()
    .describe("A certificate for each agent, in place of `settings.mbus.cert`, which is one for all."),
  natsIssuerSeedFile: privateFileConfig
    .optional()
    .describe(
      "Signs the answers to nats-server, which asks the director whom to let in (auth callout). Where the tablet is a folder it is made when it is not there.",
    ),
  readyTimeoutMs: durationMsConfig
    .max(READY_TIMEOUT_MAX_MS)
    .default(600_000)
    .describe("How long a new VM's agent may take to answer."),
  logs: groupConfig("Logs of agents, which they put into the HTTPS face (`http`) for whoever asked for them.", {
    folder: pathConfig.prefault("agent-logs").describe("Where they are kept until whoever asked has fetched them."),
    url: z
      .url({ protocol: /^https$/ })
      .optional()
      .describe(
        "Where agents reach the HTTPS face; by default the host of `advertisedAddress` with `http.listen.port`.",
      ),
    caFile: pathConfig
      .optional()
      .describe(
        "PEM: the authorities by which agents know its certificate; by default `http.tls.caFile`, or `tls.caFile` without that.",
      ),
  }),
});
