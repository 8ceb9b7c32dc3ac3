import { randomBytes } from "node:crypto";
import { DomainError, messageOf } from "@diskmesh/domain";
import {
  addHosts,
  deleteDisk,
  detachDisk,
  devicesReady,
  openDisk,
  provideDisk,
  retrying,
  runTask,
} from "../mesh/steps.js";
import { CLOUD_CONFIG, type FuzzTarget, HOST } from "./fuzz-target.js";

const DEPLOYMENT = "mesh";
const DATA_BYTES = 256 * 1024;
/** Maximum attempts; the fuzzer may disturb each of them. */
const TRIES = 5;
const CONFIG_CHANGED = /update the cloud config/;

/**
 * Provides and deletes disks continuously while the mesh is fuzzed, like an operator who also repairs changes by the
 * fuzzer.
 */
export class MeshCheck {
  #instanceId = "";
  readonly #kept = new Set<string>();
  #round = 0;

  constructor(private readonly target: FuzzTarget) {}

  /** Adds the host, and deploys an instance on it. */
  async prepare(): Promise<void> {
    const mesh = this.target.well;
    await addHosts(mesh);
    await this.#configure();
    const manifest = `name: ${DEPLOYMENT}\ninstance_groups:\n- {name: ${DEPLOYMENT}, instances: 1, azs: [z1]}\n`;
    await runTask("Deploy", () => mesh.clients.deployments.deploy({ manifest, wait: true }));
    const { instances } = await mesh.clients.deployments.listInstances({ deployment: DEPLOYMENT });
    this.#instanceId = instances[0]?.instanceId ?? "";
    await devicesReady(mesh);
  }

  /** Provides a disk that stays, and returns the path of its socket. */
  async keepDisk(name: string): Promise<string> {
    const diskCid = await provideDisk(this.target.well, name, this.#instanceId);
    this.#kept.add(name).add(diskCid);
    return this.target.mesh.dynamicDisk(HOST, diskCid);
  }

  /** Provides a disk, writes and reads it, and deletes it. Throws when a step fails. */
  async provide(): Promise<void> {
    const mesh = this.target.well;
    const name = `check-${++this.#round}`;
    const diskCid = await this.#provideDisk(name);
    const disk = await openDisk(mesh, HOST, diskCid);
    try {
      const data = randomBytes(DATA_BYTES);
      await disk.write(0, data, { fua: true });
      if (!(await disk.read(0, data.length)).equals(data))
        throw new Error(`${name} reads other bytes than were written`);
    } finally {
      await disk.disconnect();
    }
    await detachDisk(mesh, name);
    await deleteDisk(mesh, name);
  }

  /** Provides a disk. Restores the configs before each attempt, because the fuzzer may store others at any time. */
  async #provideDisk(name: string): Promise<string> {
    for (let tries = 1; ; tries++) {
      await this.#configure();
      await addHosts(this.target.well);
      await this.#deleteOthers();
      try {
        return await provideDisk(this.target.well, name, this.#instanceId);
      } catch (error) {
        if (tries === TRIES || !CONFIG_CHANGED.test(messageOf(error))) throw error;
      }
    }
  }

  /** Restores the configs. */
  async #configure(): Promise<void> {
    const { configs } = this.target.mesh.clients;
    const { configs: found } = await retrying("ListConfigs", () => configs.listConfigs({}));
    for (const { type, name } of found)
      if (name !== "default") await trying(() => configs.deleteConfig({ type, name }));
    const put = (type: string, content: string) =>
      retrying("UpdateConfig", () => configs.updateConfig({ type, content }));
    // The cpi-config is first, because the azs of the cloud config name its CPIs.
    await put("cpi", this.target.cpiConfig);
    await put("cloud", CLOUD_CONFIG);
  }

  /** Deletes disks that the fuzzer created on devices of the well host. */
  async #deleteOthers(): Promise<void> {
    const { registry, disks } = this.target.mesh.clients;
    const dynamic = await retrying("ListDisks", () => disks.listDisks({}));
    for (const { diskName } of dynamic.disks)
      if (!this.#kept.has(diskName)) {
        await trying(() => disks.detachDisk({ diskName, wait: true }));
        await trying(() => disks.deleteDisk({ diskName, wait: true }));
      }
    const made = await retrying("ListDisks", () => registry.listDisks({}));
    for (const { diskId } of made.disks)
      if (!this.#kept.has(diskId)) {
        await trying(() => registry.unpublishDisk({ diskId }));
        await trying(() => registry.deleteDisk({ diskId }));
      }
  }
}

/** Ignores missing and unavailable objects; the next check handles them. */
async function trying(call: () => Promise<unknown>): Promise<void> {
  try {
    await call();
  } catch (error) {
    if (!(error instanceof DomainError)) throw error;
  }
}
