import { MIB_BYTES } from "@diskmesh/domain";
import {
  durationMsConfig,
  groupConfig,
  partlySecretConfig,
  pathConfig,
  privateFileConfig,
  secretConfig,
} from "@diskmesh/service";
import * as z from "zod";

const HOUR_MS = 3_600_000;
const GIB_BYTES = 1024 * MIB_BYTES;
const largeSizeBytes = z
  .int()
  .min(1)
  .max(1024 * GIB_BYTES);
const count = z.int().min(1).max(1_000_000);
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
  checkIntervalMs: durationMsConfig
    .default(60_000)
    .describe("How often the director looks for certificates that are due."),
});

/** How the director and the agents in VMs work together. */
export const agentsConfig = groupConfig("The agents in VMs.", {
  requestTimeoutMs: durationMsConfig.default(45_000).describe("How long an agent may take to answer."),
  taskPollIntervalMs: durationMsConfig.default(20).describe("How often an agent is asked whether it is done."),
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
  readyTimeoutMs: durationMsConfig.default(600_000).describe("How long a new VM's agent may take to answer."),
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
    timeoutMs: durationMsConfig.default(900_000).describe("How long an agent may take to pack and send them."),
    maxBytesPerAgent: largeSizeBytes.default(GIB_BYTES).describe("Logs of one agent, packed."),
    maxKeptBytes: largeSizeBytes
      .default(8 * GIB_BYTES)
      .describe("All that are kept or being fetched; the oldest give way."),
    keptMs: durationMsConfig.default(HOUR_MS).describe("How long they are kept."),
  }),
  lostAfterMs: durationMsConfig
    .default(45_000)
    .describe(
      "An agent that a deploy asks in vain for so long is lost, and its VM is made anew. The CPI has as long to say no.",
    ),
  unresponsiveAfterMs: durationMsConfig
    .default(90_000)
    .describe("An agent that was not heard for so long is called unresponsive. BOSH's beat every 30 s."),
  healthRecordIntervalMs: durationMsConfig
    .default(300_000)
    .describe("How often what agents say of themselves is recorded, for the next director."),
  stopTimeoutMs: durationMsConfig
    .default(300_000)
    .describe("How long jobs may take to stop; what still runs then is left to itself, as in BOSH."),
  startTimeoutMs: durationMsConfig
    .default(90_000)
    .describe("How long an agent may take to start jobs. Whether they run then is asked as the update block says."),
  scriptTimeoutMs: durationMsConfig
    .default(HOUR_MS)
    .describe(
      "How long the jobs' scripts of one kind may take: pre-start, post-start, pre-stop, post-stop; and a drain in all.",
    ),
  maxConcurrentChecks: count.default(16).describe("So many VMs at once a deploy looks after."),
  attachTimeoutMs: durationMsConfig
    .default(60_000)
    .describe("How long an agent that does not answer is told of a disk that was attached."),
  detachTimeoutMs: durationMsConfig
    .default(10_000)
    .describe("How long an agent that does not answer can delay a detach."),
});
