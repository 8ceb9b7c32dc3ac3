import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { AdminServiceDefinition, type Cause, type SubjectKind } from "@diskmesh/api/common";
import {
  ConfigServiceDefinition,
  DeploymentServiceDefinition,
  DynamicDiskServiceDefinition,
  EventServiceDefinition,
  LifecycleServiceDefinition,
  LockServiceDefinition,
  ProblemServiceDefinition,
  SnapshotServiceDefinition,
  StemcellServiceDefinition,
  type Task,
  TaskOutputType,
  TaskServiceDefinition,
  type UploadStemcellRequest,
  VendorPassthruServiceDefinition,
  VmServiceDefinition,
} from "@diskmesh/api/director";
import { MemoryCloud } from "@diskmesh/cpi/testing";
import { type Identity, identityUri } from "@diskmesh/domain";
import { mbusPermissions } from "@diskmesh/mbus";
import { type Client, createClient, type PartialOf, waitForHealth } from "@diskmesh/rpc";
import { ensureTablet } from "@diskmesh/tablet/testing";
import {
  freePort,
  type NatsServer,
  type ServiceProcess,
  spawnService,
  startNats,
  type TestCertificates,
  temporaryFolder,
  testCertificates,
} from "@diskmesh/testkit";
import { decodeEvent } from "../tasks/task-event.js";
import { agentAccess } from "./agent-access.js";
import { MemoryDispatcher } from "./memory-dispatcher.js";
import { TestAgent } from "./test-agent.js";
import type { Tuning } from "./tuning.js";

/** The director program that accepts a test's limits. */
export const TUNED_MAIN = fileURLToPath(new URL("./tuned-main.js", import.meta.url));
/** The same program with crash points, see CrashPlaces. */
export const CRASHING_MAIN = fileURLToPath(new URL("./crashing-main.js", import.meta.url));
const HOST_IDS = ["host-1", "host-2", "host-3"];

export const CLOUD_CONFIG = `
azs:
- name: z1
- name: z2
disk_types:
- name: fast
  disk_size: 1024
  cloud_properties: {pool: ssd}
- name: slow
  disk_size: 1024
`;

export function manifest(name: string, instances: number, azs = ["z1"]): string {
  return `name: ${name}\ninstance_groups:\n- name: db\n  instances: ${instances}\n  azs: [${azs.join(", ")}]\n`;
}

/** Parts of the configuration that replace the defaults of tests. `tuning` is merged limit by limit. */
export type DirectorChange = { readonly [part: string]: unknown } & { readonly tuning?: Tuning };

/** A director process, with a CPI and agents in this process, over real gRPC and NATS. */
export class TestDirector {
  readonly admin: Client<typeof AdminServiceDefinition>;
  readonly disks: Client<typeof DynamicDiskServiceDefinition>;
  readonly tasks: Client<typeof TaskServiceDefinition>;
  readonly deployments: Client<typeof DeploymentServiceDefinition>;
  readonly configs: Client<typeof ConfigServiceDefinition>;
  readonly events: Client<typeof EventServiceDefinition>;
  readonly lifecycle: Client<typeof LifecycleServiceDefinition>;
  readonly locks: Client<typeof LockServiceDefinition>;
  readonly snapshots: Client<typeof SnapshotServiceDefinition>;
  readonly problems: Client<typeof ProblemServiceDefinition>;
  readonly stemcells: Client<typeof StemcellServiceDefinition>;
  readonly vms: Client<typeof VmServiceDefinition>;
  readonly vendors: Client<typeof VendorPassthruServiceDefinition>;

  private constructor(
    /** The objects of the director's CPIs, and the CPIs' behaviour. */
    readonly cpi: MemoryCloud,
    readonly dispatcher: MemoryDispatcher,
    readonly agents: readonly TestAgent[],
    readonly nats: NatsServer,
    readonly process: ServiceProcess,
    readonly certs: TestCertificates,
    readonly address: string,
    readonly config: object,
    /** The folder of the director's config, log and tablet. */
    readonly folder: string,
  ) {
    const options = {
      address,
      tls: certs.files("operator"),
      serverRole: "director",
      defaultDeadlineMs: 60_000,
    } as const;
    this.admin = createClient(AdminServiceDefinition, options);
    this.disks = createClient(DynamicDiskServiceDefinition, options);
    this.tasks = createClient(TaskServiceDefinition, options);
    this.deployments = createClient(DeploymentServiceDefinition, options);
    this.configs = createClient(ConfigServiceDefinition, options);
    this.events = createClient(EventServiceDefinition, options);
    this.lifecycle = createClient(LifecycleServiceDefinition, options);
    this.locks = createClient(LockServiceDefinition, options);
    this.snapshots = createClient(SnapshotServiceDefinition, options);
    this.problems = createClient(ProblemServiceDefinition, options);
    this.stemcells = createClient(StemcellServiceDefinition, options);
    this.vms = createClient(VmServiceDefinition, options);
    this.vendors = createClient(VendorPassthruServiceDefinition, options);
  }

