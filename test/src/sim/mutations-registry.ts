import { OpenSessionResponse, OrderOutcome, UnexportDiskResponse } from "@diskmesh/api/internal";
import type { Device, Host } from "@diskmesh/disk-registry/simulation";
import { changed, inPlaceOf, type Modules, type Mutation, type Replacement } from "./mutation.js";

type Schema = Modules["disk-registry/model/store/schema"];
type Tables = Parameters<Modules["disk-registry/model/devices/orders"]["planOrders"]>[0];

/** Returns tables whose hosts are read with a change; the stored hosts stay unchanged. */
export function readingHosts<T extends Pick<Tables, "hosts">>(tables: T, change: Partial<Host>): T {
  const { hosts } = tables;
  const get: typeof hosts.get = (hostId) => {
    const host = hosts.get(hostId);
    return host && { ...host, ...change };
  };
  return changed(tables, { hosts: changed(hosts, { get }) } as Partial<T>);
}

/** Returns a replacement of the rule that selects devices to erase. */
export function erasing(make: (isErasable: Schema["isErasable"]) => Schema["isErasable"]): readonly Replacement[] {
  return [
    inPlaceOf("disk-registry/model/store/schema", "isErasable", ({ isErasable }) => make(isErasable)),
    inPlaceOf("disk-registry/model/store/schema", "schema", ({ schema, isErasable }) => {
      const rule = make(isErasable);
      const erasableByHost = (device: Device) => (rule(device) ? device.hostId : undefined);
      return withIndexes(schema, { erasableByHost });
    }),
  ];
}

function withIndexes(
  schema: Schema["schema"],
  indexes: Partial<Schema["schema"]["devices"]["indexes"]>,
): Schema["schema"] {
  const { devices } = schema;
  return { ...schema, devices: { ...devices, indexes: { ...devices.indexes, ...indexes } } } as Schema["schema"];
}

