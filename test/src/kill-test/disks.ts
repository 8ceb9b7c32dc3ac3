import { setTimeout as sleep } from "node:timers/promises";
import { AttachState, type Device } from "@diskmesh/api/registry";
import { NbdClient } from "@diskmesh/disk-agent/nbd-client";
import { DomainError, messageOf, NotFoundError } from "@diskmesh/domain";
import { eventually } from "@diskmesh/testkit";
import { BLOCK_BYTES, DiskContent } from "../mesh/disk-content.js";
import type { TestMesh } from "../mesh/test-mesh.js";
import type { Random } from "../random.js";
import type { Account } from "./account.js";
import { type Calls, PATIENCE_MS, persistently } from "./callers.js";
import type { Truce } from "./truce.js";

const AZ = "z1";
/** Timeout in ms of an access to a disk that may not be served. */
const TRY_MS = 1_000;
const PATIENCE = { timeoutMs: PATIENCE_MS, everyMs: 50 };

interface KnownDisk {
  readonly diskId: string;
  /** Content that no other disk ever had. */
  readonly content: DiskContent;
  /** Socket path of the last publication; empty for none. */
  exportPath: string;
  told: "unsettled" | "there" | "gone";
}

export interface DiskUserOptions {
  readonly mesh: Pick<TestMesh, "clients">;
  readonly account: Account;
  readonly calls: Calls;
  readonly hostId: string;
  readonly diskBytes: number;
  readonly random: Random;
}

/**
 * A program on one host that creates disks, writes unique data, reads it again, and deletes the disks. A new disk must
 * contain zeros, and no disk may ever contain another disk's data.
 */
export class DiskUser {
  /** Number of complete reads of a disk. */
  reads = 0;
  /** Number of complete reads and writes of a disk while its host was tampered with. */
  tried = 0;
  readonly #disks: KnownDisk[] = [];
  /** Last answer about each disk when the backup began; undefined after its restore. */
  #backup: ReadonlyMap<KnownDisk, KnownDisk["told"]> | undefined;

  constructor(private readonly options: DiskUserOptions) {}

  async run(isOver: () => boolean, truce: Pick<Truce, "act">): Promise<void> {
    const { random } = this.options;
    while (!isOver()) {
      await truce.act(() => this.#step());
      await sleep(random.next() * 150);
    }
  }

  /** Creates the first disks, which exist in every backup. */
  async prepare(): Promise<void> {
    const { hostId } = this.options;
    await this.#persistently(() => this.options.mesh.clients.registry.addHost({ hostId }));
    for (const _ of [1, 2]) {
      await eventually(() => this.#hasRoom(), PATIENCE);
      await this.#create();
    }
  }

  async #step(): Promise<void> {
    const { random } = this.options;
    const there = this.#there;
    const choice = random.next();
    const one = random.pick(there);
    // Prefers to create and delete disks while the restore waits for a disk that the backup lacks.
    const isWaitedFor = this.#backup !== undefined && this.strangers === 0;
    if ((isWaitedFor || choice < 0.4) && (await this.#hasRoom())) await this.#create();
    // The first disks are never deleted.
    else if ((isWaitedFor || choice < 0.6) && one !== undefined && this.#disks.indexOf(one) > 1)
      await this.#delete(one);
    else if (choice < 0.8 && one !== undefined) await this.#unpublish(one);
    else if (one !== undefined) await this.#verify(one);
  }

  /** Returns the answers before a backup begins. */
  mark(): ReadonlyMap<KnownDisk, KnownDisk["told"]> {
    return new Map(this.#disks.map((disk) => [disk, disk.told]));
  }

  backedUp(mark: ReadonlyMap<KnownDisk, KnownDisk["told"]>): void {
    const unsettled = this.#disks.map(
      (disk) => [disk, mark.get(disk) === disk.told ? disk.told : "unsettled"] as const,
    );
    this.#backup = new Map(unsettled);
  }

  /** Number of disks that the backup does not contain. */
  get strangers(): number {
    return this.#disks.filter((disk) => disk.told === "there" && this.#backup?.has(disk) === false).length;
  }

  /**
   * Checks after a restore that each disk has the content of the backup, that no other disks exist, and that no disk
   * has another disk's data.
   */
  async lookAfterRestore(): Promise<void> {
    const backup = this.#backup ?? new Map<KnownDisk, KnownDisk["told"]>();
    this.#backup = undefined;
    for (const disk of this.#disks) {
      // A disk that is missing in the backup's answers was created after the backup.
      const atBackup = backup.get(disk) ?? "gone";
      const isThere = await this.#isThere(disk);
      if (isThere ? atBackup === "gone" : atBackup === "there")
        this.#violated(`${disk.diskId}: it was ${atBackup} at the backup, and is ${isThere ? "there" : "gone"} again`);
      if (!isThere) await this.#requireNotServed(disk);
      else if (disk.told === "there") await this.#verify(disk);
      else await this.#lookAtUndead(disk);
      if (!isThere) disk.told = "gone";
    }
    while (await this.#hasRoom()) await this.#create();
  }

  /**
   * Accesses each disk once if it is served now: reads and writes through its last socket, and through a new
   * publication. Errors are allowed, but no other disk's data.
   */
  async tryAll(): Promise<void> {
    const { mesh, hostId } = this.options;
    const tryOne = async (disk: KnownDisk): Promise<void> => {
      await this.#try(disk, disk.exportPath);
      const request = { diskId: disk.diskId, hostId };
      const published = await mesh.clients.registry.publishDisk(request, { deadlineMs: TRY_MS }).catch(() => undefined);
      const { exportPath = "" } = published?.disk?.publication ?? {};
      if (exportPath !== "") disk.exportPath = exportPath;
      await this.#try(disk, exportPath);
    };
    await Promise.all(this.#there.map(tryOne));
  }

  /** Reads each disk completely, after waiting until it is served. */
  async verifyAll(): Promise<void> {
    await Promise.all(this.#there.map((disk) => this.#verify(disk)));
  }

  async #try(disk: KnownDisk, socketPath: string): Promise<void> {
    if (socketPath === "") return;
    const client = await NbdClient.connect({ socketPath }).catch(() => undefined);
    if (client === undefined) return;
    const ended = setTimeout(() => void client.disconnect().catch(() => {}), TRY_MS);
    try {
      this.#requireNone(await this.#read(disk, client));
      for (let block = 0; block < client.sizeBytes / BLOCK_BYTES; block++) await disk.content.write(client, block);
      this.tried++;
    } catch {
      // The disk is not served now.
    } finally {
      clearTimeout(ended);
      await client.disconnect().catch(() => {});
    }
  }

  get #there(): KnownDisk[] {
    return this.#disks.filter(({ told }) => told === "there");
  }

  async #create(): Promise<void> {
    const { diskBytes, mesh } = this.options;
    const diskId = `kill-disk-${this.#disks.length + 1}`;
    const content = new DiskContent(diskId);
    const disk: KnownDisk = { diskId, content, exportPath: "", told: "unsettled" };
    this.#disks.push(disk);
    const { hostId } = this.options;
    const request = { diskId, sizeBytes: diskBytes, az: AZ, hostId };
    await this.#persistently(() => mesh.clients.registry.createDisk(request));
    disk.told = "there";
    await this.#verify(disk);
    await this.#use(disk, (client) => content.write(client, 0, { toEnd: true }));
  }

  async #unpublish({ diskId }: KnownDisk): Promise<void> {
    await this.#persistently(() => this.options.mesh.clients.registry.unpublishDisk({ diskId }));
  }

  async #delete(disk: KnownDisk): Promise<void> {
    const { diskId } = disk;
    disk.told = "unsettled";
    await this.#unpublish(disk);
    await this.#persistently(() => this.options.mesh.clients.registry.deleteDisk({ diskId }));
    disk.told = "gone";
  }

  async #verify(disk: KnownDisk): Promise<void> {
    this.#requireNone(await this.#use(disk, (client) => this.#read(disk, client)));
  }

  async #read({ content }: KnownDisk, client: NbdClient): Promise<string[]> {
    const faults = await content.faults(client);
    this.reads++;
    return faults;
  }

