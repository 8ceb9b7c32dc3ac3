import type { IoLimits } from "@diskmesh/domain";
import { checkOf, shapeOf, type Tablet } from "@diskmesh/tablet";
import * as z from "zod";
import type { RecordedAuthority } from "./agent-authority.js";
import type { AgentHealth } from "./agent-health.js";
import type { BoshRegistrySettings } from "./bosh-registry-settings.js";
import type { Config } from "./config.js";
import type { CpiCall } from "./cpi-call.js";
import type { DeletedDisk } from "./deleted-disk.js";
import type { Deployment } from "./deployment.js";
import type { UntoldEvent } from "./director-event.js";
import type { Disk } from "./disk.js";
import type { EndedSession } from "./ended-session.js";
import type { AgentKey, Instance, VmBasis, VmSpec } from "./instance.js";
import type { LinkKey } from "./link-key.js";
import type { NodeError } from "./node-error.js";
import type { OwedRemoval } from "./owed-removal.js";
import type { PersistentDisk } from "./persistent-disk.js";
import type { PossibleOrphan } from "./possible-orphan.js";
import type { DiskKey, Problem } from "./problem.js";
import type { ResurrectionSwitch } from "./resurrection-switch.js";
import { type Counter, type DirectorSchema, schema } from "./schema.js";
import type { Snapshot } from "./snapshot.js";
import type { Stemcell } from "./stemcell.js";
import { type Stop, TASK_QUEUES, type Task, type TaskFailure } from "./task.js";
import type { VendorCall } from "./vendor-call.js";

// The schema of stored documents. The compiler requires an entry for every field of a type.
const text = z.string();
const flag = z.boolean();
const whole = z.int().min(0);
const json = z.unknown();
const object = z.looseObject({});

const config = shapeOf<Config>()({
  configId: whole,
  type: text,
  name: text,
  content: text,
  createdAtMs: z.number(),
});

const deployment = shapeOf<Deployment>()({
  name: text,
  manifest: text,
  deleting: flag,
  checkedByTaskId: whole,
  cloudConfigIds: z.array(whole).readonly(),
  teams: z.array(text).readonly().optional(),
});

const scope = z.union([z.looseObject({ name: text }), z.looseObject({ teams: z.array(text).readonly() })]);

const disk = shapeOf<Disk>()({
  name: text,
  deployment: text,
  az: text,
  cpi: text,
  pool: text,
  sizeMib: z.number(),
  realSizeBytes: whole.optional(),
  cloudProperties: object,
  state: z.enum(["creating", "detached", "attaching", "attached", "detaching", "deleting"]),
  token: text,
  diskCid: text,
  instanceId: text,
  hostId: text.optional(),
  attachmentId: text,
  vmCid: text,
  hint: json,
  metadata: object,
  readOnly: flag.optional(),
  createdAtMs: z.number().optional(),
  scope: scope.optional(),
  first: shapeOf<NonNullable<Disk["first"]>>()({ incarnation: text, attachmentId: text }).optional(),
  limits: shapeOf<IoLimits>()({
    readIops: whole,
    writeIops: whole,
    readBytesPerSecond: whole,
    writeBytesPerSecond: whole,
    burstSeconds: whole,
  }).optional(),
});

const deletedDisk = shapeOf<DeletedDisk>()({ disk, deletedAtMs: z.number() });

const instance = shapeOf<Instance>()({
  instanceId: text,
  deployment: text,
  group: text,
  index: whole,
  az: text,
  leaving: flag,
  vmState: z.enum(["none", "creating", "created", "running", "lost", "deleting"]),
  vmToken: text,
  vmCid: text,
  agentId: text,
  cpi: text,
  vmSpec: shapeOf<VmSpec>()({ stemcellCid: text, cloudProperties: object, networks: object, env: object }).nullable(),
  basis: shapeOf<VmBasis>()({
    stemcell: text,
    cloudProperties: object,
    networks: object,
    env: object,
    tags: object,
    member: text,
    vmType: text.optional(),
  }).nullable(),
  stemcell: text,
  stemcellApiVersion: whole,
  cpiApiVersion: whole,
  usesRegistry: flag,
  networks: object,
  ips: z.record(z.string(), z.string()),
  state: z.enum(["started", "stopped", "detached"]).optional(),
  ignore: flag.optional(),
  jobs: z.enum(["started", "stopping", "stopped"]).optional(),
  vmCreatedAtMs: z.number().optional(),
  isVmGone: z.boolean().optional(),
  changedByTaskId: whole.optional(),
  agentKeys: z
    .array(
      shapeOf<AgentKey>()({
        pin: text,
        authority: text,
        trusted: text,
        issuedAtMs: z.number(),
        endsAtMs: z.number(),
      }),
    )
    .readonly()
    .optional(),
});

