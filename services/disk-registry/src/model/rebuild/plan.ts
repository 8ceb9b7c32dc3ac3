import type { HostId } from "@diskmesh/domain";
import { identityOf } from "../identity/hardware.js";
import { type Counter, withGap } from "../store/counter.js";
import type { OtherFleet } from "../store/other-fleet.js";
import { type Run, type UnknownSession, withRun } from "../store/runs.js";
import type { Device, Disk, Host } from "../store/schema.js";
import { withDirtyBytes } from "../store/slices.js";
import type { AgentClaims } from "./claims.js";
import { type FoundDevice, type FoundRun, findDevices, isWithin, type LeftDevice } from "./found-devices.js";
import { findDisks, type LeftDisk } from "./found-disks.js";

/** Distance of the rebuilt registry's numbers from the highest that was heard: no registry can have given that many since. */
const NUMBER_STEP = 2 ** 32;
/** Distance of the rebuilt tablet's generation from the highest that was heard. */
const GENERATION_STEP = 2 ** 20;

/** State of a registry, as agents have it. */
export interface RebuildPlan {
  readonly tabletGeneration: number;
  readonly hosts: readonly Host[];
  readonly devices: readonly Device[];
  readonly disks: readonly Disk[];
  readonly counters: readonly Counter[];
  /** Lost incarnations, whose agents the registry takes over. */
  readonly fleets: readonly OtherFleet[];
  /** Hosts that have not answered, and to which disks are published. */
  readonly silentHolders: readonly HostId[];
  readonly leftDevices: readonly LeftDevice[];
  /** Disks that are not rebuilt. Their devices are held by an unknown disk. */
  readonly leftDisks: readonly LeftDisk[];
}

/** Plans a registry's state from what the fleet's agents hold. */
export function planRebuild(
  agents: readonly AgentClaims[],
  { fleetId, nowMs }: { readonly fleetId: string; readonly nowMs: number },
): RebuildPlan {
  const { found, left: leftDevices } = findDevices(agents, fleetId);
  const { found: foundDisks, left: leftDisks } = findDisks(found, agents, nowMs);
  const highest = highestHeard(agents, found);
  const firstGeneration = highest.deviceGeneration + NUMBER_STEP;
  const runsOf = new Map<string, FoundRun[]>(found.map(({ reported }) => [reported.deviceId, []]));
  for (const run of foundDisks.flatMap(({ runs }) => runs)) runsOf.get(run.deviceId)?.push(run);
  const devices = found.map((device, index) =>
    deviceOf(device, runsOf.get(device.reported.deviceId) ?? [], firstGeneration + index + 1, nowMs),
  );
  const disks = foundDisks.map(({ disk }) => disk);
  const hosts = agents.map((agent) => hostOf(agent, nowMs));
  const known = new Set(hosts.map(({ hostId }) => hostId));
  const silent = disks.flatMap(({ az, publication }) =>
    publication === undefined || known.has(publication.hostId) ? [] : [silentHost(publication.hostId, az, nowMs)],
  );
  const silentHosts = [...new Map(silent.map((host) => [host.hostId, host])).values()];
  return {
    tabletGeneration: highest.tabletGeneration + GENERATION_STEP,
    hosts: [...hosts, ...silentHosts],
    devices,
    disks,
    counters: [
      { ...aboveAll("device_generation", firstGeneration), value: firstGeneration + devices.length },
      aboveAll("session_number", highest.sessionNumber + NUMBER_STEP),
    ],
    fleets: lostIncarnations(agents, nowMs),
    silentHolders: silentHosts.map(({ hostId }) => hostId),
    leftDevices,
    leftDisks,
  };
}

/** Returns a counter that has given no number: what agents remember is another registry's, unless a disk explains it. */
const aboveAll = (name: Counter["name"], upTo: number): Counter => withGap({ name, value: 0 }, { above: 0, upTo });

function highestHeard(agents: readonly AgentClaims[], found: readonly FoundDevice[]) {
  const remembered = agents.map(({ registration }) => registration.remembered);
  const max = (values: readonly number[]): number => Math.max(0, ...values);
  const ofDevices = found.flatMap(({ runs, carried }) => [
    carried.floor,
    ...runs.map(({ lastSessionNumber }) => lastSessionNumber),
    ...carried.claims.map(({ sessionNumber }) => sessionNumber),
    ...carried.remembered.map(({ sessionNumber }) => sessionNumber),
  ]);
  return {
    tabletGeneration: max(remembered.map(({ tabletGeneration }) => tabletGeneration)),
    deviceGeneration: max(remembered.map(({ deviceGeneration }) => deviceGeneration)),
    sessionNumber: ofDevices.reduce(
      (highest, each) => Math.max(highest, each),
      max(remembered.map(({ sessionNumber }) => sessionNumber)),
    ),
  };
}