  /**
   * Checks a disk that was deleted after the backup and exists again after the restore. Its devices may be erased or
   * refused, but must not contain other data. Then deletes the disk again.
   */
  async #lookAtUndead(disk: KnownDisk): Promise<void> {
    // Unpublishes the disk first, because a publication that was in progress at the backup would be retried forever
    // without its devices.
    await this.#unpublish(disk);
    try {
      disk.content.mayBeErased();
      await this.#verify(disk);
    } catch (error) {
      if (!(error instanceof DomainError) || error.retryable) throw error;
    }
    await this.#delete(disk);
  }

  async #requireNotServed({ diskId, exportPath }: KnownDisk): Promise<void> {
    if (exportPath === "") return;
    try {
      await eventually(async () => {
        const client = await NbdClient.connect({ socketPath: exportPath }).catch(() => undefined);
        await client?.disconnect();
        return client === undefined;
      }, PATIENCE);
    } catch {
      this.#violated(`${diskId}: no registry knows of it, and its host still serves it`);
    }
  }

  async #isThere({ diskId }: KnownDisk): Promise<boolean> {
    try {
      await this.#persistently(() => this.options.mesh.clients.registry.getDisk({ diskId }));
      return true;
    } catch (error) {
      if (error instanceof NotFoundError) return false;
      throw error;
    }
  }

  /** Returns whether a disk can be created now. */
  async #hasRoom(): Promise<boolean> {
    const { mesh, hostId } = this.options;
    const all = { hostId, attachState: AttachState.ATTACHED, pageSize: 100 };
    const { devices } = await this.#persistently(() => mesh.clients.registry.listDevices(all));
    return devices.some((device: Device) => !device.dirty && device.diskId === "");
  }

  /** Retries until the request succeeds, because agents and registries are killed meanwhile. A refusal is final. */
  async #use<T>(disk: KnownDisk, act: (client: NbdClient) => Promise<T>): Promise<T> {
    const { diskId } = disk;
    const { mesh, hostId } = this.options;
    for (const untilMs = performance.now() + PATIENCE_MS; ; ) {
      const { disk: published } = await this.#persistently(() => mesh.clients.registry.publishDisk({ diskId, hostId }));
      disk.exportPath = published?.publication?.exportPath ?? "";
      try {
        const client = await NbdClient.connect({ socketPath: disk.exportPath });
        try {
          return await act(client);
        } finally {
          await client.disconnect();
        }
      } catch (error) {
        if (performance.now() > untilMs) throw new Error(`${diskId} cannot be used: ${messageOf(error)}`);
        await sleep(PATIENCE.everyMs);
      }
    }
  }

  #persistently<T>(call: () => Promise<T>): Promise<T> {
    return persistently(this.options.calls, call);
  }

  /** Reports only the first problem, because all blocks of a disk share it. */
  #requireNone([problem]: readonly string[]): void {
    if (problem !== undefined) this.#violated(problem);
  }

  #violated(text: string): void {
    this.options.account.violated(text);
  }
}
