import type { AdminServiceDefinition } from "@diskmesh/api/common";
import type { AgentRegistrationServiceDefinition } from "@diskmesh/api/internal";
import type {
  DiskRegistryServiceDefinition,
  FleetServiceDefinition,
  JoinTokenServiceDefinition,
} from "@diskmesh/api/registry";
import { readingMethods, wrongAnswers } from "@diskmesh/testkit";
import { expect } from "chai";
import type { Context } from "./calls/context.js";
import { addServices } from "./services.js";
import { CountingRegistry } from "./testing/counting-registry.js";

const CALLERS = ["operator", "disk-agent-h1"];

type Methods = (typeof DiskRegistryServiceDefinition)["methods"] &
  Pick<(typeof AdminServiceDefinition)["methods"], "explain"> &
  (typeof FleetServiceDefinition)["methods"] &
  (typeof JoinTokenServiceDefinition)["methods"] &
  (typeof AgentRegistrationServiceDefinition)["methods"];

const host = { hostId: "h1" };
const device = { hostId: "h1", deviceId: "d1" };
const disk = { diskId: "a" };
const agent = { hostId: "h1", bootId: "b" };

/** Requests with which each method reaches the tablet. The mapped type requires an entry for each method. */
const REQUESTS: { readonly [Name in keyof Methods]: object } = {
  addHost: host,
  removeHost: host,
  purgeHost: host,
  fenceHost: host,
  setHostState: { hostIds: ["h1"], state: "HOST_STATE_DEAD", reason: "test" },
  setDeviceState: { deviceIds: ["d1"], health: "HEALTH_WARNING", reason: "test" },
  addDevice: device,
  confirmDevice: device,
  adoptDevice: device,
  removeDevice: device,
  purgeDevice: device,
  getHost: host,
  listHosts: {},
  watchHosts: {},
  getDevice: device,
  listDevices: {},
  watchDevices: {},
  createDisk: { ...disk, az: "z1", sizeBytes: 4096 },
  deleteDisk: disk,
  undeleteDisk: disk,
  getDisk: disk,
  listDisks: {},
  watchDisks: {},
  setDiskLabels: disk,
  resizeDisk: { ...disk, sizeBytes: 4096 },
  setDiskLimits: disk,
  migrateDisk: disk,
  replaceDevice: { ...disk, ...device },
  cancelMove: disk,
  getCapacity: {},
  getIoTotals: {},
  publishDisk: { ...disk, ...host },
  unpublishDisk: disk,
  assignHost: { vmCid: "vm-1" },
  unassignHost: { vmCid: "vm-1" },
  listFleetEvents: {},
  listChanges: host,
  getFleet: {},
  adoptFleet: { tabletId: "other", incarnation: "gone" },
  raiseNumbers: { ...host, sessionNumber: 1 },
  decideUnknownDisks: { verdict: "UNKNOWN_DISK_VERDICT_REGISTRY", ...host },
  registerAgent: { ...agent, address: "127.0.0.1:1", az: "z1" },
  heartbeat: agent,
  renewCertificate: host,
  createJoinToken: { ttl: { seconds: 60 }, uses: 1 },
  listJoinTokens: {},
  revokeJoinToken: { tokenId: "a" },
  explain: { subject: { kind: "SUBJECT_KIND_HOST", name: "h1" } },
};

/** Returns the context of a registry whose tablet and workers fail. */
function failing(context: Context, fail: () => never): Context {
  const work = async () => fail();
  const { id, incarnation, parentIncarnations, generation } = context.tablet;
  const tablet = { id, incarnation, parentIncarnations, generation, read: work, transact: work, backup: fail };
  const fleet = new Proxy(context.fleet, {
    get(target, name: keyof Context["fleet"]) {
      if (name === "adopt" || name === "raise") return work;
      const value = target[name];
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
  const ioMeter = Object.create(context.ioMeter, { totals: { get: fail } }) as Context["ioMeter"];
  return { ...context, tablet: tablet as unknown as Context["tablet"], fleet, ioMeter };
}

it("every method of the disk-registry answers a bug with INTERNAL, at its start and at the tablet", async () => {
  await using registry = await CountingRegistry.start(["h1"]);
  const { context } = registry;
  const offered = { role: "disk-registry", offer: addServices, callers: CALLERS } as const;
  expect(await wrongAnswers(offered)).to.deep.equal([]);
  const offer: typeof offered.offer = (server, fail) =>
    addServices(server, () => failing(context, fail as () => never));
  expect(await wrongAnswers({ ...offered, offer, requests: REQUESTS })).to.deep.equal([]);
});

it("every method outside this list of reads may change something, and is audited", () => {
  const looking = readingMethods((server) => addServices(server, () => expect.fail()));
  expect(looking).to.deep.equal([
    "explain",
    "getCapacity",
    "getDevice",
    "getDisk",
    "getFleet",
    "getHost",
    "getIoTotals",
    "heartbeat",
    "listChanges",
    "listDevices",
    "listDisks",
    "listFleetEvents",
    "listHosts",
    "listJoinTokens",
    "listTroubles",
    "registerAgent",
    "renewCertificate",
    "watchDevices",
    "watchDisks",
    "watchHosts",
  ]);
});
