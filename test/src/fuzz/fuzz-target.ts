import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { CpiServiceDefinition } from "@diskmesh/api/cpi";
import { httpUsers } from "@diskmesh/director/testing";
import { MIB_BYTES } from "@diskmesh/domain";
import { certificateFiles, createDevelopmentCertificates } from "@diskmesh/pki";
import { createClient, type TlsFiles } from "@diskmesh/rpc";
import { anotherCertificate, reportsMemoryUseIn, stemcellFile, temporaryFolder } from "@diskmesh/testkit";
import { makeDeviceFile } from "../mesh/device-files.js";
import type { PlacedMesh, ProcessPlan } from "../mesh/plan.js";
import { TestMesh } from "../mesh/test-mesh.js";
import { newUaaKeys, type UaaKeys } from "./surfaces/meant-tokens.js";
import { type Caller, Targets } from "./targets.js";
import { VICTIM_AZ, VICTIM_DEVICES, VICTIM_HOST } from "./vocabulary.js";

/** Host whose disks must stay usable. */
export const HOST = "host-1";
/** Number of devices: for disks that stay, a disk that comes and goes, and devices that are being erased. */
const DEVICES = 6;
const CLIENT_DEADLINE_MS = 30_000;

export const VM_REGISTRY = { user: "cpi", password: "password-of-the-vm-registry" } as const;

/** Login of the director's HTTPS API, as "name:password". */
export const HTTPS_LOGIN = "admin:pw-admin";

/** Cloud config that the check restores after the fuzzer's uploads. */
export const CLOUD_CONFIG = `
azs: [{ name: z1, cpi: fleet }, { name: z9, cpi: old }]
disk_types: [{ name: default, disk_size: 1 }]
vm_types: [{ name: small }]
networks: [{ name: private, subnets: [{ range: 127.0.9.0/24, gateway: 127.0.9.1, azs: [z9] }] }]
`;

/** CPI of API version 1, so that the director serves the bosh-registry. Its VM has no agent. */
const OLD_CPI = `#!/bin/sh
case "$(cat)" in
  *'"method":"info"'*) echo '{"result":null,"error":{"type":"Bosh::Clouds::NotImplemented","message":"no info","ok_to_retry":false},"log":""}' ;;
  *'"method":"has_vm"'*) echo '{"result":true,"error":null,"log":""}' ;;
  *) echo '{"result":"old-1","error":null,"log":""}' ;;
esac
`;

/** All services as real processes: a host whose disks must stay usable, and a host that may be damaged. */
export class FuzzTarget implements AsyncDisposable {
  readonly targets: Targets;

  private constructor(
    readonly mesh: TestMesh,
    /** UAA keys that the director trusts. */
    readonly uaa: UaaKeys,
    private readonly strangers: string,
    /**
     * Certificate of an operator that the fuzzer does not use, so that the fuzzer does not consume this operator's
     * limits.
     */
    readonly bystanderFiles: TlsFiles,
  ) {
    const addresses = {
      director: mesh.address("director"),
      "cpi-dispatcher": mesh.address("cpi-dispatcher"),
      "disk-registry": mesh.address("disk-registry"),
      "disk-agent": mesh.address(VICTIM_HOST),
    };
    this.targets = new Targets(addresses, (caller) => this.filesOf(caller));
  }

  static async start(): Promise<FuzzTarget> {
    const [uaa, users] = [newUaaKeys(), await httpUsers({ admin: ["bosh.admin"] })];
    const strangers = temporaryFolder();
    await createDevelopmentCertificates(strangers, { hostIds: [] });
    const mesh = await TestMesh.start({
      processes: PROCESSES.map((plan) => collecting(plan, { uaa, users })),
      listeners: ["vm-registry", "https"],
      deadlineMs: CLIENT_DEADLINE_MS,
    });
    const bystander = await anotherCertificate(mesh.certificates.folder, "bystander", {
      identity: { role: "operator", name: "bystander" },
      commonName: "bystander",
      usages: ["client"],
    });
    return new FuzzTarget(mesh, uaa, strangers, bystander);
  }

  /** Access to the host whose disks must stay usable. */
  get well(): Pick<TestMesh, "clients" | "dynamicDisk" | "hostIds"> {
    const { mesh } = this;
    return { clients: mesh.clients, hostIds: [HOST], dynamicDisk: (hostId, cid) => mesh.dynamicDisk(hostId, cid) };
  }

  filesOf(caller: Caller): TlsFiles {
    if (caller === "stranger") return certificateFiles(this.strangers, "operator");
    return this.mesh.certificates.files(caller === "disk-agent" ? `disk-agent-${VICTIM_HOST}` : caller);
  }

