import { type Cause, type Cure, countText, knownAlert, VERSION } from "@diskmesh/domain";

const DAY_MS = 86_400_000;

interface NeedState {
  /** Undefined when nothing checks the dependency. */
  readonly met: boolean | undefined;
  readonly why: string;
  readonly sinceMs: number;
}

/** Health of a process, as its health checks report it. */
export interface ProcessReport {
  readonly serving: boolean;
  /** Address of the leader that this standby follows. */
  readonly standsByFor: string | undefined;
  /** Time at which the standby takes over unless the leader renews its lease first. */
  readonly takesOverAtMs: number | undefined;
  readonly needs: ReadonlyMap<string, NeedState>;
  /** Remaining validity of the process's certificate; undefined when unknown. */
  readonly certificateLeftMs?: number | undefined;
  /** States that somebody must act on, although the process does its work, by name. */
  readonly alerts?: ReadonlyMap<string, { readonly why: string; readonly sinceMs: number }>;
}

export interface Subject {
  readonly kind: "SERVICE";
  readonly name: string;
}

type Reason =
  | "CERTIFICATE"
  | "DATABASE_AWAY"
  | "STANDS_BY"
  | "DOES_NOT_LEAD"
  | "NATS_AWAY"
  | "DISPATCHER_AWAY"
  | "DRIVER_FAILED"
  | "ALERT";

/** Dependencies in order: an unmet one keeps the later ones from being met. */
const NEEDS: readonly (readonly [need: string, reason: Reason, cure: Cure])[] = [
  ["certificate", "CERTIFICATE", ["replace the certificate and key files under `tls` of its config", ""]],
  [
    "database",
    "DATABASE_AWAY",
    [
      "start the database that `tablet.storage` of its config names, or repair the network to it; where it names a folder, free space there",
      "",
    ],
  ],
  ["leader", "DOES_NOT_LEAD", ["see its log", ""]],
  ["nats", "NATS_AWAY", ["start nats-server, restart it if it hangs, or repair the network to it", ""]],
  [
    "dispatcher",
    "DISPATCHER_AWAY",
    [
      "start the cpi-dispatcher, restart it if it hangs, or, if the message names them, replace its certificate or raise its LimitNOFILE",
      "",
    ],
  ],
  [
    "drivers",
    "DRIVER_FAILED",
    [
      "repair what the message names: the driver's package, or `drivers` in its config; a failed driver is started again by itself",
      "",
    ],
  ],
];

/** Describes a process: whether it serves and leads, its version, and the days for which its certificate is valid. */
export function serviceSummary(name: string, report: ProcessReport): string {
  const { serving, standsByFor, needs, certificateLeftMs } = report;
  const leads =
    standsByFor === undefined ? (needs.get("leader")?.met ? ", leads" : "") : `, stands by for ${standsByFor}`;
  const days = certificateLeftMs === undefined ? undefined : Math.max(0, Math.floor(certificateLeftMs / DAY_MS));
  const certificate = days === undefined ? "" : `; its certificate is valid for ${countText(days, "day")}`;
  return `the ${name} that was asked ${serving ? "serves" : "does not serve"}${leads}, and is of version ${VERSION}${certificate}`;
}

/**
 * Returns the reasons why a process does not do all its work: unmet dependencies, or a leader that it stands by for. Its
 * alerts follow, which keep it from nothing yet.
 */
export function serviceCauses(subject: Subject, report: ProcessReport): Cause<Subject, Reason>[] {
  const { needs, standsByFor, takesOverAtMs, alerts = new Map() } = report;
  const isAway = (need: string) => needs.get(need)?.met === false;
  const told = [...alerts].map(([name, { why, sinceMs }]): Cause<Subject, Reason> => {
    const message = `the ${subject.name} that was asked warns: ${why}`;
    return { subject, reason: "ALERT", message, sinceMs, cures: [knownAlert(name).cure] };
  });
  const unmet = NEEDS.flatMap(([need, reason, cure]): Cause<Subject, Reason>[] => {
    const { met, why = "", sinceMs } = needs.get(need) ?? {};
    if (met !== false) return [];
    const of = `the ${subject.name} that was asked`;
    if (need !== "leader")
      return [{ subject, reason, message: `${of} lacks its ${need}: ${why}`, sinceMs, cures: [cure] }];
    // A process without its database cannot lead; the database is the cause to report.
    if (isAway("database")) return [];
    if (standsByFor === undefined)
      return [{ subject, reason, message: `${of} does not lead: ${why}`, sinceMs, cures: [cure] }];
    const message = `${of} is a standby: the process at ${standsByFor} has the lease, and this process takes over if the lease is not renewed in time`;
    const start: Cure = [`wait for the takeover, or start the process at ${standsByFor}`, "diskmesh status"];
    return [{ subject, reason: "STANDS_BY", message, sinceMs, nextTryAtMs: takesOverAtMs, cures: [start] }];
  });
  return [...unmet, ...told];
}
