import { type BigIntStats, closeSync, constants, openSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { messageOf } from "@diskmesh/domain";
import { isSessionLocked, lockSession, sessionLockHolders, unlockSession } from "@diskmesh/file-lock";

/** A descriptor for a process of a session. The process inherits it, and with it the lock of the session. */
export interface LentFile {
  readonly fd: number;
  readonly isBlockDevice: boolean;
  /** Closes the agent's copy. The lock stays with the process that inherited the descriptor. */
  close(): void;
  /** Ends the lock although the process lives, because it can do no more I/O on the device. */
  release(): void;
}

/** Lends one open file to processes, which read and write it without the agent. */
export interface FileLending {
  /** Returns undefined while a process of another session has the device at this offset. */
  lend(deviceOffsetBytes: number): LentFile | undefined;
  /** Returns whether a process has the device at this offset, also one that a former life of the agent started. */
  isLent(deviceOffsetBytes: number): boolean;
  /**
   * Kills the processes that have the device at this offset. Resolves once nothing of them is left. Calls `onKill` for
   * each process, and `onStuck` once when a process does not end.
   */
  endBorrowers(
    deviceOffsetBytes: number,
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
  return {
    lend: (deviceOffsetBytes) => {
      const lent = reopen();
      if (lockSession(lent, deviceOffsetBytes))
        return {
          fd: lent,
          isBlockDevice: stats.isBlockDevice(),
          close: () => closeSync(lent),
          release: () => unlockSession(lent, deviceOffsetBytes),
        };
      closeSync(lent);
      return undefined;
    },
    isLent: (deviceOffsetBytes) => isSessionLocked(fd, deviceOffsetBytes),
    endBorrowers: async (deviceOffsetBytes, on) => {
      const watched = reopen();
      try {
        await endHolders(watched, stats, deviceOffsetBytes, on);
      } finally {
        closeSync(watched);
      }
    },
  };
}

async function endHolders(
  fd: number,
  stats: BigIntStats,
  deviceOffsetBytes: number,
  on: Parameters<FileLending["endBorrowers"]>[1],
): Promise<void> {
  const killed = new Set<number>();
  const stuckAtMs = performance.now() + STUCK_AFTER_MS;
  let isReported = false;
  while (isSessionLocked(fd, deviceOffsetBytes)) {
    const pids = await sessionLockHolders(stats, deviceOffsetBytes);
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
