import { constants } from "node:fs";
import { changed, inPlaceOf, type Modules, type Mutation, type Replacement } from "./mutation.js";

type Ledger = Awaited<ReturnType<Modules["disk-agent/cache/open-ledger"]["openLedger"]>>["ledger"];

/** Returns a ledger that never waits until a change is durable. */
const forgetful = (ledger: Ledger): Ledger => changed(ledger, { durable: async () => ledger.memory });

/** Returns a replacement in which files opened in these modes are never synced. */
const notSynced = (...unsynced: readonly ("r" | "w" | "in place")[]): Replacement =>
  inPlaceOf("disk-agent/agent", "startHolding", ({ startHolding }) => (lifecycle, config, options) => {
    const { edges } = options;
    const { cacheFiles } = edges;
    const open = async (path: string, flags: "r" | "w" | number, mode: number) => {
      const isSynced = !unsynced.includes(typeof flags === "number" ? "in place" : flags);
      if (typeof flags === "number") return cacheFiles.open(path, isSynced ? flags : flags & ~constants.O_DSYNC);
      const handle = await cacheFiles.open(path, flags, mode);
      return isSynced ? handle : changed(handle, { sync: async () => {} });
    };
    const unsafe = { ...edges, cacheFiles: changed(cacheFiles, { open: open as typeof cacheFiles.open }) };
    return startHolding(lifecycle, config, { ...options, edges: unsafe });
  });

type DecideOrder = Parameters<Modules["disk-agent/model/orders"]["decideOrder"]>;

/** Returns whether the order has the stamp of the last one for its device. */
function isOfLastStamp({ devices }: DecideOrder[0], { deviceId, stamp }: DecideOrder[2]): boolean {
  const last = devices.get(deviceId)?.order;
  return last?.tabletGeneration === stamp.tabletGeneration && last.deviceGeneration === stamp.deviceGeneration;
}

type Recorded = Parameters<Modules["disk-agent/devices/device-place"]["differenceFrom"]>[0];
type Facts = Parameters<Modules["disk-agent/devices/device-place"]["differenceFrom"]>[1];
type Place = Parameters<Modules["disk-agent/devices/device-place"]["differenceFrom"]>[2];

/** Returns a replacement in which devices are compared with other data than the registry's record. */
const compared = (
  recordedAs: (recorded: Recorded, config: Place, facts: Facts) => Recorded,
): readonly Replacement[] => [
  inPlaceOf(
    "disk-agent/devices/device-place",
    "whyUnfit",
    ({ whyUnfit }) =>
      (facts, config, recorded) =>
        whyUnfit(facts, config, recorded && recordedAs(recorded, config, facts)),
  ),
  inPlaceOf(
    "disk-agent/devices/device-place",
    "differenceFrom",
    ({ differenceFrom }) =>
      (recorded, facts, config) =>
        differenceFrom(recordedAs(recorded, config, facts), facts, config),
  ),
];

