import { X509Certificate } from "node:crypto";
import { renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DiskRegistryServiceDefinition } from "@diskmesh/api/registry";
import { NbdClient } from "@diskmesh/disk-agent/nbd-client";
import { type Identity, MIB_BYTES } from "@diskmesh/domain";
import { issueCertificate, type KeyPair } from "@diskmesh/pki";
import { type Client, createClient } from "@diskmesh/rpc";
import { eventually, type ServiceProcess, temporaryFolder } from "@diskmesh/testkit";
import { makeDeviceFile } from "../mesh/device-files.js";
import { Load } from "../mesh/load.js";
import { RegistryMesh } from "../mesh/registry-mesh.js";

const HOSTS = ["h1", "h2"] as const;
const BLOCK = 4_096;
const PATIENCE = { timeoutMs: 120_000 };
const IDENTITIES: Readonly<Record<string, Identity>> = {
  operator: { role: "operator", name: "" },
  "disk-registry": { role: "disk-registry", name: "" },
  ...Object.fromEntries(HOSTS.map((name) => [`disk-agent-${name}`, { role: "disk-agent", name } as const])),
};

/** The files of a mesh, which are replaced as an operator's tool would. */
export class ReplacedFiles {
  readonly folder = temporaryFolder();

  constructor(private readonly validDays = 1) {}

  readonly #former: string[] = [];
  readonly #revoked: string[] = [];

  files(name: string) {
    const path = (file: string) => join(this.folder, file);
    const [caFile, revokedFile] = [path("ca.pem"), path("revoked")];
    return { caFile, certFile: path(`${name}.pem`), keyFile: path(`${name}-key.pem`), revokedFile };
  }

  trust(...authorities: readonly KeyPair[]): void {
    this.#replace("ca.pem", authorities.map(({ certPem }) => certPem).join(""));
  }

  async issueAll(authority: KeyPair): Promise<void> {
    for (const [name, identity] of Object.entries(IDENTITIES)) {
      const names = { commonName: name, dnsNames: [], ipAddresses: [] };
      const made = await issueCertificate(authority, {
        identity,
        ...names,
        validDays: this.validDays,
        usages: ["server", "client"],
      });
      this.#replace(`${name}-key.pem`, made.keyPem);
      this.#replace(`${name}.pem`, made.certPem);
      this.#former.push(new X509Certificate(made.certPem).serialNumber);
    }
  }

  /** All but those that are in use. */
  revokeFormer(): void {
    const inUse = Object.keys(IDENTITIES).length;
    this.#revoked.push(...this.#former.splice(0, this.#former.length - inUse));
    this.#replace("revoked", this.#revoked.join("\n"));
  }

  #replace(name: string, text: string): void {
    writeFileSync(join(this.folder, `${name}.next`), text, { mode: 0o600 });
    renameSync(join(this.folder, `${name}.next`), join(this.folder, name));
  }
}

/** Two hosts and a registry: reads and writes of a disk from one host to the other, and calls, without a pause. */
export class RotatedMesh implements AsyncDisposable {
  private constructor(
    readonly mesh: RegistryMesh,
    private readonly operator: Client<typeof DiskRegistryServiceDefinition>,
    private readonly nbd: NbdClient,
    readonly io: Load,
    readonly calls: Load,
  ) {}

  static async start(certificates: ReplacedFiles): Promise<RotatedMesh> {
    const mesh = await RegistryMesh.start({
      hostIds: HOSTS,
      certificates,
      agent: (hostId, folder) => ({
        devices: [{ deviceId: `${hostId}-d`, path: makeDeviceFile(join(folder, "files", hostId), MIB_BYTES) }],
        timeouts: { heartbeatTimeoutMs: 60_000, remoteIoTimeoutMs: 120_000 },
      }),
      registry: { heartbeat: { intervalMs: 500, timeoutMs: 60_000, probationMs: 500 } },
    });
    const operator = createClient(DiskRegistryServiceDefinition, {
      address: mesh.address("disk-registry-1"),
      tls: certificates.files("operator"),
      serverRole: "disk-registry",
      defaultDeadlineMs: 120_000,
    });
    for (const hostId of HOSTS) {
      await eventually(() => operator.addHost({ hostId }), PATIENCE);
      await eventually(async () => !(await mesh.device(`${hostId}-d`)).dirty, PATIENCE);
    }
    // Its bytes are on the other host: each read and write goes over a stream between two agents.
    await eventually(() => operator.createDisk({ diskId: "x", sizeBytes: MIB_BYTES, hostId: "h2" }), PATIENCE);
    const { disk } = await eventually(() => operator.publishDisk({ diskId: "x", hostId: "h1" }), PATIENCE);
    const nbd = await NbdClient.connect({ socketPath: disk?.publication?.exportPath ?? "" });
    const io = new Load(async (number) => {
      const bytes = Buffer.alloc(BLOCK, `round ${number}`);
      await nbd.write(0, bytes, { fua: true });
      if (!(await nbd.read(0, BLOCK)).equals(bytes)) throw new Error(`round ${number} reads otherwise than it wrote`);
    });
    return new RotatedMesh(mesh, operator, nbd, io, new Load(() => operator.listHosts({})));
  }

  /** Resolves when each process has taken up what was changed, and each load and heartbeat has gone on with it. */
  async step(change: () => unknown): Promise<void> {
    const processes = this.#processes;
    const before = processes.map(changesOf);
    await change();
    for (const [index, process] of processes.entries())
      await eventually(() => changesOf(process) > (before[index] ?? 0), PATIENCE);
    for (let rounds = 0; rounds < 2; rounds++) {
      const beats = await this.#lastHeartbeats();
      const beatAgain = async () => (await this.#lastHeartbeats()).every((at, index) => at > (beats[index] ?? 0));
      await eventually(beatAgain, PATIENCE);
    }
    await Promise.all([this.io.anotherRound(), this.calls.anotherRound()]);
  }

  /** What failed so far: calls, reads and writes, heartbeats and registrations. */
  get failures(): string[] {
    const lost = [...this.mesh.agents.values()].flatMap(({ logs }) =>
      logs.split("\n").filter((line) => line.includes("a heartbeat failed") || line.includes("not registered")),
    );
    return [...this.io.failures, ...this.calls.failures, ...lost];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.io.stop(), this.calls.stop()]);
    await this.nbd.disconnect();
    this.operator.close();
    await this.mesh[Symbol.asyncDispose]();
  }

  get #processes(): readonly ServiceProcess[] {
    return [...this.mesh.registries, ...this.mesh.agents.values()];
  }

  async #lastHeartbeats(): Promise<number[]> {
    return (await this.operator.listHosts({})).hosts.map(({ lastHeartbeatAt }) => lastHeartbeatAt?.getTime() ?? 0);
  }
}

function changesOf({ logs }: ServiceProcess): number {
  return logs.split("changed, and in use from now on").length - 1;
}
