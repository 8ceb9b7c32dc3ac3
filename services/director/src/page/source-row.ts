import { type Cause as CauseMessage, SubjectKind } from "@diskmesh/api/common";
import type { MassSilence } from "@diskmesh/api/registry";
import { type Cure, MAX_CLOCK_SKEW_MS, timeText } from "@diskmesh/domain";
import type { SourceRow } from "@diskmesh/page/rows";
import { type ProcessReport, serviceCauses } from "@diskmesh/tablet-admin";
import type { RegistryClients } from "../explain/registries.js";

/** A missing dependency of a service, or a fault that blocks all of its work. */
export interface SourceCause {
  readonly message: string;
  readonly sinceMs: number | undefined;
  readonly cures: readonly Cure[];
}

export function sourceRow(state: SourceRow["state"], causes: readonly SourceCause[]): SourceRow {
  const [first] = causes;
  if (first === undefined) return { state };
  const told = causes.map(({ message, cures }) =>
    [message, cures.map(textOf).join("; or ")].filter(Boolean).join(": "),
  );
  const cures = causes.flatMap((cause) => cause.cures).map(([what, command]) => ({ what, command }));
  return {
    state,
    trouble: [...(state === "silent" ? ["shown is what it said last"] : []), ...told].join("; "),
    ...(first.sinceMs !== undefined && { sinceMs: first.sinceMs }),
    ...(cures.length > 0 && { cures }),
  };
}

function textOf([what, command]: Cure): string {
  return command === "" ? what : `${what}: ${command}`;
}

/**
 * Returns the director's row from its own process report. `readFailure` is the reason why the director's state cannot
 * be read.
 */
export function ownSourceRow(report: ProcessReport, readFailure = ""): SourceRow {
  const causes: readonly SourceCause[] = serviceCauses({ kind: "SERVICE", name: "director" }, report).map(
    ({ message, sinceMs, cures = [] }) => ({ message, sinceMs, cures }),
  );
  const isSilent = !report.serving || readFailure !== "";
  const isUntold = causes.length === 0 && isSilent;
  const untold = { message: readFailure || "it does not serve now", sinceMs: undefined, cures: [] };
  return sourceRow(isSilent ? "silent" : "live", isUntold ? [untold] : causes);
}

/** Returns the cause of clocks that differ; undefined when they agree, and for a registry that does not tell its time. */
export function clockCause(registryTime: Date | undefined, nowMs: number): SourceCause | undefined {
  if (registryTime === undefined || Math.abs(registryTime.getTime() - nowMs) <= MAX_CLOCK_SKEW_MS) return undefined;
  const message = `the clock of the disk-registry's machine showed ${timeText(registryTime.getTime())} when this director's showed ${timeText(nowMs)}`;
  return { message, sinceMs: nowMs, cures: [["set the clock that is wrong", ""]] };
}

/** Timeout of the explain request to a registry that cannot be read. */
const ITSELF_DEADLINE_MS = 2_000;

/**
 * Returns the registry's own causes. A standby answers, too, with its missing dependencies and its leader. Returns none for
 * a registry that does not answer.
 */
export async function causesOfRegistry(
  { admin }: Pick<RegistryClients, "admin">,
  signal: AbortSignal,
  isWanted: (cause: CauseMessage) => boolean = () => true,
): Promise<readonly SourceCause[]> {
  const subject = { kind: SubjectKind.SERVICE, name: "disk-registry" };
  try {
    const { causes } = await admin.explain({ subject }, { signal, deadlineMs: ITSELF_DEADLINE_MS });
    return causes.filter(isWanted).map(causeOf);
  } catch {
    return [];
  }
}

function causeOf({ message, startTime, cures }: CauseMessage): SourceCause {
  return { message, sinceMs: startTime?.getTime(), cures: cures.map(({ what, command }) => [what, command]) };
}

/** Returns the cause of a registry that does not say itself why it cannot be read. */
export function silenceCause(why: string, sinceMs: number): SourceCause {
  const cures: Cure[] = [
    [
      "start it, restart it if it hangs, or, if the message names them, replace its certificate or raise its LimitNOFILE",
      "",
    ],
  ];
  return { message: `the disk-registry does not answer: ${why}`, sinceMs, cures };
}

export function massSilenceCause({ startTime, silentHosts, hosts }: MassSilence): SourceCause {
  const message = `${silentHosts} of ${hosts} hosts are silent: none of them is marked UNAVAILABLE, and none gets new disks`;
  const cures: Cure[] = [
    ["check the network and the power", ""],
    ["mark the dead hosts", "diskmesh set-host-state dead HOST --reason WHY"],
  ];
  return { message, sinceMs: startTime?.getTime(), cures };
}
