import { type Cure, countText, type HostId, knownAlert } from "@diskmesh/domain";
import { mustBeErased } from "../devices/removal-erase.js";
import { disksLostOn, lostText } from "../hosts/lost-disks.js";
import { disksServedBy } from "../hosts/removal-step.js";
import { massSilenceRan } from "../hosts/vigil.js";
import { holdsAnyDisk } from "../store/runs.js";
import { type Device, type Host, isAway, isHeld, type RegistryTables } from "../store/schema.js";
import type { Cause, Known, Subject } from "./cause.js";

export function hostCauses(tables: RegistryTables, hostId: HostId, known: Known): Cause[] {
  const host = tables.hosts.get(hostId);
  if (host === undefined) return toCauses(hostId, [refusedRegistration(hostId, known), refused(hostId, known)]);
  const found = [
    isOfAnother(host, known) ? undefined : refusedRegistration(hostId, known),
    standsStill(host, known),
    isSilent(host, known) ? refused(hostId, known) : undefined,
    silence(tables, host, known),
    mustRegister(host),
    ...lacks(host, known),
    probation(host),
    warning(host),
    foreignDevices(host),
    removal(tables, host),
    cordon(host),
    maintenance(host),
  ];
  const isOut = host.removalRequested && !found.some((cause) => cause?.reason === "REMOVAL_WAITS");
  const causes = toCauses(hostId, found);
  return isOut ? causes.map((cause) => ({ ...cause, isRoutine: true })) : causes;
}

/** Returns when a silent or suspected host was last heard; undefined when that is unknown. */
export function silentSinceMs(tables: RegistryTables, hostId: HostId, known: Known): number | undefined {
  const host = tables.hosts.get(hostId);
  return host && whySilent(tables, host, known)?.sinceMs;
}

const SHOWN_DISKS = 3;

type Found = Omit<Cause, "subject"> | undefined;

function toCauses(name: HostId, found: readonly Found[]): Cause[] {
  return found.flatMap((cause) => (cause === undefined ? [] : [{ subject: { kind: "HOST", name }, ...cause }]));
}

function cordon({ hostId, cordoned }: Host): Found {
  if (cordoned === undefined) return undefined;
  const { by, atMs, reason } = cordoned;
  return {
    reason: "CORDONED",
    message: `${by} (${reason}) cordoned host ${hostId}: it gets no new disk and no new VM`,
    sinceMs: atMs,
    cures: [["open the host again", `diskmesh set-host-state online ${hostId}`]],
    isRoutine: true,
  };
}

function maintenance({ hostId, maintenance: told }: Host): Found {
  if (told === undefined) return undefined;
  const { by, atMs, reason, untilMs } = told;
  return {
    reason: "IN_MAINTENANCE",
    message: `${by} (${reason}) has host ${hostId} in maintenance until it is back, or the time is over: it gets no new disk and no new VM, and its silence does not fence its disks`,
    sinceMs: atMs,
    nextTryAtMs: untilMs,
    cures: [["end the maintenance", `diskmesh set-host-state online ${hostId}`]],
    isRoutine: true,
  };
}

function standsStill({ hostId }: Host, known: Known): Found {
  const message = known.standsStill();
  if (message === undefined) return undefined;
  const cures: readonly Cure[] = [
    ["stop this registry; if the other one is gone for good, call FleetService/AdoptFleet as the message says", ""],
  ];
  return { reason: "STANDS_STILL", message: `host ${hostId} gets no orders: ${message}`, cures };
}

function isSilent({ hostId, state }: Host, { whySuspected }: Known): boolean {
  return state === "UNAVAILABLE" || whySuspected(hostId) !== undefined;
}

/** Returns whether the refused agent with this host's certificate is another one: the host's own agent was heard since. */
function isOfAnother(host: Host, known: Known): boolean {
  const { claimsOther = false, lastAtMs = 0 } = known.refusedRegistrationOf(host.hostId) ?? {};
  return claimsOther && (!isSilent(host, known) || lastAtMs < (known.lastHeardAtMs(host.hostId) ?? 0));
}

/**
 * Explains a refused registration. An agent with the host's certificate runs, and the cause may be a typo in its
 * config, so the cures take nothing from the host.
 */
function refusedRegistration(hostId: HostId, { refusedRegistrationOf }: Known): Found {
  const refusal = refusedRegistrationOf(hostId);
  if (refusal === undefined) return undefined;
  const { message, sinceMs } = refusal;
  const mend = "correct what the refusal names, most often in the agent's config, then restart that agent";
  return { reason: "REGISTRATION_REFUSED", message, sinceMs, cures: [[mend, ""]] };
}

/**
 * Explains a refused connection under the name of a silent host. Returns undefined when the host was heard after the
 * refusal, because any stranger can be refused under the host's name.
 */