const agentAuthority = shapeOf<RecordedAuthority>()({ id: text, certPem: text, sinceMs: z.number() });

const persistentDisk = shapeOf<PersistentDisk>()({
  diskId: text,
  deployment: text,
  group: text,
  instanceId: text,
  az: text,
  cpi: text,
  sizeMib: z.number(),
  realSizeBytes: whole.optional(),
  cloudProperties: object,
  state: z.enum(["creating", "detached", "attaching", "attached", "mounted", "detaching"]),
  diskCid: text,
  vmCid: text,
  hint: json,
  role: z.enum(["next", "former"]).optional(),
  orphanedAtMs: z.number().nullable(),
});

const owedRemoval = shapeOf<OwedRemoval>()({
  agentId: text,
  attachmentId: text,
  diskName: text,
  diskCid: text,
  instanceId: text,
  vmCid: text,
  sinceMs: z.number(),
});

const agentHealth = shapeOf<AgentHealth>()({
  agentId: text,
  heardAtMs: z.number(),
  bootedAtMs: z.number(),
  jobState: text,
  deployment: text,
  vitals: object,
});

const resurrectionSwitch = shapeOf<ResurrectionSwitch>()({ scope: text, isOn: flag });

const linkKey = shapeOf<LinkKey>()({ name: z.literal("vendor-methods"), key: text });

const endedSession = shapeOf<EndedSession>()({ sessionId: text, user: text, endsAtMs: z.number() });

const possibleOrphan = shapeOf<PossibleOrphan>()({
  token: text,
  kind: z.enum(["vm", "disk", "snapshot"]),
  cid: text.optional(),
  cpi: text,
  az: text,
  deployment: text,
  madeFor: text,
  taskId: whole,
  reason: text,
  sinceMs: z.number(),
});

const untoldEvent = shapeOf<UntoldEvent>()({ noteId: whole, event: text });

const cpiCall = shapeOf<CpiCall>()({
  callId: text,
  dispatcher: text,
  directorGeneration: whole,
  taskId: whole,
  requestId: text,
  method: text,
  cpi: text.optional(),
  things: z.array(text).readonly(),
  sinceMs: z.number(),
});

const snapshot = shapeOf<Snapshot>()({
  token: text,
  snapshotCid: text,
  deployment: text,
  group: text,
  instanceId: text,
  index: whole,
  diskCid: text,
  az: text,
  cpi: text,
  takenByTaskId: whole,
  createdAtMs: z.number(),
});

const problem = shapeOf<Problem>()({
  problemId: whole,
  deployment: text,
  type: z.enum([
    "missing_vm",
    "unresponsive_agent",
    "missing_disk",
    "mount_info_mismatch",
    "missing_link",
    "surplus_link",
    "unknown_vm",
  ]),
  group: text,
  instanceId: text,
  vmCid: text,
  cpi: text,
  diskCid: text,
  disk: shapeOf<DiskKey>()({ kind: z.enum(["dynamic", "persistent"]), key: text }).nullable(),
  elsewhere: z.array(text).readonly(),
  description: text,
  foundAtMs: z.number(),
  open: flag,
  begunByTaskId: whole,
  handledByTaskId: whole,
  outcome: text,
});

const boshRegistrySettings = shapeOf<BoshRegistrySettings>()({ id: text, settings: text, agentId: text });

const stemcell = shapeOf<Stemcell>()({
  name: text,
  version: text,
  operatingSystem: text,
  apiVersion: whole,
  cpi: text,
  stemcellCid: text,
  createdAtMs: z.number(),
  deleting: flag,
  unfitCpis: z.array(text).readonly().optional(),
});

