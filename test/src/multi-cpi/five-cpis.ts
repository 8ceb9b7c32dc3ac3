import { join } from "node:path";
import { DiskRegistryServiceDefinition } from "@diskmesh/api/registry";
import { MIB_BYTES } from "@diskmesh/domain";
import type { Client } from "@diskmesh/rpc";
import type { PlacedMesh, ProcessPlan } from "../mesh/plan.js";
import { TestMesh } from "../mesh/test-mesh.js";
import { ReferenceCpi } from "../reference-cpi/install.js";
import { type CpiConfigInput, mbusOf } from "./configs.js";
import { processesOf } from "./processes.js";

export const CELLS = { "cell-1": "z4", "cell-2": "z5" } as const;
export type CellName = keyof typeof CELLS;

const CELL_NAMES = Object.keys(CELLS) as CellName[];
const HOSTS_PER_CELL = ["a", "b"];
const DEVICES_PER_HOST = 2;

/** Cell of each host. */
export const HOSTS: ReadonlyMap<string, CellName> = new Map(
  CELL_NAMES.flatMap((cell) => HOSTS_PER_CELL.map((host): [string, CellName] => [`${cell}-${host}`, cell])),
);

/** Deadline in ms, long because CPIs may be slow. */
const DEADLINE_MS = 240_000;

/** A director and a dispatcher with three CPI executables and two cells, all real processes. */
export class FiveCpis implements AsyncDisposable {
  readonly installed: readonly [ReferenceCpi, ReferenceCpi, ReferenceCpi];

  readonly #cells: Readonly<Record<CellName, Client<typeof DiskRegistryServiceDefinition>>>;

  private constructor(readonly mesh: TestMesh) {
    const cell = (name: CellName) => mesh.client(DiskRegistryServiceDefinition, "disk-registry", { names: [name] });
    this.#cells = { "cell-1": cell("cell-1"), "cell-2": cell("cell-2") };
    const install = (name: string) => new ReferenceCpi(join(mesh.folder, "cpis", name));
    this.installed = [install("first"), install("second"), install("third")];
  }

  /** Starts all processes, and waits until they serve. */
  static async start(): Promise<FiveCpis> {
    const mesh = await TestMesh.start({
      processes: PROCESSES,
      listeners: ["vm-registry"],
      vmAgents: true,
      deadlineMs: DEADLINE_MS,
    });
    return new FiveCpis(mesh);
  }

  /** Returns an operator's client of a cell's registry. */
  cell(name: CellName): Client<typeof DiskRegistryServiceDefinition> {
    return this.#cells[name];
  }

  get vmRegistry(): CpiConfigInput["vmRegistry"] {
    return vmRegistryOf(this.mesh);
  }

  get cpiConfigInput(): Omit<CpiConfigInput, "nameInZ2"> {
    return {
      installed: this.installed,
      cells: [this.mesh.address("cell-1"), this.mesh.address("cell-2")],
      vmRegistry: this.vmRegistry,
      mbus: mbusOfMesh(this.mesh),
    };
  }

  /** Ends all processes, including those of VMs. */
  async [Symbol.asyncDispose](): Promise<void> {
    for (const cpi of this.installed) await cpi.stopVms();
    await this.mesh[Symbol.asyncDispose]();
    for (const { pid } of processesOf(this.mesh.folder)) process.kill(pid, "SIGKILL");
  }
}

const PROCESSES: readonly ProcessPlan[] = [
  ...CELL_NAMES.map(
    (name): ProcessPlan => ({
      service: "disk-registry",
      name,
      config: (mesh) => ({
        tablet: { storage: mesh.dataFolder(name), name },
        heartbeat: { intervalMs: 500, timeoutMs: 30_000, probationMs: 0 },
      }),
    }),
  ),
  { service: "cpi-dispatcher", config: (mesh) => ({ registry: { address: mesh.address("cell-1") } }) },
  { service: "director", config: directorOf },
  ...[...HOSTS].map(
    ([name, cell]): ProcessPlan => ({
      service: "disk-agent",
      name,
      config: { az: CELLS[cell] },
      registries: [cell],
      devices: { count: DEVICES_PER_HOST, sizeBytes: MIB_BYTES },
    }),
  ),
];

function directorOf(mesh: PlacedMesh): object {
  const { user, password } = vmRegistryOf(mesh);
  return {
    agents: { settings: { mbus: mbusOfMesh(mesh) } },
    boshRegistry: { listen: mesh.listen("vm-registry"), user, password },
    tuning: {
      // Few workers, so that a hanging CPI soon occupies all of them.
      queues: { workers: { dynamic_disks: 2 } },
      // Long enough for a reconnection, and short because faults in these tests are permanent.
      cpi: { retryTimeoutMs: 8_000 },
    },
  };
}

/** Returns the bosh-registry's address and login, which only the director and the first CPI have. */
function vmRegistryOf(mesh: PlacedMesh): CpiConfigInput["vmRegistry"] {
  const endpoint = `http://${mesh.address("vm-registry")}`;
  return { endpoint, user: "cpi", password: "password-of-the-vm-registry" };
}

const mbusOfMesh = (mesh: PlacedMesh): object => mbusOf(mesh.address("nats"), mesh.vmAgentFiles);
