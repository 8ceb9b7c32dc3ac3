import { MAX_JSON_DEPTH, MIB_BYTES } from "@diskmesh/domain";
import { driversConfig } from "@diskmesh/driver/host";
import {
  addressesConfig,
  durationMsConfig,
  hostPortConfig,
  listenConfig,
  natsConfig,
  pagingConfig,
  pathConfig,
  rpcLimitsConfig,
  serviceConfig,
  tabletConfig,
  tlsConfig,
} from "@diskmesh/service";
import * as z from "zod";
import { httpConfig } from "./http/http-config.js";
import { contradictions } from "./model/time-limits.js";

const HOUR_MS = 3_600_000;
const GIB_BYTES = 1024 * MIB_BYTES;
const largeSizeBytes = z
  .int()
  .min(1)
  .max(1024 * GIB_BYTES);
const count = z.int().min(1).max(1_000_000);
const sizeBytes = z
  .int()
  .min(1)
  .max(64 * 1024 * 1024);
const text = z.string().min(1);
const pem = z.string().min(1).max(65_536);

const agentCertificatesConfig = z.strictObject({
  /** Signs them. Where the tablet is a folder it is made when neither file is there. */
  authority: z.strictObject({ certFile: pathConfig, keyFile: pathConfig }),
  /** The authorities by which agents know NATS; `tls.caFile` by default. */
  natsCaFile: pathConfig.optional(),
  /** An agent gets another one when a third of it is over. */
  validDays: z.number().min(1e-4).max(825).default(90),
  /** How often the director looks for certificates that are due. */
  checkIntervalMs: durationMsConfig.default(60_000),
  /** How NATS learns who its users are. */
  natsUsers: z.union([
    z.strictObject({
      /** nats-server runs on this machine: its configuration is written, and it is told to read it again. */
      written: z.strictObject({
        /** Files that nats-server's configuration includes. */
        folder: pathConfig,
        pidFile: pathConfig,
        /** Certificates of others whom it lets in: agents of hosts. */
        certFiles: z.array(pathConfig).max(10_000).default([]),
        /** Their `*.pem` in a folder, such as that of `diskmesh pki`: a new one is let in within seconds. */
        certFolder: pathConfig.optional(),
      }),
    }),
    z.strictObject({
      /** nats-server asks the director, by auth callout: 2.10 or newer. */
      callout: z.strictObject({
        /** Signs the answers; where the tablet is a folder it is made when it is not there. */
        issuerSeedFile: pathConfig,
        /** The account of NATS in which the director and the agents are. */
        account: z.string().regex(/^[A-Za-z0-9_$-]{1,64}$/),
      }),
    }),
  ]),
});

/** One queue of tasks. */
function queueConfig(defaults: {
  readonly workers: number;
  readonly maxTasks: number;
  readonly taskTimeoutMs: number;
}) {
  return z
    .strictObject({
      /** Tasks that run at once of those that have to do with the same CPIs. Those that ask none that hangs wait for none. */
      workers: count.default(defaults.workers),
      /**
       * Most tasks that have not ended. The last sixth of the places is kept for tasks that ask CPIs which hardly any other
       * asks.
       */
      maxTasks: count.default(defaults.maxTasks),
      /** How long a task may take from the moment a worker took it; above drivers.limits.asyncTimeoutMs of the agents. */
      taskTimeoutMs: durationMsConfig.default(defaults.taskTimeoutMs),
    })
    .prefault({});
}