  static async start(
    { tuning, ...overrides }: DirectorChange = {},
    {
      hostIds = HOST_IDS,
      mainFile = TUNED_MAIN,
      ownCertificates = false,
    }: {
      readonly hostIds?: readonly string[];
      readonly mainFile?: string;
      /** Gives each agent its own certificate. NATS then asks the director which agents to admit. */
      readonly ownCertificates?: boolean;
    } = {},
  ): Promise<TestDirector> {
    const folder = temporaryFolder();
    const certs = await testCertificates({ hostIds });
    const access = ownCertificates ? await agentAccess(folder, certs) : undefined;
    const identities: Identity[] = [
      { role: "director", name: "" },
      ...hostIds.map((name): Identity => ({ role: "disk-agent", name })),
    ];
    const users = identities.map((identity) => ({ user: identityUri(identity), ...mbusPermissions(identity) }));
    const nats = await startNats({ folder, certs, users, ...access?.nats });
    const cpi = new MemoryCloud(hostIds);
    const dispatcher = new MemoryDispatcher(certs, cpi);
    await dispatcher.start();
    const agents = hostIds.map((hostId) => new TestAgent(hostId, nats.address, certs));
    // Agents start one by one, because hundreds of concurrent handshakes would exceed the connection timeout.
    for (const agent of agents) await agent.start();
    const port = await freePort();
    const address = `127.0.0.1:${port}`;
    const config = {
      listen: { host: "127.0.0.1", port },
      tls: certs.files("director"),
      log: { level: "debug" },
      tablet: { storage: join(folder, "state") },
      dispatcher: { address: `127.0.0.1:${dispatcher.port}` },
      nats: { servers: [nats.address] },
      dynamicDisks: { enabled: true },
      agents: { readyTimeoutMs: 10_000 },
      cpi: { callTimeoutMs: 30_000 },
      ...overrides,
      ...access?.config,
      tuning: tuningOfTests({ ...access?.tuning, ...tuning }),
    };
    await ensureTablet({ name: "director", ...config.tablet });
    const process = await spawnService({
      name: "director",
      mainFile,
      folder,
      config,
      health: { address, tls: certs.files("operator"), serverRole: "director" },
      // Readiness is not awaited, because a test may hold a former director's call at the dispatcher, which delays it.
      waitFor: "leading",
    });
    return new TestDirector(cpi, dispatcher, agents, nats, process, certs, address, config, folder);
  }

  /** Kills the process and restarts it with these limits on top of the limits of all tests. */
  restartTuned(tuning: Tuning): Promise<void> {
    return this.process.restart({ ...this.config, tuning: tuningOfTests(tuning) });
  }

  /** Resolves when the director is ready. Throws TimeoutError with the missing prerequisites. */
  health(timeoutMs: number): Promise<void> {
    const tls = this.certs.files("operator");
    return waitForHealth({ address: this.address, tls, serverRole: "director", timeoutMs });
  }

  agent(agentId: string): TestAgent {
    return this.agents.find((agent) => agent.agentId === agentId) as TestAgent;
  }

  /** Uploads a cloud config and deploys; returns the instances' ids, by index. */
  async deploy(name: string, instances: number): Promise<string[]> {
    await this.configs.updateConfig({ type: "cloud", content: CLOUD_CONFIG });
    const { task } = await this.deployments.deploy({ manifest: manifest(name, instances), wait: true });
    if (task?.state !== "TASK_STATE_DONE") throw new Error(`the deploy ended as ${task?.state}: ${task?.result}`);
    const { instances: all } = await this.deployments.listInstances({ deployment: name });
    return all.map((instance) => instance.instanceId);
  }

