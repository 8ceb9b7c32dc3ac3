import { renameSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import type { ServiceProcess } from "@diskmesh/testkit";
import { reboot, rebootable } from "../mesh/boot-ids.js";
import type { Random } from "../random.js";
import type { DevicePlace } from "./account.js";
import type { DiskUser } from "./disks.js";
import type { Truce } from "./truce.js";

const PAUSE_MS = 1_500;

const MISCHIEF = ["kill", "reboot", "offsets", "drives", "blank"] as const;
export type Mischief = (typeof MISCHIEF)[number];

export interface OutsiderOptions {
  readonly agent: ServiceProcess;
  /** Places of the devices; two devices share a file. */
  readonly devices: readonly DevicePlace[];
  readonly folder: string;
  readonly hostId: string;
  readonly disks: DiskUser;
  readonly random: Random;
  /** Kinds of tampering; all by default. */
  readonly mischief?: readonly Mischief[] | undefined;
}

/**
 * Tampers with the disks' host: kills its agent, reboots it, swaps the offsets of two devices in the agent's config,
 * swaps two drives, or replaces a drive by a blank one; then undoes that. Meanwhile the agent may serve only the disk's
 * own data, and afterwards it must serve all disks.
 */
export class Outsider {
  readonly done: Record<Mischief, number> = { kill: 0, reboot: 0, offsets: 0, drives: 0, blank: 0 };
  readonly #possible: readonly Mischief[];

  constructor(private readonly options: OutsiderOptions) {
    this.#possible = (options.mischief ?? MISCHIEF).filter(
      (one) => one !== "reboot" || rebootable(options.folder, options.hostId).length > 0,
    );
  }

  /** True once every kind of tampering that this machine allows was done. */
  get hasDoneAll(): boolean {
    return this.#possible.every((one) => this.done[one] > 0);
  }

  /** Tampers until `isOver`. Holds a truce each time, so that the disks have no other users. */
  async run(isOver: () => boolean, truce: Pick<Truce, "hold">): Promise<void> {
    for (let count = 0; !isOver(); count++) {
      const one = this.#possible[count % this.#possible.length] as Mischief;
      await truce.hold(() => this.#act(one));
      this.done[one]++;
      await sleep(this.options.random.next() * PAUSE_MS);
    }
  }

  async #act(one: Mischief): Promise<void> {
    const { agent, disks } = this.options;
    const { config } = agent;
    await agent.kill();
    const { edited = config, undo } = await this.#begin(one, config);
    await agent.restart(edited);
    await disks.tryAll();
    if (undo !== undefined) {
      await agent.kill();
      undo();
      await agent.restart(config);
    }
    // The registry refuses a disk with a wrong device until its agent has registered again.
    await agent.waitFor("serving");
    await disks.verifyAll();
  }

  async #begin(one: Mischief, config: object): Promise<{ readonly edited?: object; readonly undo?: () => void }> {
    const { devices, random, folder, hostId } = this.options;
    const [first, second] = this.#twoPaths(random);
    if (one === "reboot" || one === "drives") reboot(folder, hostId);
    if (one === "offsets")
      return { edited: { ...config, devices: withOffsetsExchanged(devices, first) }, undo: () => {} };
    if (one === "drives") {
      exchange(first, second);
      return { undo: () => exchange(first, second) };
    }
    if (one === "blank") {
      renameSync(first, `${first}.aside`);
      await writeFile(first, Buffer.alloc(2 * (devices[0]?.sizeBytes ?? 0)));
      return { undo: () => renameSync(`${first}.aside`, first) };
    }
    return {};
  }

  #twoPaths(random: Random): [string, string] {
    const paths = [...new Set(this.options.devices.map(({ path }) => path))];
    const first = random.pick(paths) as string;
    return [first, random.pick(paths.filter((path) => path !== first)) as string];
  }
}

function exchange(first: string, second: string): void {
  renameSync(first, `${first}.moved`);
  renameSync(second, first);
  renameSync(`${first}.moved`, second);
}

/** Returns the config entries with the offsets of the file's two devices swapped. */
function withOffsetsExchanged(devices: readonly DevicePlace[], path: string): object[] {
  const [a, b] = devices.filter((device) => device.path === path);
  return devices.map(({ hostId: _, ...device }) => {
    if (device.deviceId === a?.deviceId) return { ...device, offsetBytes: b?.offsetBytes };
    if (device.deviceId === b?.deviceId) return { ...device, offsetBytes: a?.offsetBytes };
    return device;
  });
}