/** Mistakes in a registry, or in its store. */
export const REGISTRY_MUTATIONS: readonly Mutation[] = [
  {
    name: "take-in-the-same-bytes",
    mistake: "the registry takes a device into operation that lies on the bytes of another",
    withinSeeds: 900,
    foundBy: 33,
    replaced: [inPlaceOf("disk-registry/model/devices/same-bytes", "whyRefused", () => () => undefined)],
  },
  {
    name: "confirm-by-order",
    mistake: "the registry takes an attach order that was answered for one that was done",
    withinSeeds: 300,
    foundBy: 13,
    replaced: [
      inPlaceOf(
        "disk-registry/model/devices/orders",
        "applyOutcomes",
        ({ applyOutcomes }) =>
          (tx, kind, ordered, outcomes, ...rest) => {
            const isAnswered = (code: string) => kind === "attach" && code !== "PENDING";
            const done = outcomes.map((each) => (isAnswered(each.code) ? { ...each, code: "DONE" as const } : each));
            return applyOutcomes(tx, kind, ordered, done, ...rest);
          },
      ),
    ],
  },
  {
    name: "count-stale-confirmation",
    mistake: "the registry counts the confirmation of an order that was overtaken",
    withinSeeds: 600,
    foundBy: 1,
    replaced: [
      inPlaceOf(
        "disk-registry/model/devices/orders",
        "applyOutcomes",
        ({ applyOutcomes, stampOf }) =>
          (tx, kind, ordered, outcomes, leader, ...rest) => {
            const now = ordered.map((sent) => tx.devices.get(sent.deviceId) ?? sent);
            const stamps = new Map(now.map((device) => [device.deviceId as string, stampOf(device, leader)]));
            const fresh = outcomes.map((each) => ({ ...each, stamp: stamps.get(each.deviceId) ?? each.stamp }));
            return applyOutcomes(tx, kind, now, fresh, leader, ...rest);
          },
      ),
    ],
  },
  {
    name: "free-before-detached",
    mistake: "a removed device counts as detached before its agent has confirmed it",
    withinSeeds: 150,
    foundBy: 8,
    replaced: [
      inPlaceOf("disk-registry/model/devices/attach-states", "advance", ({ advance }) => (tx, device, ...given) => {
        const moved = advance(tx, device, ...given);
        const leaves = device.attachState === "ATTACHED" && moved.attachState === "CLOSING";
        return leaves ? { ...moved, attachState: "DETACHED" } : moved;
      }),
    ],
  },
  {
    name: "leave-unerased",
    mistake: "a removed device leaves before it is erased",
    withinSeeds: 300,
    foundBy: 5,
    replaced: [inPlaceOf("disk-registry/model/devices/removal-erase", "mustBeErased", () => () => false)],
  },
  {
    name: "wish-stops-erase",
    mistake: "a device that is to be removed is not erased any more",
    withinSeeds: 300,
    foundBy: 10,
    replaced: erasing(
      (isErasable) => (device) => !device.removalRequested && isErasable({ ...device, keepData: undefined }),
    ),
  },
  {
    name: "erase-what-is-kept",
    mistake: "a device that is to leave as it is is erased all the same",
    withinSeeds: 600,
    foundBy: 142,
    replaced: erasing((isErasable) => (device) => isErasable({ ...device, keepData: undefined })),
  },
  {
    name: "conceal-unerased",
    mistake: "a removal does not say what was not erased",
    withinSeeds: 450,
    foundBy: 8,
    replaced: [inPlaceOf("disk-registry/model/devices/removal-erase", "unerasedIn", () => () => [])],
  },
  {
    name: "remove-when-asked-again",
    mistake: "a removal goes on only when its caller asks again",
    withinSeeds: 100,
    foundBy: 10,
    replaced: [inPlaceOf("disk-registry/model/hosts/removal-step", "isStepDue", () => () => false)],
  },
  {
    name: "remove-while-serving",
    mistake: "a host is removed while disks are published to it",
    withinSeeds: 600,
    foundBy: 6,
    replaced: [
      inPlaceOf(
        "disk-registry/model/hosts/remove-action",
        "removeHost",
        ({ removeHost }) =>
          (tx, ...given) =>
            removeHost(changed(tx, { disks: changed(tx.disks, { by: () => [] }) }), ...given),
      ),
    ],
  },
  {
    name: "publish-to-leaving",
    mistake: "a disk is published to a host that is to be removed, or was",
    withinSeeds: 1800,
    foundBy: 18,
    replaced: [
      inPlaceOf(
        "disk-registry/model/disks/publications",
        "requestPublish",
        ({ requestPublish }) =>
          (tx, ...given) =>
            requestPublish(readingHosts(tx, { removalRequested: false }), ...given),
      ),
    ],
  },
  {
    name: "purge-leaves-open",
    mistake: "a purged device is not ordered detached",
    withinSeeds: 150,
    foundBy: 3,
    replaced: [
      inPlaceOf("disk-registry/model/devices/attach-states", "advance", ({ advance }) => (tx, device, event, nowMs) => {
        const moved = advance(tx, device, event, nowMs);
        return event === "purge" ? { ...moved, detachConfirmed: true } : moved;
      }),
    ],
  },
  {
    name: "believe-attached",
    mistake: "a device stays ATTACHED although its agent registers without holding it",
    withinSeeds: 1200,
    foundBy: 16,
    replaced: [
      inPlaceOf(
        "disk-registry/model/devices/attach-states",
        "advance",
        ({ advance }) =>
          (tx, device, event, nowMs) =>
            event === "registered_without" ? device : advance(tx, device, event, nowMs),
      ),
    ],
  },
  {
    name: "trust-swapped-drives",
    mistake: "a free device stays clean though its drive may be another one",
    withinSeeds: 3600,
    foundBy: 1949,
    scenario: "swapped while off",
    replaced: [
      inPlaceOf(
        "disk-registry/model/devices/reported-devices",
        "mergeReported",
        ({ mergeReported }) =>
          (tx, device, ...given) => {
            const merged = mergeReported(tx, device, ...given);
            if (device.runs.length > 0 || merged.runs.length === 0 || merged.replacement !== undefined) return merged;
            const trusted = { ...merged, runs: [] };
            tx.devices.put(trusted);
            return trusted;
          },
      ),
    ],
  },
  {
    name: "publish-before-granted",
    mistake: "a disk counts as published, or as fenced off, before its devices have granted the session",
    withinSeeds: 300,
    foundBy: 2,
    replaced: [
      inPlaceOf("disk-registry/build-context", "buildContext", ({ buildContext }) => (lifecycle, options) => {
        const { edges } = options;
        const connectAgent: typeof edges.connectAgent = (host) => {
          const client = edges.connectAgent(host);
          const openSession: typeof client.openSession = async ({ deviceIds = [], stamp }) => {
            const blockAddress = `${host.hostId}:7041`;
            const granted = { outcome: OrderOutcome.DONE, message: "", stamp, blockAddress };
            return OpenSessionResponse.fromPartial({
              outcomes: deviceIds.map((deviceId) => ({ deviceId, ...granted })),
            });
          };
          const exportDisk: typeof client.exportDisk = (request, options) =>
            client.exportDisk({ ...request, openDeviceIds: [] }, options);
          const unexportDisk: typeof client.unexportDisk = async (
            { openDeviceIds: deviceIds = [], ...request },
            options,
          ) => {
            await client.unexportDisk(request, options);
            return UnexportDiskResponse.fromPartial(await openSession({ deviceIds, stamp: request.stamp }));
          };
          return changed(client, { openSession, exportDisk, unexportDisk });
        };
        return buildContext(lifecycle, { ...options, edges: { ...edges, connectAgent } });
      }),
    ],
  },
  {
    name: "forget-purged-silently",
    mistake: "a device that was purged while its host was silent is never asked for again",
    withinSeeds: 750,
    foundBy: 86,
    scenario: "purged while silent",
    replaced: [
      inPlaceOf(
        "disk-registry/model/hosts/purge-action",
        "purgeDevice",
        ({ purgeDevice }) =>
          (tx, ...given) =>
            purgeDevice(changed(tx, { hosts: changed(tx.hosts, { put: () => {} }) }), ...given),
      ),
    ],
  },
  {
    name: "act-before-durable",
    mistake: "the registry answers, and orders, before the change is durable",
    withinSeeds: 150,
    foundBy: 1,
    replaced: [
      inPlaceOf(
        "sim/store",
        "SimStorage",
        ({ SimStorage }) =>
          class extends SimStorage {
            #last: Promise<void> = Promise.resolve();

            override async commit(changes: Parameters<InstanceType<typeof SimStorage>["commit"]>[0]): Promise<void> {
              this.#last = this.#last.then(() => super.commit(changes)).catch(() => {});
            }
          },
      ),
    ],
  },
  {
    name: "forget-counter",
    mistake: "the registry's counters start anew when it restarts",
    withinSeeds: 300,
    foundBy: 1,
    replaced: [
      inPlaceOf(
        "sim/store",
        "SimStorage",
        ({ SimStorage }) =>
          class extends SimStorage {
            override load(onDocument: Parameters<InstanceType<typeof SimStorage>["load"]>[0]): Promise<void> {
              return super.load((table, key, stored) => {
                if (table !== "counters") onDocument(table, key, stored);
              });
            }
          },
      ),
    ],
  },
];