  get vmRegistryPort(): number {
    return this.mesh.listen("vm-registry").port;
  }

  get httpsPort(): number {
    return this.mesh.listen("https").port;
  }

  /** Returns a client of the dispatcher with the director's certificate. */
  dispatcherClient() {
    const client = createClient(CpiServiceDefinition, {
      address: this.mesh.address("cpi-dispatcher"),
      tls: this.filesOf("director"),
      serverRole: "cpi-dispatcher",
      defaultDeadlineMs: CLIENT_DEADLINE_MS,
    });
    this.mesh.closeLater(client);
    return client;
  }

  /** Creates an executable file in its own folder below the mesh's. */
  executable(name: string, script: string): string {
    const folder = join(this.mesh.folder, "cpis", name);
    mkdirSync(folder, { recursive: true });
    const path = join(folder, "cpi");
    writeFileSync(path, script);
    chmodSync(path, 0o755);
    return path;
  }

  get cpiConfig(): string {
    const old = this.executable("old", OLD_CPI);
    return JSON.stringify({
      cpis: [
        { name: "fleet", type: "fleet", migrated_from: [{ name: "" }] },
        { name: "old", type: "old", exec_path: old },
      ],
    });
  }

  /**
   * Makes the director create a VM of API version 1, because it serves the bosh-registry only then. Does not wait for
   * an agent.
   */
  async needVmRegistry(): Promise<void> {
    const stemcell = stemcellFile({ name: "old", version: "1", operating_system: "old", api_version: 1 });
    async function* upload() {
      yield { part: { $case: "header" as const, value: { digest: "", fix: false, wait: true } } };
      yield { part: { $case: "chunk" as const, value: stemcell } };
    }
    const { task } = await this.mesh.clients.stemcells.uploadStemcell(upload());
    if (task?.state !== "TASK_STATE_DONE") throw new Error(`the stemcell was not taken: ${task?.result}`);
    const manifest = `
name: old
stemcells: [{ alias: old, os: old, version: latest }]
instance_groups: [{ name: old, instances: 1, azs: [z9], stemcell: old, vm_type: small, networks: [{ name: private }] }]
`;
    await this.mesh.clients.deployments.deploy({ manifest });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.mesh[Symbol.asyncDispose]();
  }
}

/** Log level above errors of clients, because millions of them would fill the disk. */
const LOG = { log: { level: "error" } };

type Access = { readonly uaa: UaaKeys; readonly users: readonly object[] };
type ConfigOf = (mesh: PlacedMesh, access: Access) => object;

const PROCESSES: readonly (Omit<ProcessPlan, "config"> & { readonly config: ConfigOf })[] = [
  {
    service: "disk-registry",
    config: () => ({ heartbeat: { intervalMs: 500, timeoutMs: 10_000, missedUntilSuspected: 20 } }),
  },
  { service: "cpi-dispatcher", config: () => ({}) },
  { service: "director", config: directorOf },
  {
    service: "disk-agent",
    name: HOST,
    config: () => ({}),
    devices: { count: DEVICES, sizeBytes: MIB_BYTES },
    waitFor: "listening",
  },
  {
    service: "disk-agent",
    name: VICTIM_HOST,
    config: (mesh) => ({
      az: VICTIM_AZ,
      devices: VICTIM_DEVICES.map((deviceId, index) => ({
        deviceId,
        path: makeDeviceFile(mesh.deviceFile(VICTIM_HOST, index), MIB_BYTES),
      })),
    }),
    waitFor: "listening",
  },
];

/**
 * Returns the plan of a process that can collect garbage on request, so that held memory can be distinguished from
 * garbage.
 */
function collecting({ config, ...plan }: (typeof PROCESSES)[number], access: Access): ProcessPlan {
  return {
    ...plan,
    config: (mesh) => ({ ...LOG, ...config(mesh, access) }),
    env: ({ folder }) => reportsMemoryUseIn(folder),
  };
}

function directorOf(mesh: PlacedMesh, { uaa, users }: Access): object {
  const keyFile = join(mesh.folder, "uaa.pem");
  writeFileSync(keyFile, uaa.publicPem);
  return {
    stemcells: { folder: join(mesh.folder, "stemcells") },
    http: { listen: mesh.listen("https"), users, tokens: { url: "https://127.0.0.1:1", keyFile } },
    boshRegistry: { listen: mesh.listen("vm-registry"), ...VM_REGISTRY },
  };
}