  async deployManifest(manifest: string): Promise<Task> {
    return (await this.deployments.deploy({ manifest, wait: true })).task as Task;
  }

  /** Returns the task's events as "stage task state: message". */
  async eventTexts(taskId: number): Promise<string[]> {
    const { lines } = await this.tasks.getTaskOutput({ taskId, type: TaskOutputType.EVENT });
    return lines.map(decodeEvent).map(({ stage, task, state, message }) => `${stage} ${task} ${state}: ${message}`);
  }

  /** Uploads a stemcell in parts and returns the ended task. */
  async upload(file: Buffer, header: { readonly digest?: string; readonly fix?: boolean } = {}): Promise<Task> {
    const { task } = await this.stemcells.uploadStemcell(uploadOf(file, header), { deadlineMs: 60_000 });
    return task as Task;
  }

  /** Provides a disk and waits for the end of the task. */
  async provide(diskName: string, instanceId: string, more: Partial<ProvideOptions> = {}): Promise<Task> {
    const { task } = await this.disks.provideDynamicDisk({
      diskName,
      instanceId,
      diskPoolName: "fast",
      sizeBytes: 64 * 1024 * 1024,
      wait: true,
      ...more,
    });
    return task as Task;
  }

  async detach(diskName: string): Promise<Task> {
    return (await this.disks.detachDynamicDisk({ diskName, wait: true })).task as Task;
  }

  async delete(diskName: string): Promise<Task> {
    return (await this.disks.deleteDynamicDisk({ diskName, wait: true })).task as Task;
  }

  /** Returns the causes that `diskmesh why` shows. */
  async why(kind: SubjectKind, name: string | number): Promise<readonly Cause[]> {
    return (await this.admin.explain({ subject: { kind, name: String(name) } })).causes;
  }

  async task(taskId: number): Promise<Task> {
    return (await this.tasks.getTask({ taskId })).task as Task;
  }

  /** Returns the task's events as "stage: task state", and its end state. */
  async watch(taskId: number): Promise<string[]> {
    const lines: string[] = [];
    for await (const { update } of this.tasks.watchTask({ taskId }, { deadlineMs: 60_000 })) {
      if (update?.$case === "event")
        lines.push(`${update.value.stage}: ${update.value.state.replace("STEP_STATE_", "").toLowerCase()}`);
      if (update?.$case === "ended") lines.push(`ended ${update.value.state}`);
    }
    return lines;
  }

  /** Returns the task once it has ended. */
  async ended(taskId: number): Promise<Task> {
    await this.watch(taskId);
    return this.task(taskId);
  }

  async stop(): Promise<void> {
    const { admin, disks, tasks, deployments, configs, events, lifecycle, locks, problems } = this;
    for (const client of [admin, disks, tasks, deployments, configs, events, lifecycle, locks, problems])
      client.close();
    for (const client of [this.snapshots, this.stemcells, this.vms, this.vendors]) client.close();
    await this.process.kill();
    await Promise.all(this.agents.map((agent) => agent.stop()));
    await this.dispatcher.stop();
    await this.nats.stop();
  }
}

function tuningOfTests({ agents, cpi, queues, ...others }: Tuning): Tuning {
  return {
    // The grace is above every timeout of tests, so that a busy machine never asks an agent beside the CPI.
    agents: {
      requestTimeoutMs: 5_000,
      attachTimeoutMs: 30_000,
      detachTimeoutMs: 2_000,
      detachGraceMs: 600_000,
      ...agents,
    },
    cpi: { retryTimeoutMs: 2_000, ...cpi },
    queues: { workers: { dynamic_disks: 4 }, ...queues },
    ...others,
  };
}

async function* uploadOf(
  file: Buffer,
  { digest = "", fix = false }: { readonly digest?: string; readonly fix?: boolean },
): AsyncGenerator<PartialOf<typeof UploadStemcellRequest>> {
  yield { part: { $case: "header", value: { digest, fix, wait: true } } };
  for (let at = 0; at < file.length; at += 1_000)
    yield { part: { $case: "chunk", value: file.subarray(at, at + 1_000) } };
}

interface ProvideOptions {
  readonly diskPoolName: string;
  readonly sizeBytes: number;
  readonly metadata: { [name: string]: unknown } | undefined;
  readonly readOnly: boolean;
  readonly wait: boolean;
}
