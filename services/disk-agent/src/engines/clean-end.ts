import { setTimeout as sleep } from "node:timers/promises";
import { type DiskId, InvalidStateError, UnavailableError } from "@diskmesh/domain";
import { withinMs } from "@diskmesh/service";
import { usersText } from "../kernel/device-users.js";
import { runProgram } from "../kernel/loop.js";

/** Maximum wait in ms for a program that only looks at a block device, such as udev's. */
const VISITOR_MS = 500;
const POLL_MS = 20;
/** Wait in ms of an order for what a block device caches. The order is repeated while that is being written back. */
const WRITE_BACK_MS = 1_000;

/** Takes a disk that has block devices from its users, without a loss. */
export class CleanEnd {
  #writingBack: Promise<void> | undefined;

  constructor(
    private readonly diskId: DiskId,
    /** Returns the paths of the block devices that work. */
    private readonly devices: () => Promise<readonly string[]>,
  ) {}

  /** Writes back what the kernel caches of the block devices. Throws UnavailableError while that takes long. */
  async writeBack(): Promise<void> {
    this.#writingBack ??= this.#sync().finally(() => {
      this.#writingBack = undefined;
    });
    if (await withinMs(WRITE_BACK_MS, this.#writingBack)) return;
    throw new UnavailableError(`what the block device of disk ${this.diskId} caches is still being written back`);
  }

  async #sync(): Promise<void> {
    // In another process, because a write to a drive that hangs, or to a host that is away, may wait for long.
    for (const device of await this.devices()) await runProgram("sync", [device]);
  }

  /**
   * Resolves once the block devices are gone, each of which ends with its last user. Throws InvalidStateError (DISK_IN_USE)
   * when somebody has one for longer than a look.
   */
  async requireUnused(): Promise<void> {
    const untilMs = performance.now() + VISITOR_MS;
    let [device] = await this.devices();
    while (device !== undefined && performance.now() < untilMs) {
      await sleep(POLL_MS);
      [device] = await this.devices();
    }
    if (device === undefined) return;
    throw new InvalidStateError(
      `disk ${this.diskId} is still in use: its block device ${device} is ${await usersText(device)}: unmount and close it there (FenceHost takes it away at once, with what is not written yet)`,
      { reason: "DISK_IN_USE", about: { disk_id: this.diskId } },
    );
  }
}

/** Returns the problem of a disk whose block device is to end, and has users. */
export async function describeUsers(device: string): Promise<string> {
  return `its block device ${device} was to be detached and is ${await usersText(device)}: unmount and close it there`;
}
