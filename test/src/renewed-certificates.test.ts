import { X509Certificate } from "node:crypto";
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { DiskRegistryServiceDefinition } from "@diskmesh/api/registry";
import { NbdClient } from "@diskmesh/disk-agent/nbd-client";
import { type Identity, MIB_BYTES, messageOf } from "@diskmesh/domain";
import { createAuthority, issueCertificate, type KeyPair } from "@diskmesh/pki";
import { createClient } from "@diskmesh/rpc";
import { eventually, leaveToVerify, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { makeDeviceFile } from "./mesh/device-files.js";
import { RegistryMesh } from "./mesh/registry-mesh.js";

const HOSTS = ["h1", "h2"] as const;
const BLOCK = 4_096;
const PATIENCE = { timeoutMs: 120_000 };
const IDENTITIES: Readonly<Record<string, Identity>> = {
  operator: { role: "operator", name: "" },
  "disk-registry": { role: "disk-registry", name: "" },
  ...Object.fromEntries(HOSTS.map((name) => [`disk-agent-${name}`, { role: "disk-agent", name } as const])),
};

/** The files of a mesh, which are replaced as an operator's tool would. */
class ReplacedFiles {
  readonly folder = temporaryFolder();
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
        validDays: 1,
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

/** Does the same again and again, and notes what fails. */
class Load {
  readonly failures: string[] = [];
  #rounds = 0;
  #isStopped = false;
  readonly #running: Promise<void>;

  constructor(private readonly round: (number: number) => Promise<unknown>) {
    this.#running = this.#run();
  }

  /** Resolves when a round that begins from now on has ended. */
  async anotherRound(): Promise<void> {
    const wanted = this.#rounds + 2;
    await eventually(() => this.#rounds >= wanted, PATIENCE);
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#running;
  }

  async #run(): Promise<void> {
    while (!this.#isStopped) {
      await this.round(this.#rounds).catch((error) => this.failures.push(messageOf(error)));
      this.#rounds += 1;
      await delay(5);
    }
  }
}

describe("certificates that are renewed under load", function () {
  this.timeout(600_000);

  it("also by another authority, the former ones revoked -> no failed call, heartbeat, read or write", async function () {
    leaveToVerify(this);
    const certificates = new ReplacedFiles();
    const [one, two] = [1, 2].map((number) => createAuthority({ commonName: `authority ${number}`, validDays: 1 }));
    const [former, next] = [(await one) as KeyPair, (await two) as KeyPair];
    certificates.trust(former);
    certificates.revokeFormer();
    await certificates.issueAll(former);
    await using mesh = await RegistryMesh.start({
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
      await eventually(async () => expect((await mesh.device(`${hostId}-d`)).dirty).to.equal(false), PATIENCE);
    }
    // Its bytes are on the other host: each read and write goes over a stream between two agents.
    await eventually(() => operator.createDisk({ diskId: "x", sizeBytes: MIB_BYTES, hostId: "h2" }), PATIENCE);
    const { disk } = await eventually(() => operator.publishDisk({ diskId: "x", hostId: "h1" }), PATIENCE);
    const nbd = await NbdClient.connect({ socketPath: disk?.publication?.exportPath ?? "" });

    const io = new Load(async (number) => {
      const bytes = Buffer.alloc(BLOCK, `round ${number}`);
      await nbd.write(0, bytes, { fua: true });
      expect((await nbd.read(0, BLOCK)).equals(bytes)).to.equal(true);
    });
    const calls = new Load(() => operator.listHosts({}));
    const processes = [...mesh.registries, ...mesh.agents.values()];
    const changesOf = (logs: string) => logs.split("changed, and in use from now on").length - 1;
    const lastHeartbeats = async () =>
      (await operator.listHosts({})).hosts.map(({ lastHeartbeatAt }) => lastHeartbeatAt?.getTime() ?? 0);

    /** Resolves when each process has taken up what was changed, and each load and heartbeat has gone on with it. */
    const step = async (change: () => unknown): Promise<void> => {
      const before = processes.map(({ logs }) => changesOf(logs));
      await change();
      for (const [index, process] of processes.entries())
        await eventually(() => changesOf(process.logs) > (before[index] ?? 0), PATIENCE);
      for (let rounds = 0; rounds < 2; rounds++) {
        const beats = await lastHeartbeats();
        await eventually(async () => {
          for (const [index, at] of (await lastHeartbeats()).entries()) expect(at).to.be.greaterThan(beats[index] ?? 0);
        }, PATIENCE);
      }
      await Promise.all([io.anotherRound(), calls.anotherRound()]);
    };
    await step(() => certificates.issueAll(former));
    await step(() => certificates.trust(former, next));
    await step(() => certificates.issueAll(next));
    await step(() => certificates.trust(next));
    await step(() => certificates.revokeFormer());
    await Promise.all([io.stop(), calls.stop()]);
    await nbd.disconnect();
    operator.close();
    expect(io.failures).to.deep.equal([]);
    expect(calls.failures).to.deep.equal([]);
    for (const { logs } of mesh.agents.values()) {
      expect(logs).not.to.contain("a heartbeat failed");
      expect(logs).not.to.contain("not registered");
    }
    const shown = new X509Certificate(readFileSync(certificates.files("disk-registry").certFile));
    expect(mesh.registries[0]?.logs).to.contain(shown.serialNumber);
  });
});