function refused(hostId: HostId, { refusalOf, lastHeardAtMs }: Known): Found {
  const refusal = refusalOf(hostId);
  if (refusal === undefined || refusal.lastAtMs <= (lastHeardAtMs(hostId) ?? 0)) return undefined;
  const { message, sinceMs } = refusal;
  const certificate = `if the client is the host's agent, replace the files under \`tls\` in the agent's config by a certificate and key of disk-agent ${hostId} from an authority that the registry trusts (its \`tls.caFile\`)`;
  const restart =
    "restart the agent if its old certificate had ended or named another host; else it reloads the files by itself";
  return {
    reason: "AGENT_REFUSED",
    message: `the agent of host ${hostId} is silent, and ${message}`,
    sinceMs,
    cures: [[`${certificate}; ${restart}`, ""]],
  };
}

/**
 * Explains the host's silence. Omits the cures that start the agent, fence the host or declare it dead while its agent runs
 * and is refused.
 */
function silence(tables: RegistryTables, host: Host, known: Known): Found {
  const found = whySilent(tables, host, known);
  const isRefused = known.refusedRegistrationOf(host.hostId) !== undefined && !isOfAnother(host, known);
  if (found === undefined || !isRefused) return found;
  const useless = new Set<string>([START_AGENT[0], fenceOf(host)[0], sayDeadOf(host)[0]]);
  return { ...found, cures: found.cures?.filter(([what]) => !useless.has(what)) };
}

const fenceOf = ({ hostId }: Host) =>
  ["take its disks from it, to use them elsewhere", `diskmesh fence-host ${hostId} --reason WHY`] as const;

const acceptLossOf = ({ hostId }: Host) =>
  [
    "start the host again, or accept the loss: delete the disks, or purge the host with them",
    `diskmesh purge-host ${hostId} --force`,
  ] as const;

const sayDeadOf = ({ hostId }: Host) =>
  ["mark it as dead", `diskmesh set-host-state dead ${hostId} --reason WHY`] as const;

const START_AGENT = [
  "start its agent, or repair the network to it if it runs: its log says why it does not reach the registry",
  "",
] as const;

function whySilent(tables: RegistryTables, host: Host, { whySuspected, lastHeardAtMs }: Known): Found {
  const { hostId, state, saidDead, stateChangedAtMs, stateMessage } = host;
  const [fence, sayDead] = [fenceOf(host), sayDeadOf(host)];
  if (state === "DEAD") {
    const word = saidDead === undefined ? "an operator" : `${saidDead.by} (${saidDead.reason})`;
    const takeBack = ["revoke DEAD", `diskmesh set-host-state online ${hostId}`] as const;
    return {
      reason: "SAID_DEAD",
      message: `${word} marked host ${hostId} as dead`,
      sinceMs: saidDead?.atMs ?? stateChangedAtMs,
      cures: [takeBack, fence],
    };
  }
  const sinceMs = lastHeardAtMs(hostId);
  if (state === "UNAVAILABLE")
    return {
      reason: "AGENT_SILENT",
      message: `the agent of host ${hostId} is silent${stateMessage === "" ? "" : `: ${stateMessage}`}`,
      sinceMs: sinceMs ?? stateChangedAtMs,
      cures: [START_AGENT, fence, sayDead],
    };
  const suspected = whySuspected(hostId);
  if (suspected === undefined) return undefined;
  if (massSilenceRan(tables))
    return {
      reason: "MASS_SILENCE",
      message: `${suspected}; so are most other hosts, which suggests a network fault: no host is marked UNAVAILABLE`,
      sinceMs,
      cures: [["check the network and the power", ""], sayDead],
    };
  const isRoutine = host.maintenance !== undefined;
  return { reason: "HEARTBEATS_MISSED", message: suspected, sinceMs, cures: [START_AGENT], isRoutine };
}

function mustRegister(host: Host): Found {
  if (!host.mustRegister || isAway(host)) return undefined;
  const message = `host ${host.hostId} gets no orders until its agent has registered again, as the registry has asked it to`;
  const cures: readonly Cure[] = [["wait for some seconds; if that does not end it, see the agent's log", ""]];
  return { reason: "MUST_REGISTER", message, cures };
}

const NEED_CURES: Readonly<Record<string, string>> = {
  nats: "do what the message says about NATS, or restart nats-server if it hangs; the agent connects and subscribes again by itself",
  certificate: "replace the certificate and key files under `tls` in the agent's config",
  descriptors: "raise LimitNOFILE of the agent's unit, or use prlimit --nofile while it runs",
  clock: "set the clock that is wrong",
  drivers:
    "repair what the message names: the driver's package, or `drivers` in the agent's config; a failed driver is started again by itself",
};

/** Needs whose reason is a whole sentence. */
const COMPLETE = new Set(["clock", "drivers"]);

