import { timeText } from "@diskmesh/domain";

/** Time in ms after which a call or a program is slow: longer than nearly all take. */
const SLOW_MS = 15_000;
const MAX_SHOWN = 3;

interface Begun {
  /** Wall clock time. */
  readonly startedAtMs: number;
}

export interface RunningCall extends Begun {
  readonly method: string;
  readonly volumeId: string;
}

export interface RunningProgram extends Begun {
  readonly program: string;
  readonly pid: number;
}

/** Returns sentences about calls and programs that have run for long. They are the same until one begins or ends. */
export function slowWarnings(
  nowMs: number,
  calls: Iterable<RunningCall>,
  programs: Iterable<RunningProgram>,
): readonly string[] {
  const ofCalls = slowest(nowMs, calls).map(
    ({ method, volumeId, startedAtMs }) =>
      `${method} of volume ${volumeId} runs since ${timeText(startedAtMs)}: see its disk (diskmesh why disk ${volumeId}); the call ends by itself once the disk answers`,
  );
  const ofPrograms = slowest(nowMs, programs).map(
    ({ program, pid, startedAtMs }) =>
      `program ${program} of the node runs since ${timeText(startedAtMs)}: if its disk answers, end process ${pid}; the call is then tried again`,
  );
  return [...ofCalls, ...ofPrograms];
}

function slowest<Each extends Begun>(nowMs: number, all: Iterable<Each>): Each[] {
  const slow = [...all].filter(({ startedAtMs }) => nowMs - startedAtMs >= SLOW_MS);
  return slow.sort((a, b) => a.startedAtMs - b.startedAtMs).slice(0, MAX_SHOWN);
}