/** Mistakes in an agent, or in the kernel below it. */
export const AGENT_MUTATIONS: readonly Mutation[] = [
  {
    name: "ignore-tablet-generation",
    mistake: "the agent obeys a leader that has been replaced",
    withinSeeds: 600,
    foundBy: 54,
    replaced: [
      inPlaceOf("disk-agent/model/orders", "acceptRequest", ({ acceptRequest }) => (memory, bootId, request) => {
        const atLeast = (given: number): number => Math.max(given, memory.tabletGeneration);
        const stamps = request.stamps.map((stamp) => ({
          ...stamp,
          tabletGeneration: atLeast(stamp.tabletGeneration),
        }));
        return acceptRequest(memory, bootId, { ...request, stamps });
      }),
    ],
  },
  {
    name: "ignore-boot-id",
    mistake: "the agent obeys an order that was meant for an earlier run of it",
    withinSeeds: 600,
    foundBy: 33,
    replaced: [
      inPlaceOf(
        "disk-agent/model/orders",
        "acceptRequest",
        ({ acceptRequest }) =>
          (memory, bootId, request) =>
            acceptRequest(memory, bootId, { ...request, bootId }),
      ),
    ],
  },
  {
    name: "obey-equal-opposite",
    mistake: "the agent obeys an order with the stamp of the last one and of the opposite kind",
    withinSeeds: 450,
    foundBy: 9,
    replaced: [
      inPlaceOf("disk-agent/model/orders", "decideOrder", ({ decideOrder }) => (memory, known, order) => {
        const decided = decideOrder(memory, known, order);
        if (decided.verdict === "obey" || !isOfLastStamp(memory, order)) return decided;
        const devices = new Map(memory.devices).set(order.deviceId, {
          ...memory.devices.get(order.deviceId),
          order: undefined,
        });
        return decideOrder({ ...memory, devices }, known, order);
      }),
    ],
  },
  {
    name: "refuse-equal-after-failure",
    mistake: "the agent refuses the same order again, also when it had failed",
    withinSeeds: 300,
    foundBy: 1,
    replaced: [
      inPlaceOf("disk-agent/model/orders", "decideOrder", ({ decideOrder }) => (memory, known, order) => {
        const decided = decideOrder(memory, known, order);
        if (decided.verdict !== "obey" || !isOfLastStamp(memory, order)) return decided;
        return { memory, verdict: { outcome: "outdated", message: "it was given before" } };
      }),
    ],
  },
  {
    name: "apply-failed-registration",
    mistake: "the agent applies the readable part of a malformed registration answer",
    withinSeeds: 1800,
    foundBy: 315,
    replaced: [
      inPlaceOf(
        "disk-agent/calls/registration-wire",
        "parseRegistrationAnswer",
        ({ parseRegistrationAnswer }) =>
          (message) => {
            const unknownDevices = message.unknownDevices.filter(({ stamp }) => stamp !== undefined);
            return parseRegistrationAnswer({ ...message, unknownDevices });
          },
      ),
    ],
  },
  {
    name: "act-before-remembered",
    mistake: "the agent acts on orders, and answers them, before its cache holds them",
    withinSeeds: 600,
    foundBy: 5,
    replaced: [
      inPlaceOf(
        "disk-agent/handlers/order-devices",
        "orderDevices",
        ({ orderDevices }) =>
          (context, kind, request) =>
            orderDevices({ ...context, ledger: forgetful(context.ledger) }, kind, request),
      ),
    ],
  },
  {
    name: "grant-before-remembered",
    mistake: "the agent grants sessions before its cache holds them",
    withinSeeds: 600,
    foundBy: 4,
    replaced: [
      inPlaceOf(
        "disk-agent/orders/session-orders",
        "SessionOrders",
        ({ SessionOrders }) =>
          class extends SessionOrders {
            constructor(...[ledger, ...others]: ConstructorParameters<typeof SessionOrders>) {
              super(forgetful(ledger), ...others);
            }
          },
      ),
    ],
  },
  {
    name: "cache-not-synced",
    mistake: "the agent acts on what is written into its cache, or renamed into its place, before that is on the disk",
    withinSeeds: 600,
    foundBy: 5,
    replaced: [notSynced("w", "in place")],
  },
  {
    name: "cache-folder-not-synced",
    mistake: "the agent does not wait until the new name of its cache is on the disk",
    withinSeeds: 600,
    foundBy: 5,
    replaced: [notSynced("r")],
  },
  {
    name: "open-detached-at-start",
    mistake: "an agent that starts opens the devices that were ordered detached",
    withinSeeds: 300,
    foundBy: 1,
    replaced: [inPlaceOf("disk-agent/model/memory", "isWanted", () => () => true)],
  },
  {
    name: "open-without-cache",
    mistake: "an agent that has lost its cache opens its devices before a registry has told it anything",
    withinSeeds: 900,
    foundBy: 587,
    scenario: "lost caches",
    replaced: [
      inPlaceOf(
        "disk-agent/devices/device-table",
        "DeviceTable",
        ({ DeviceTable }) =>
          class extends DeviceTable {
            override start(options: Parameters<InstanceType<typeof DeviceTable>["start"]>[0]): Promise<void> {
              return super.start({ ...options, openNothing: false });
            }
          },
      ),
    ],
  },
  {
    name: "empty-cache-for-a-lost-one",
    mistake: "an agent that has lost its cache writes an empty one, which its next start takes for whole",
    withinSeeds: 6300,
    foundBy: 3035,
    scenario: "lost caches",
    replaced: [
      inPlaceOf("disk-agent/cache/open-ledger", "openLedger", ({ openLedger }) => async (...given) => {
        const opened = await openLedger(...given);
        const { ledger, cacheIsLost } = opened;
        if (cacheIsLost) {
          ledger.remember({ ...ledger.memory });
          await ledger.durable().catch(() => {});
        }
        return opened;
      }),
    ],
  },
  {
    name: "detached-while-opening",
    mistake: "a detach is confirmed while an open is under way, which succeeds after it",
    withinSeeds: 300,
    foundBy: 32,
    replaced: [
      inPlaceOf(
        "disk-agent/devices/device",
        "Device",
        ({ Device }) =>
          class extends Device {
            override get released(): boolean {
              const isOpening = !this.wanted && this.inFlight === 0 && this.file.phase === "opening";
              return isOpening || super.released;
            }
          },
      ),
    ],
  },
  {
    name: "grant-over-io-in-flight",
    mistake: "a session is granted while writes of a lower one are in flight",
    withinSeeds: 600,
    foundBy: 25,
    replaced: [
      inPlaceOf(
        "disk-agent/devices/device",
        "Device",
        ({ Device }) =>
          class extends Device {
            override isQuietBelow(): boolean {
              return true;
            }
          },
      ),
    ],
  },
  {
    name: "no-lock",
    mistake: "nothing keeps an agent from a file that another agent holds",
    withinSeeds: 180,
    foundBy: 8,
    replaced: [inPlaceOf("sim/drive", "requireUnlocked", () => () => {})],
  },
  {
    name: "two-links-of-a-session",
    mistake: "a link that takes over does not wait for the writes of the one before",
    withinSeeds: 2100,
    foundBy: 686,
    scenario: "broken links",
    replaced: [
      inPlaceOf(
        "disk-agent/remote/device-access",
        "DeviceAccess",
        ({ DeviceAccess }) =>
          class extends DeviceAccess {
            constructor(options: ConstructorParameters<typeof DeviceAccess>[0]) {
              const { devices } = options;
              const alwaysQuiet: typeof devices.get = (deviceId) => {
                const device = devices.get(deviceId);
                return changed(device, { io: changed(device.io, { isQuietBelow: () => true }) });
              };
              super({ ...options, devices: changed(devices, { get: alwaysQuiet }) });
            }
          },
      ),
    ],
  },
  {
    name: "places-not-compared",
    mistake: "the agent takes what its config says for the place of a device, whatever was recorded",
    withinSeeds: 900,
    foundBy: 106,
    scenario: "drives move",
    replaced: compared((recorded, { offsetBytes }) => ({ ...recorded, offsetBytes })),
  },
  {
    name: "unmarked-drives-trusted",
    mistake: "the agent takes a drive that nothing identifies after a boot for the one that was at its path",
    withinSeeds: 900,
    foundBy: 16,
    scenario: "drives move",
    replaced: compared((recorded) => ({ ...recorded, serialNumber: "", fileIdentity: "" })),
  },
  {
    name: "numbers-of-places-trusted",
    mistake: "a drive is known by the serial number that QEMU gives whichever drive is at a place",
    withinSeeds: 900,
    foundBy: 16,
    scenario: "drives move",
    replaced: compared((recorded, _, { serialNumber }) => {
      const isKnown = serialNumber !== "" && recorded.serialNumber === serialNumber;
      return isKnown ? { ...recorded, serialNumber: "", fileIdentity: "" } : recorded;
    }),
  },
  {
    name: "cut-off-files-written",
    mistake: "I/O goes on in a file that was found to be cut off",
    withinSeeds: 900,
    foundBy: 106,
    scenario: "drives move",
    replaced: [
      ...compared((recorded) => ({ ...recorded, sizeBytes: 0 })),
      inPlaceOf(
        "disk-agent/devices/device",
        "Device",
        ({ Device }) =>
          class extends Device {
            override get whyChanged(): string | undefined {
              return this.file.isOnlyResized ? undefined : super.whyChanged;
            }
          },
      ),
    ],
  },
];