/** Explains what the agent itself lacks, or warns of. An agent that is silent may lack other things by now. */
function lacks(host: Host, known: Known): Found[] {
  const { hostId } = host;
  if (isAway(host) || isSilent(host, known)) return [];
  return known.missingNeedsOf(hostId).map(({ need, why, sinceMs, isAlert }) => {
    if (isAlert)
      return {
        reason: "AGENT_WARNS",
        message: `the agent of host ${hostId} warns: ${why}`,
        sinceMs,
        cures: [knownAlert(need).cure],
      };
    const cure = NEED_CURES[need];
    return {
      reason: need === "drivers" ? "DRIVER_FAILED" : "AGENT_LACKS",
      message: `the agent of host ${hostId} runs, but ${COMPLETE.has(need) ? "" : `lacks ${need}: `}${why}`,
      sinceMs,
      cures: cure === undefined ? [knownAlert(need).cure] : [[cure, ""]],
    };
  });
}

function probation({ hostId, probationEndsAtMs, stateChangedAtMs }: Host): Found {
  if (probationEndsAtMs === undefined) return undefined;
  return {
    reason: "ON_PROBATION",
    message: `host ${hostId} was silent and is back, but gets no new disks yet`,
    sinceMs: stateChangedAtMs,
    nextTryAtMs: probationEndsAtMs,
    cures: [["no action needed: it gets new disks again by itself", ""]],
  };
}

function warning({ hostId, agentWarning }: Host): Found {
  if (agentWarning === undefined) return undefined;
  return {
    reason: "AGENT_TAKES_NOTHING_NEW",
    message: `host ${hostId} gets no new disks: ${agentWarning}`,
    cures: [
      [
        "free space on the disk under its agent's baseFolder, repair that disk, or put the folder back where it is gone",
        "",
      ],
    ],
  };
}

function foreignDevices({ hostId, foreignDevices: foreign = [] }: Host): Found {
  const [first] = foreign;
  if (first === undefined) return undefined;
  return {
    reason: "FOREIGN_DEVICES",
    message: `${countText(foreign.length, "device")} of host ${hostId} ${foreign.length === 1 ? "is" : "are"} refused: ${first.deviceId} is the id of a device of host ${first.hostId}`,
    cures: [
      ["give these devices other ids in the agent's config, or purge the devices of the other host (PurgeDevice)", ""],
    ],
    becauseOf: [{ kind: "HOST", name: first.hostId }],
  };
}

function removal(tables: RegistryTables, host: Host): Found {
  const { hostId, removalRequested, assignment } = host;
  if (!removalRequested) return undefined;
  const devices = [...tables.devices.by("byHost", hostId)].filter(
    ({ attachState, detachConfirmed }) => attachState !== "UNKNOWN" && !(attachState === "DETACHED" && detachConfirmed),
  );
  const served = disksServedBy(tables, hostId);
  const parts = [
    devices.length > 0 && `${countText(devices.length, "device is", "devices are")} not out of operation`,
    served.length > 0 && `it serves ${countText(served.length, "disk")} (${served.slice(0, SHOWN_DISKS).join(", ")})`,
    assignment !== undefined && `it is VM ${assignment.vmCid}`,
  ].filter(Boolean);
  if (parts.length === 0) return undefined;
  const lost = host.lossNoted ? disksLostOn(tables, devices) : [];
  if (lost.length > 0) parts.push(`it has lost ${countText(lost.length, "disk")}: ${lostText(tables, lost)}`);
  return {
    reason: "REMOVAL_WAITS",
    message: `host ${hostId} is being removed: ${parts.join(", ")}`,
    sinceMs: wishedAtMs(devices),
    cures: [
      lost.length > 0 ? acceptLossOf(host) : ["wait until the removal ends", `diskmesh remove-host ${hostId} --wait`],
      // AddHost is refused for a DEAD host.
      ...(host.state === "DEAD" ? [] : [["cancel the removal", `diskmesh add-host ${hostId}`] as const]),
    ],
    becauseOf: [
      ...served.map((diskId): Subject => ({ kind: "DISK", name: diskId })),
      ...devices.filter(holdsUpHost).map(({ deviceId }): Subject => ({ kind: "DEVICE", name: deviceId })),
      ...(assignment === undefined ? [] : [{ kind: "VM", name: assignment.vmCid } as const]),
    ],
  };
}

/** Returns false for a device that waits only for what its host waits for. */
function holdsUpHost(device: Device): boolean {
  return !isHeld(device) || holdsAnyDisk(device) || mustBeErased(device);
}

/** Returns when the host's removal was requested: RemoveHost sets the time on its devices. */
function wishedAtMs(devices: readonly Device[]): number | undefined {
  const all = devices.flatMap(({ removalRequestedAtMs: atMs }) => (atMs === undefined ? [] : [atMs]));
  return all.length === 0 ? undefined : Math.min(...all);
}
