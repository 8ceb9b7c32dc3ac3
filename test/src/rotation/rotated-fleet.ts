import { readFileSync, writeFileSync } from "node:fs";
import { AgentCertificateState } from "@diskmesh/api/director";
import { MIB_BYTES } from "@diskmesh/domain";
import { eventually, type ServiceProcess, stemcellFile } from "@diskmesh/testkit";
import { CheckedWriter } from "../mesh/checked-writer.js";
import type { Clients } from "../mesh/clients.js";
import { Load } from "../mesh/load.js";
import { uploadOf } from "../mesh/upload-of.js";
import { done } from "../process-vms/process-vms.js";
import { Beats } from "./beats.js";
import type { ReplacedFiles } from "./replaced-files.js";
import { ROTATED_HOSTS, type RotatedServices, startRotatedServices } from "./rotated-services.js";

/** Longer than two attempts of the director to renew a certificate, with a minute and two between them. */
const RENEWAL_PATIENCE = { timeoutMs: 300_000 };
const LAST_LINES = 5;
/** Number of TLS file sets of a process. A process that uses NATS has a second set for it. */
const SETS: Readonly<Record<string, number>> = { "cpi-dispatcher": 1, "disk-registry": 1 };

const CLOUD_CONFIG = `
azs: [{ name: z1, cpi: fleet }, { name: z2, cpi: process }]
disk_types: [{ name: default, disk_size: 1 }]
vm_types: [{ name: small }]
networks: [{ name: any, type: dynamic }]
`;
const MANIFEST = `
name: rotated
stemcells: [{ alias: system, os: ubuntu-noble, version: latest }]
instance_groups:
- { name: host, instances: 1, azs: [z1] }
- { name: vm, instances: 1, azs: [z2], stemcell: system, vm_type: small, networks: [{ name: any }] }
`;

/**
 * A whole mesh with a VM whose agent has a certificate of the director's, under continuous load: reads and writes of a
 * disk between two hosts, calls of registry and director, and disks that are attached to and detached from a host and a
 * VM.
 */
export class RotatedFleet implements AsyncDisposable {
  private readonly loads: ReadonlyMap<string, Load>;
  readonly #operator;
  readonly #writer: CheckedWriter;

