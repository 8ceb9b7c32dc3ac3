import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { table } from "../documents/schema.js";
import { openEmbeddedStorage } from "../embedded/embedded-storage.js";
import { Tablet } from "../tablet.js";
import type { TabletLimits } from "../tablet-limits.js";
import { GatedStorage } from "./gated-storage.js";

interface Host {
  readonly hostId: string;
  readonly az: string;
  readonly text?: string;
}

const schema = { hosts: table<Host>()({ key: (host) => host.hostId, indexes: { byAz: (host) => host.az } }) };

/** A tablet of hosts in the embedded store behind a GatedStorage, for one test. */
export class TabletScene {
  readonly folder: string;
  storage!: GatedStorage;
  tablet!: Tablet<typeof schema>;

  private constructor(folder: string) {
    this.folder = folder;
  }

  static async open(): Promise<TabletScene> {
    const scene = new TabletScene(await mkdtemp(join(tmpdir(), "diskmesh-tablet-")));
    scene.tablet = await scene.openTablet();
    return scene;
  }

  async end(): Promise<void> {
    this.storage.go();
    await this.tablet.close();
    await rm(this.folder, { recursive: true });
  }

  /** Opens another tablet, whose storage becomes the scene's. */
  async openTablet(limits: Partial<TabletLimits> = {}): Promise<Tablet<typeof schema>> {
    this.storage = new GatedStorage(openEmbeddedStorage({ folder: this.folder, exclusive: false }));
    return Tablet.open({ name: "registry", schema, storage: this.storage, address: "127.0.0.1:7030", limits });
  }

  async reopen(limits: Partial<TabletLimits> = {}): Promise<void> {
    await this.tablet.close();
    this.tablet = await this.openTablet(limits);
  }

  put(hostId: string, rest: Partial<Host> = {}): Promise<string> {
    return this.tablet.transact((tx) => {
      tx.hosts.put({ hostId, az: "z1", ...rest });
      return hostId;
    });
  }

  hostIds(): Promise<string[]> {
    return this.tablet.read(({ hosts }) => Array.from(hosts.entries(), (host) => host.hostId));
  }
}

export function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

export async function turns(count: number): Promise<void> {
  for (let i = 0; i < count; i++) await turn();
}
