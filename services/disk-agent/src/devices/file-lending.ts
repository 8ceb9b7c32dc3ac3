import { type BigIntStats, closeSync, constants, openSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { messageOf } from "@diskmesh/domain";
import { isSessionLocked, lockSession, sessionLockHolders } from "@diskmesh/file-lock";

/** A descriptor for a process of a session. The process inherits it, and with it the lock of the session. */
export interface LentFile {
  readonly fd: number;
  readonly isBlockDevice: boolean;
  /** Closes the agent's copy. The lock stays with the process that inherited the descriptor. */
  close(): void;
}

/** Ids of processes that keep descriptors and locks of devices, and can do no more I/O on any device. */
export type Retired = ReadonlySet<number>;

/** Lends one open file to processes, which read and write it without the agent. */
export interface FileLending {
  /** Returns undefined while another process has the device at this offset. */
  lend(deviceOffsetBytes: number, retired: Retired): LentFile | undefined;
  /** Returns whether a process has the device at this offset, also one that a former life of the agent started. */
  isLent(deviceOffsetBytes: number, retired: Retired): boolean;
  /**
   * Kills the processes that have the device at this offset. Resolves once nothing of them is left. Calls `kill` for
   * each process, and `stuck` once when a process does not end.
   */
  endBorrowers(
    deviceOffsetBytes: number,
    retired: Retired,
    on: { readonly kill: (pid: number) => void; readonly stuck: (why: string) => void },
  ): Promise<void>;
}

const POLL_MS = 10;
/** Time in ms after which a killed process that still has the device is reported. */
const STUCK_AFTER_MS = 2_000;

export function lendingOf(fd: number, stats: BigIntStats): FileLending {
  // A new open file description, because the lock must not be the agent's. Opened through the descriptor, so that it is
  // the same file even if the path names another one by now.
  const reopen = () => openSync(`/proc/self/fd/${fd}`, constants.O_RDWR | constants.O_NONBLOCK);
  const isLent = (deviceOffsetBytes: number, retired: Retired) =>
    isSessionLocked(fd, stats, deviceOffsetBytes, retired);
  return {
    lend: (deviceOffsetBytes, retired) => {
      if (isLent(deviceOffsetBytes, retired)) return undefined;
      const lent = reopen();
      if (lockSession(lent, deviceOffsetBytes))
        return { fd: lent, isBlockDevice: stats.isBlockDevice(), close: () => closeSync(lent) };
      closeSync(lent);
      return undefined;
    },
    isLent,
    endBorrowers: async (deviceOffsetBytes, retired, on) => {
      const watched = reopen();
      const isHeld = () => isSessionLocked(watched, stats, deviceOffsetBytes, retired);
      const holders = async () =>
        (await sessionLockHolders(stats, deviceOffsetBytes)).filter((pid) => !retired.has(pid));
      try {
        await endHolders(isHeld, holders, on);
      } finally {
        closeSync(watched);
      }
    },
  };
}

async function endHolders(
  isHeld: () => boolean,
  holders: () => Promise<number[]>,
  on: Parameters<FileLending["endBorrowers"]>[2],
): Promise<void> {
  const killed = new Set<number>();
  const stuckAtMs = performance.now() + STUCK_AFTER_MS;
  let isReported = false;
  while (isHeld()) {
    const pids = await holders();
    let failure = pids.length === 0 ? "no process that holds it can be seen from here" : "";
    for (const pid of pids)
      try {
        process.kill(pid, "SIGKILL");
        if (!killed.has(pid)) on.kill(pid);
        killed.add(pid);
      } catch (error) {
        failure = `process ${pid} cannot be killed: ${messageOf(error)}`;
      }
    if (!isReported && performance.now() > stuckAtMs) {
      on.stuck(failure || `process ${[...killed].join(", ")} was killed and has not ended: its device may hang`);
      isReported = true;
    }
    await sleep(isReported ? STUCK_AFTER_MS : POLL_MS);
  }
}