const fields = z.strictObject({
  ...serviceConfig,
  /** Written into the metadata of disks, as BOSH does. */
  name: z.string().min(1).max(255).default("diskmesh"),
  listen: listenConfig,
  tls: tlsConfig,
  /** The HTTPS face, for the bosh CLI; off unless it is given. */
  http: httpConfig.optional(),
  rpc: rpcLimitsConfig(),
  /** Where others reach this process; `listen` by default. */
  advertisedAddress: hostPortConfig.optional(),
  tablet: tabletConfig("director"),
  /**
   * All dispatchers: the first of them that answers is used. Taking one out says that nothing of this director runs there,
   * as when its machine is off for good.
   */
  dispatcher: z.strictObject({ address: addressesConfig }),
  nats: natsConfig,
  /** Off unless said otherwise, as in BOSH: disks at run time are a right that operators grant. */
  dynamicDisks: z.strictObject({ enabled: z.boolean().default(false) }).prefault({}),
  /** Tasks wait and run in queues: what takes an hour in one holds up nothing in another. */
  queues: z
    .strictObject({
      /** Tasks that operators wait for. */
      urgent: queueConfig({ workers: 4, maxTasks: 1_000, taskTimeoutMs: HOUR_MS }),
      /** Deploys and all that is like them. Their tasks hold manifests. */
      normal: queueConfig({ workers: 4, maxTasks: 200, taskTimeoutMs: 24 * HOUR_MS }),
      dynamicDisks: queueConfig({ workers: 16, maxTasks: 10_000, taskTimeoutMs: HOUR_MS }),
      /** For the methods of each node, and of each driver. Their tasks hold arguments. */
      vendorMethods: queueConfig({ workers: 8, maxTasks: 10_000, taskTimeoutMs: 24 * HOUR_MS }),
    })
    .prefault({}),
  /** Of the locks on instances and disk names. Those on deployments last as long as a task of the normal queue may. */
  locks: z
    .strictObject({
      /** How long their owner may give no sign of life; by default a minute more than a CPI call or a request may take. */
      deadlineMs: durationMsConfig.optional(),
      acquireTimeoutMs: durationMsConfig.default(60_000),
    })
    .prefault({}),
  tasks: z
    .strictObject({
      /** So many ended tasks are kept, with their outputs. Of one without those, 2,000 characters of result and names. */
      maxKeptTasks: count.default(2_000),
      maxEventsPerTask: count.default(10_000),
      /** Of what CPIs write, and of what was asked of them. */
      maxOutputLinesPerTask: count.default(100_000),
      /** Of each of a task's outputs: events, what CPIs write, what was asked of them. */
      maxOutputBytesPerTask: largeSizeBytes.default(16 * MIB_BYTES),
      /** Outputs of all ended tasks that are kept; beyond it the oldest tasks are forgotten. */
      maxKeptOutputBytes: largeSizeBytes.default(4 * GIB_BYTES),
      /** Lines of all tasks that wait in memory for the storage; beyond it lines are lost. */
      maxWaitingOutputBytes: largeSizeBytes.default(64 * MIB_BYTES),
      /** A call with `wait` answers so long before its deadline. */
      answerMarginMs: durationMsConfig.default(500),
    })
    .prefault({}),
  /** Who did what to what. */
  events: z
    .strictObject({
      /** Events that are kept, and up to a tenth more; beyond it the oldest are dropped. */
      maxCount: count.default(100_000),
    })
    .prefault({}),
  /** Vendors' drivers whose own methods this director runs. Those of nodes are in the configs of the agents. */
  drivers: driversConfig,
  /** Hosts, whose vendor methods are called. */
  nodes: z
    .strictObject({
      /** The disk registries that know them, asked in turn; each may be a list of those of which one leads. */
      registries: z
        .array(z.strictObject({ address: addressesConfig }))
        .max(16)
        .default([]),
      /** For a question of the registry, or of an agent. */
      requestTimeoutMs: durationMsConfig.default(10_000),
      /** For a method of a node that somebody waits for: above drivers.limits.syncTimeoutMs of the agents. */
      callTimeoutMs: durationMsConfig.default(30_000),
      /** So long an agent's address and methods are not asked for again, unless it says that they have changed. */
      knownForMs: durationMsConfig.default(30_000),
      /** Agents to which a connection is kept. */
      maxConnections: count.default(1_000),
      /** Nodes of which the last error is kept; beyond that the oldest is forgotten. */
      maxLastErrors: count.default(10_000),
    })
    .prefault({}),
  cpi: z
    .strictObject({
      /** Above the dispatcher's executables.callTimeoutMs: it ends a CPI that takes too long, and knows what was done. */
      callTimeoutMs: durationMsConfig.default(660_000),
      /** How long a call that failed in passing is repeated. */
      retryTimeoutMs: durationMsConfig.default(60_000),
      /** How long a dispatcher may take to end a CPI call, when a task is cancelled or the call was lost: above its cancelGraceMs. */
      endTimeoutMs: durationMsConfig.default(10_000),
      /** The version of the CPI contract to speak with CPIs that know it; 0 for the highest. */
      preferredApiVersion: z.int().min(0).max(100).default(0),
    })
    .prefault({}),
  stemcells: z
    .strictObject({
      /** Where images are kept until the CPIs have them; the dispatcher must see them under the same path. */
      folder: pathConfig.prefault("stemcells"),
      /** Of the tgz, and of all that it unpacks to. */
      maxUploadBytes: largeSizeBytes.default(8 * GIB_BYTES),
      maxUnpackedBytes: largeSizeBytes.default(32 * GIB_BYTES),
      /** Entries of the tgz. */
      maxEntries: count.default(100),
      /** Uploads at once. */
      maxConcurrentUploads: count.default(4),
      /** How long the next bytes of an upload may take. */
      idleTimeoutMs: durationMsConfig.default(60_000),
      /** How long getting one from elsewhere may take. */
      downloadTimeoutMs: durationMsConfig.default(HOUR_MS),
      /** Whether those who upload may have this process ask hosts that are not of the internet. */
      allowPrivateAddresses: z.boolean().default(false),
      /** How long CPIs may take to make one. */
      createTimeoutMs: durationMsConfig.default(HOUR_MS),
    })
    .prefault({}),
  /** The bosh-registry HTTP API, for CPIs and stemcells of version 1. It is served only once something needs it. */
  boshRegistry: z
    .strictObject({
      listen: listenConfig,
      user: z.string().min(1).max(255),
      password: z.string().min(1).max(1_024),
      maxSettingsBytes: sizeBytes.default(1024 * 1024),
      maxInstances: count.default(10_000),
      requestTimeoutMs: durationMsConfig.default(30_000),
      maxConnections: count.default(1_000),
    })
    .optional(),
  agents: z
    .strictObject({
      requestTimeoutMs: durationMsConfig.default(45_000),
      taskPollIntervalMs: durationMsConfig.default(20),
      /** Given to agents in the env of create_vm, unless the manifest says otherwise: BOSH's env.bosh. Held secret. */
      settings: z
        .strictObject({
          mbus: z
            .strictObject({
              urls: z.array(text).min(1),
              cert: z.strictObject({ ca: pem, certificate: pem, private_key: pem }).optional(),
            })
            .optional(),
          ntp: z.array(text).optional(),
          blobstores: z
            .array(z.strictObject({ provider: text, options: z.record(z.string(), z.json()).optional() }))
            .optional(),
        })
        .prefault({}),
      /** Their logs, which they put into the HTTPS face (`http`) for whoever asked for them. */
      logs: z
        .strictObject({
          folder: pathConfig.prefault("agent-logs"),
          /** Where agents reach the HTTPS face; by default the host of `advertisedAddress` with `http.listen.port`. */
          url: z.url({ protocol: /^https$/ }).optional(),
          /** The authorities by which agents know its certificate; `tls.caFile` by default. */
          caFile: pathConfig.optional(),
          /** How long an agent may take to pack and send them. */
          timeoutMs: durationMsConfig.default(900_000),
          maxBytesPerAgent: largeSizeBytes.default(GIB_BYTES),
          /** All that are kept or being fetched; the oldest give way. */
          maxKeptBytes: largeSizeBytes.default(8 * GIB_BYTES),
          keptMs: durationMsConfig.default(HOUR_MS),
        })
        .prefault({}),
      /** A certificate for each agent, in place of `settings.mbus.cert`, which is one for all. */
      certificates: agentCertificatesConfig.optional(),
      /** How long a new VM's agent may take to answer. */
      readyTimeoutMs: durationMsConfig.default(600_000),
      /** An agent that a deploy asks in vain for so long is lost, and its VM is made anew. The CPI has as long to say no. */
      lostAfterMs: durationMsConfig.default(45_000),
      /** An agent that was not heard for so long is called unresponsive. BOSH's beat every 30 s. */
      unresponsiveAfterMs: durationMsConfig.default(90_000),
      /** How often what agents say of themselves is recorded, for the next director. */
      healthRecordIntervalMs: durationMsConfig.default(300_000),
      /** How long jobs may take to stop; what still runs then is left to itself, as in BOSH. */
      stopTimeoutMs: durationMsConfig.default(300_000),
      /** How long an agent may take to start jobs. Whether they run then is asked as the update block says. */
      startTimeoutMs: durationMsConfig.default(90_000),
      /** How long the jobs' scripts of one kind may take: pre-start, post-start, pre-stop, post-stop; and a drain in all. */
      scriptTimeoutMs: durationMsConfig.default(HOUR_MS),
      /** So many VMs at once a deploy looks after. */
      maxConcurrentChecks: count.default(16),
      /** How long an agent that does not answer is told of a disk that was attached. */
      attachTimeoutMs: durationMsConfig.default(60_000),
      /** How long an agent that does not answer can delay a detach. */
      detachTimeoutMs: durationMsConfig.default(10_000),
    })
    .prefault({}),
  /** VMs that are gone are made anew without being asked for. */
  resurrection: z
    .strictObject({
      /** Whether that is so until an operator switches it, for all, a deployment or a group. */
      enabled: z.boolean().default(false),
      /** An agent is silent for so long before its VM's CPI is asked whether the VM is gone: above two heartbeats. */
      silentAfterMs: durationMsConfig.default(120_000),
      /** A VM whose agent is silent for so long is made anew even if its CPI has it. */
      deadAfterMs: durationMsConfig.default(600_000),
      checkIntervalMs: durationMsConfig.default(5_000),
    })
    .prefault({}),
  deployments: z
    .strictObject({
      /** So many VMs of one CPI are made, updated or deleted at once, by all tasks together. */
      maxConcurrentVmsPerCpi: count.default(32),
      /** Takes manifests with releases, jobs and addons, none of which run, with a warning in the task. */
      ignoreJobs: z.boolean().default(false),
    })
    .prefault({}),
  /** The page for browsers, a part of the HTTPS face. */
  page: z
    .strictObject({
      /** Browsers that are told of changes at once. */
      maxViewers: count.default(50),
      /** How often at most each is told what has changed. */
      sendIntervalMs: durationMsConfig.default(250),
      /** How often at least each hears that it is still told. */
      beatIntervalMs: durationMsConfig.default(5_000),
      /** How long things are followed on once nobody looks any more. */
      lingerMs: durationMsConfig.default(10_000),
    })
    .prefault({}),
  paging: pagingConfig,
  limits: z
    .strictObject({
      maxConfigBytes: sizeBytes.default(1024 * 1024),
      maxManifestBytes: sizeBytes.default(1024 * 1024),
      maxMetadataBytes: sizeBytes.default(16 * 1024),
      /** Configs that differ in type or name. */
      maxConfigNames: count.default(20),
      /** Versions kept of each. */
      maxConfigVersions: count.default(10),
      maxInstancesPerDeployment: count.default(1_000),
      /** VMs and disks that CPIs may have made unknown to anybody; beyond that the oldest are forgotten. */
      maxPossibleOrphans: count.default(10_000),
      /** What a scan records of one deployment; beyond that it says how much more there was. */
      maxProblemsPerDeployment: count.default(10_000),
      /** Of YAML from outside: configs, manifests, stemcell.MF. What was accepted once is read again whatever they say. */
      yaml: z
        .strictObject({
          /** Pieces that YAML tells apart: texts, indicators, spaces, line breaks, comments. */
          maxTokens: count.default(500_000),
          /** Lists and mappings inside each other, aliases expanded. Tags are put two levels deeper into the env of a VM. */
          maxDepth: z
            .int()
            .min(8)
            .max(MAX_JSON_DEPTH - 1)
            .default(MAX_JSON_DEPTH - 1),
          /** Different keys. */
          maxKeys: count.default(30_000),
          maxAliases: count.default(10_000),
          maxMergeKeys: count.default(1_000),
          /** About what it takes in memory, as JSON, once aliases and merge keys are expanded. */
          maxExpandedBytes: sizeBytes.default(3 * 1024 * 1024),
          /** Texts up to this size are read at once; longer ones in threads, so that nothing else waits. */
          maxEventLoopBytes: z.int().min(0).max(65_536).default(4_096),
          /** Threads at once, each for one text. */
          threads: z.int().min(1).max(64).default(2),
          /** Texts that wait for a thread. */
          maxWaiting: count.default(100),
          /** How long a thread may have a processor, and how long with what was accepted once. */
          timeoutMs: durationMsConfig.default(5_000),
          storedTimeoutMs: durationMsConfig.default(60_000),
          maxThreadMemoryMib: z.int().min(64).max(65_536).default(512),
        })
        .prefault({}),
    })
    .prefault({}),
});

/** The director's config file. */
export const directorConfig = fields.superRefine((config, context) => {
  for (const { path, message } of contradictions(config)) context.addIssue({ code: "custom", path, message });
  const addresses = [config.dispatcher.address].flat();
  if (new Set(addresses).size < addresses.length)
    context.addIssue({ code: "custom", path: ["dispatcher", "address"], message: "names a dispatcher twice" });
  const { settings, certificates } = config.agents;
  if (certificates !== undefined && settings.mbus?.cert !== undefined)
    context.addIssue({
      code: "custom",
      path: ["agents", "settings", "mbus", "cert"],
      message: "leave it out: agents.certificates gives each agent its own",
    });
});

export type DirectorConfig = z.output<typeof directorConfig>;
