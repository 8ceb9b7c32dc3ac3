import type { DiskId, Logger } from "@diskmesh/domain";
import { Changes, type Clock, type Lifecycle, LineLimit } from "@diskmesh/service";
import pLimit from "p-limit";
import { AgentClients, type ConnectAgent } from "./agents/agent-clients.js";
import { Fleet } from "./agents/fleet.js";
import { IoMeter } from "./agents/io-meter.js";
import { Liveness } from "./agents/liveness.js";
import type { RefusedAgents } from "./agents/refused-agents.js";
import type { Context } from "./calls/context.js";
import type { Config } from "./config/config.js";
import type { RegistryLimits } from "./config/limits.js";
import { observeFleet, observeWork } from "./metrics/observe-fleet.js";
import { causeOf, type Note, noteEvents } from "./model/events/events.js";
import type { Known } from "./model/explain/cause.js";
import { eventLimits } from "./requests/limits.js";
import type { RegistryTablet } from "./store/stored-schema.js";
import { observeTroubles } from "./troubles.js";
import { SessionKeys } from "./workers/session-keys.js";
import {
  devicesOf,
  devicesSeenOtherwise,
  disksOf,
  disksSeenOtherwise,
  hostsSeenOtherwise,
  onHost,
  TableChanges,
} from "./workers/table-changes.js";
import type { WorkContext } from "./workers/work-context.js";
import { Workers } from "./workers/workers.js";

/** Maximum registrations per turn of the event loop. This number of registrations takes a few tens of milliseconds. */
const REGISTRATIONS_PER_TURN = 32;

/** External effects of a registry beside its tablet's storage. */
export interface RegistryEdges {
  readonly clock: Clock;
  /** In [0, 1). */
  readonly random: () => number;
  /** Returns bytes that nobody can predict. */
  readonly randomBytes: (count: number) => Uint8Array;
  readonly connectAgent: ConnectAgent;
  /** Calls back in the next turn of the event loop. */
  readonly afterTurn: (callback: () => void) => void;
}

/** Builds a registry around its tablet, and starts the background workers. */
export async function buildContext(
  lifecycle: Lifecycle,
  options: {
    readonly config: Config;
    readonly limits: RegistryLimits;
    readonly log: Logger;
    readonly tablet: RegistryTablet;
    readonly edges: RegistryEdges;
    readonly refusedAgents: RefusedAgents;
  },
): Promise<Context> {
  const { config, limits, log, tablet, edges, refusedAgents } = options;
  const { clock, random } = edges;
  lifecycle.use("tablet", tablet);
  tablet.concludeWith((tx, changed, note) => {
    noteEvents(tx, changed, note as Note, eventLimits(config), clock.nowMs());
    return causeOf(note as Note);
  });
  lifecycle.use("metrics of the fleet", await observeFleet(tablet, clock));
  const refusalLines = new LineLimit(log);
  const fleet = await Fleet.open(tablet, clock, limits, log, refusalLines);
  const agents = lifecycle.use(
    "connections to agents",
    new AgentClients(edges.connectAgent, fleet, () => tablet.checkMayAct()),
  );
  const liveness = new Liveness(clock, config.heartbeat);
  const sessionKeys = new SessionKeys(edges.randomBytes(32));
  const external = { clock, random, sessionKeys };
  const work: WorkContext = { config, limits, log, ...external, tablet, fleet, agents, liveness, refusedAgents };
  const diskChanges = new Changes<DiskId>();
  const unwatch = tablet.watch((changes) => {
    for (const { table, key } of changes) if (table === "disks") diskChanges.touch(key as DiskId);
  });
  lifecycle.use("disk changes", unwatch);
  const max = limits.maxRememberedChanges;
  const tableChanges = {
    hosts: lifecycle.use("changes of hosts", new TableChanges(tablet, max, hostsSeenOtherwise)),
    devices: lifecycle.use("changes of devices", new TableChanges(tablet, max, devicesSeenOtherwise, devicesOf)),
    disks: lifecycle.use("changes of disks", new TableChanges(tablet, max, disksSeenOtherwise, disksOf)),
  };
  const workers = lifecycle.use(
    "workers",
    new Workers(work, {
      seenOtherwise: (hostIds) => {
        tableChanges.hosts.touch(hostIds);
        tableChanges.devices.touch(hostIds.map(onHost));
        tableChanges.disks.touch(hostIds.map(onHost));
      },
      moved: (diskId) => tableChanges.disks.touch([diskId]),
    }),
  );
  const ioMeter = new IoMeter(() => clock.nowMs());
  const known: Known = {
    whySuspected: liveness.whySuspected,
    lastHeardAtMs: (hostId) => liveness.lastHeardAtMs(hostId),
    missingNeedsOf: (hostId) => liveness.missingNeedsOf(hostId),
    refusalOf: (hostId) => refusedAgents.of(hostId),
    refusedRegistrationOf: (hostId) => refusedAgents.registrationOf(hostId),
    progressOf: (device) => workers.progressOf(device),
    moveProgressOf: (diskId) => workers.moveProgressOf(diskId),
    openIoOf: (diskId, hostId) => ioMeter.openIo(diskId, hostId),
    engineOf: (diskId, hostId) => ioMeter.engineOf(diskId, hostId),
    standsStill: () => fleet.standsStill,
    serialNumbersOfMany: config.serialNumbersOfMany,
  };
  lifecycle.use("metrics of troubles", observeTroubles({ tablet, tableChanges, known }));
  lifecycle.use(
    "metrics of work",
    observeWork(() => workers.counts),
  );
  await workers.wakeAll();
  const registrations = pLimit(REGISTRATIONS_PER_TURN);
  return {
    ...work,
    tablet,
    diskChanges,
    tableChanges,
    watchers: { count: 0 },
    workers,
    refusalLines,
    registrationTurn: () => registrations(() => new Promise<void>(edges.afterTurn)),
    lastRegistrations: new Map(),
    ioMeter,
    known,
    unknownExports: new Map(),
  };
}