const jobType = z.enum([
  "provide_dynamic_disk",
  "create_dynamic_disk",
  "attach_dynamic_disk",
  "resize_dynamic_disk",
  "set_dynamic_disk_limits",
  "detach_dynamic_disk",
  "delete_dynamic_disk",
  "undelete_dynamic_disk",
  "update_deployment",
  "update_instances",
  "delete_deployment",
  "update_stemcell",
  "fetch_stemcell",
  "delete_stemcell",
  "delete_vm",
  "clean_up",
  "retrieve_vm_stats",
  "fetch_logs",
  "delete_orphaned_disk",
  "orphan_persistent_disk",
  "attach_orphaned_disk",
  "take_snapshots",
  "delete_snapshots",
  "settle_owed_removals",
  "renew_agent_certificates",
  "tell_agents",
  "resurrect_instances",
  "scan_deployment",
  "resolve_problems",
  "call_vendor_method",
]);

const task = shapeOf<Task>()({
  taskId: whole,
  type: jobType,
  description: text,
  queue: z.enum(TASK_QUEUES),
  user: text,
  deployment: text,
  state: z.enum(["queued", "held", "processing", "cancelling", "done", "error", "cancelled", "timeout"]),
  // The other fields depend on the job type and were validated when the request was parsed.
  job: z.looseObject({ type: jobType }).nullable(),
  stop: shapeOf<Stop>()({ as: z.enum(["cancelled", "timeout"]), why: text }).nullable(),
  result: text,
  output: text.optional(),
  attempts: whole,
  createdAtMs: z.number(),
  startedAtMs: z.number().nullable(),
  endedAtMs: z.number().nullable(),
  contextId: text.optional(),
  cpiShare: text.optional(),
  requestId: text.optional(),
  authentication: text.optional(),
  traceParent: text.optional(),
  teams: z.array(text).readonly().optional(),
  eventCount: whole.optional(),
  outputSizeBytes: whole.optional(),
  failure: shapeOf<TaskFailure>()({
    reason: text,
    about: z.record(z.string(), z.string()).readonly(),
    code: whole,
  }).optional(),
});

const nodeError = shapeOf<NodeError>()({ nodeId: text, text, taskId: whole, atMs: z.number() });

const vendorCall = shapeOf<VendorCall>()({
  taskId: whole,
  request: text,
  digest: text,
  secretArgs: z.array(text).readonly(),
});

const counter = shapeOf<Counter>()({ name: z.enum(["config", "problem", "task", "note"]), value: whole });

/** The tables with validation of their stored documents. */
export const storedSchema: DirectorSchema = {
  stemcells: { ...schema.stemcells, check: checkOf(stemcell) },
  persistentDisks: { ...schema.persistentDisks, check: checkOf(persistentDisk) },
  endedSessions: { ...schema.endedSessions, check: checkOf(endedSession) },
  agentAuthorities: { ...schema.agentAuthorities, check: checkOf(agentAuthority) },
  agentHealth: { ...schema.agentHealth, check: checkOf(agentHealth) },
  owedRemovals: { ...schema.owedRemovals, check: checkOf(owedRemoval) },
  resurrectionSwitches: { ...schema.resurrectionSwitches, check: checkOf(resurrectionSwitch) },
  snapshots: { ...schema.snapshots, check: checkOf(snapshot) },
  problems: { ...schema.problems, check: checkOf(problem) },
  possibleOrphans: { ...schema.possibleOrphans, check: checkOf(possibleOrphan) },
  registrySettings: { ...schema.registrySettings, check: checkOf(boshRegistrySettings) },
  configs: { ...schema.configs, check: checkOf(config) },
  deployments: { ...schema.deployments, check: checkOf(deployment) },
  instances: { ...schema.instances, check: checkOf(instance) },
  disks: { ...schema.disks, check: checkOf(disk), version: 2 },
  deletedDisks: { ...schema.deletedDisks, check: checkOf(deletedDisk) },
  tasks: { ...schema.tasks, check: checkOf(task) },
  untoldEvents: { ...schema.untoldEvents, check: checkOf(untoldEvent) },
  cpiCalls: { ...schema.cpiCalls, check: checkOf(cpiCall) },
  nodeErrors: { ...schema.nodeErrors, check: checkOf(nodeError) },
  vendorCalls: { ...schema.vendorCalls, check: checkOf(vendorCall) },
  linkKeys: { ...schema.linkKeys, check: checkOf(linkKey) },
  counters: { ...schema.counters, check: checkOf(counter) },
};

export type DirectorTablet = Tablet<DirectorSchema>;