function hostOf({ registration }: AgentClaims, nowMs: number): Host {
  const { hostId, address, az, rack, bootId, slices } = registration;
  return {
    ...{ hostId, address, az, rack, bootId },
    ...{ state: "ONLINE", stateMessage: "", stateChangedAtMs: nowMs },
    // Its agent has not yet been told which of its devices this registry has.
    mustRegister: true,
    removalRequested: false,
    ...(slices && { slices }),
    createdAtMs: nowMs,
  };
}

/** Returns a host that only devices of other hosts know, so that an operator can take its disks from it. */
function silentHost(hostId: HostId, az: string, nowMs: number): Host {
  const stateMessage = "its agent did not answer when the registry was rebuilt";
  return {
    ...{ hostId, address: "", az, rack: "", bootId: "" },
    ...{ state: "UNAVAILABLE", stateMessage, stateChangedAtMs: nowMs },
    mustRegister: true,
    removalRequested: false,
    createdAtMs: nowMs,
  };
}

/** Returns the device with these runs of rebuilt disks. */
function deviceOf(found: FoundDevice, rebuilt: readonly FoundRun[], generation: number, nowMs: number): Device {
  const { hostId, reported, label, carried } = found;
  const { deviceId, pool, health, healthMessage } = reported;
  const runs = rebuilt.map(({ first, count, diskId }): Run => ({ first, count, diskId }));
  const lastSessionNumber = carried.remembered.reduce(
    (highest, { sessionNumber }) => Math.max(highest, sessionNumber),
    carried.floor,
  );
  const unknownSession = unknownOn(found, rebuilt);
  const device: Device = {
    deviceId,
    hostId,
    ...identityOf({ ...reported, sizeBytes: label.sizeBytes }),
    sliceBytes: label.sliceBytes,
    ...{ pool, health, healthMessage },
    ...{ attachState: "ATTACHED", generation, attempts: 0, lastError: "", detachConfirmed: false },
    removalRequested: false,
    runs: [],
    ...(lastSessionNumber > 0 && { lastSessionNumber }),
    ...(unknownSession && { unknownSession }),
    ...{ labelState: "VALID", label: { labelId: label.labelId } },
    stateChangedAtMs: nowMs,
  };
  // Nothing proves that the other bytes are erased: a drive is dirty from the moment at which it is added.
  return withDirtyBytes(runs.reduce(withRun, device), { offsetBytes: 0, sizeBytes: label.sizeBytes });
}

/** Returns the highest session on the device of a disk that is not rebuilt, or not there; undefined for none. */
function unknownOn({ carried, runs }: FoundDevice, rebuilt: readonly FoundRun[]): UnknownSession | undefined {
  const isExplained = (bytes: { offsetBytes: number; sizeBytes: number; diskId: string }): boolean =>
    rebuilt.some((run) => run.diskId === bytes.diskId && isWithin(bytes, run));
  const erased = runs.filter(({ isErased }) => isErased).map(({ offsetBytes }) => offsetBytes);
  const claims = carried.claims.filter((claim) => !isExplained(claim) && !erased.includes(claim.offsetBytes));
  const remembered = carried.remembered.filter((range) => range.diskId !== "" && !isExplained(range));
  const unknown = [...claims, ...remembered].map(({ sessionNumber, diskId }) => ({ sessionNumber, diskId }));
  return unknown.sort((a, b) => b.sessionNumber - a.sessionNumber)[0];
}

/** Returns the incarnations that agents obey: each was lost with its registry. */
function lostIncarnations(agents: readonly AgentClaims[], nowMs: number): readonly OtherFleet[] {
  const lost = new Map<string, OtherFleet>();
  for (const { registration } of agents) {
    const { tabletId, incarnation } = registration.remembered;
    if (tabletId === "" || lost.has(incarnation)) continue;
    lost.set(incarnation, { tabletId, incarnation, hostId: registration.hostId, heardAtMs: nowMs, adoptedAtMs: nowMs });
  }
  return [...lost.values()];
}