  private constructor(
    private readonly services: RotatedServices,
    private readonly certificates: ReplacedFiles,
    operator: Clients,
    socketPath: string,
    instanceIds: readonly string[],
    private readonly beats: Beats,
  ) {
    this.#operator = operator;
    this.#writer = new CheckedWriter("x", socketPath);
    this.loads = new Map([
      ["calls of the registry", new Load(() => operator.registry.listHosts({}))],
      ["calls of the director", new Load(() => operator.tasks.listTasks({ pageSize: 10 }))],
      ...instanceIds.map((id, index): [string, Load] => [
        `disks given to ${index === 0 ? "a host" : "a VM"}`,
        new Load(() => this.#giveDisk(`given-${index}`, id)),
      ]),
    ]);
  }

  static async start(certificates: ReplacedFiles): Promise<RotatedFleet> {
    const services = await startRotatedServices(certificates);
    const { mesh } = services;
    try {
      const operator = mesh.clients;
      for (const hostId of ROTATED_HOSTS) await eventually(() => operator.registry.addHost({ hostId }));
      // The disk's device is on the other host, so each read and write goes over a stream between two agents.
      const disk = { diskId: "x", sizeBytes: MIB_BYTES, hostId: "h2" };
      await eventually(() => operator.registry.createDisk(disk));
      const published = await eventually(() => operator.registry.publishDisk({ diskId: "x", hostId: "h1" }));
      const beats = new Beats(await mesh.agents(certificates.mbusFiles("director")));
      await operator.configs.updateConfig({ type: "cloud", content: CLOUD_CONFIG });
      await done(operator.stemcells.uploadStemcell(uploadOf(stemcellFile())));
      await done(operator.deployments.deploy({ manifest: MANIFEST, wait: true }));
      const { instances } = await operator.deployments.listInstances({ deployment: "rotated" });
      const ids = ["z1", "z2"].map((az) => instances.find((one) => one.az === az)?.instanceId ?? "");
      const socketPath = published.disk?.publication?.exportPath ?? "";
      return new RotatedFleet(services, certificates, operator, socketPath, ids, beats);
    } catch (error) {
      await mesh[Symbol.asyncDispose]();
      throw error;
    }
  }

  process(name: string): ServiceProcess {
    return this.services.mesh.process(name);
  }

  get natsPlace(): { readonly host: string; readonly port: number } {
    return { host: "127.0.0.1", port: this.services.mesh.nats.port };
  }

  /**
   * Makes a change. Resolves when each process has loaded the changed files, and each load and heartbeat has succeeded
   * since.
   */
  async step(change: () => unknown): Promise<void> {
    const before = this.#processes.map(({ process }) => changesOf(process));
    const trusted = this.#trusted();
    await change();
    for (const [index, { process, sets }] of this.#processes.entries())
      await eventually(() => changesOf(process) >= (before[index] ?? 0) + sets);
    await this.#natsKnows();
    if (this.#trusted() !== trusted) await this.#agentsOfVmsKnow();
    for (let rounds = 0; rounds < 2; rounds++) {
      const beats = await this.#lastHeartbeats();
      const beatAgain = async () => (await this.#lastHeartbeats()).every((at, index) => at > (beats[index] ?? 0));
      await eventually(beatAgain);
    }
    await Promise.all([this.#writer.load, ...this.loads.values()].map((load) => load.anotherRound()));
    await this.beats.another();
  }

  /** Failures so far: calls, reads and writes, heartbeats, registrations, and ended processes. */
  get failures(): string[] {
    const ended = [...this.services.mesh.processes]
      .filter(([, process]) => process.exit !== undefined)
      .map(([name, { logs }]) => `${name} ended: ${logs.trimEnd().split("\n").slice(-LAST_LINES).join("\n")}`);
    const loads = [...this.loads].flatMap(([what, { failures }]) => failures.map((failure) => `${what}: ${failure}`));
    const lost = ROTATED_HOSTS.flatMap((hostId) =>
      this.services.mesh
        .process(hostId)
        .logs.split("\n")
        .filter((line) => line.includes("heartbeat failed") || line.includes("registration failed")),
    );
    return [...ended, ...this.#writer.faults, ...loads, ...lost, ...this.beats.failures];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.#writer, ...this.loads.values()].map((each) => each.stop()));
    await this.services.mesh[Symbol.asyncDispose]();
  }

  get #processes(): { readonly process: ServiceProcess; readonly sets: number }[] {
    return [...this.services.mesh.processes].map(([name, process]) => ({ process, sets: SETS[name] ?? 2 }));
  }

  /** Returns all authorities of the mesh in PEM. */
  #trusted(): string {
    return readFileSync(this.certificates.files("nats").caFile, "utf8");
  }

  /** Makes nats-server reload certificates and authorities, as an operator does. */
  async #natsKnows(): Promise<void> {
    const { access } = this.services;
    const { nats } = this.services.mesh;
    const { certFile } = access.config.agents.certificates.authority;
    writeFileSync(access.nats.caFile, this.#trusted() + readFileSync(certFile, "utf8"));
    const reloads = () => nats.logs.split("Reloaded server configuration").length;
    const before = reloads();
    nats.signal("SIGHUP");
    await eventually(() => reloads() > before);
  }

  /**
   * Waits until every agent of a VM is up to date, because NATS may use a certificate of another authority only once
   * the agents trust it.
   */
  async #agentsOfVmsKnow(): Promise<void> {
    await eventually(async () => {
      const { certificates } = await this.#operator.vms.listAgentCertificates({});
      if (certificates.every(({ state }) => state === AgentCertificateState.VALID)) return;
      const { tasks } = await this.#operator.tasks.listTasks({ pageSize: 1_000 });
      const renewals = tasks.filter(({ description }) => description.startsWith("renew the certificates"));
      throw new Error(`${JSON.stringify(certificates)} is not valid: ${JSON.stringify(renewals)}`);
    }, RENEWAL_PATIENCE);
  }

  async #giveDisk(diskName: string, instanceId: string): Promise<void> {
    const { disks } = this.#operator;
    const wanted = { diskName, instanceId, diskPoolName: "default", sizeBytes: MIB_BYTES, wait: true };
    await done(disks.provideDynamicDisk(wanted));
    await done(disks.detachDynamicDisk({ diskName, wait: true }));
    await done(disks.deleteDynamicDisk({ diskName, wait: true }));
  }

  async #lastHeartbeats(): Promise<number[]> {
    const { hosts } = await this.#operator.registry.listHosts({});
    return hosts.map(({ lastHeartbeatTime }) => lastHeartbeatTime?.getTime() ?? 0);
  }
}

function changesOf({ logs }: ServiceProcess): number {
  return logs.split("TLS files reloaded").length - 1;
}
