import { type Mutation, REGISTRY } from "./mutation.js";

/** Mistakes of a registry, or of its store. */
export const REGISTRY_MUTATIONS: readonly Mutation[] = [
  {
    name: "take-in-the-same-bytes",
    mistake: "the registry takes a device into operation that lies on the bytes of another",
    withinSeeds: 100,
    edits: [{ file: `${REGISTRY}model/add-action.js`, find: "if (why !== undefined)", replace: "if (false)" }],
  },
  {
    name: "confirm-by-order",
    mistake: "the registry takes an attach order that was answered for one that was done",
    withinSeeds: 100,
    edits: [
      {
        file: `${REGISTRY}model/orders.js`,
        find: 'if (outcome.code !== "DONE" && outcome.code !== "ALREADY")',
        replace: "if (false)",
      },
    ],
  },
  {
    name: "count-stale-confirmation",
    mistake: "the registry counts the confirmation of an order that was overtaken",
    withinSeeds: 200,
    edits: [
      {
        file: `${REGISTRY}model/orders.js`,
        find: "if (device === undefined || device.generation !== sent.generation)",
        replace: "if (device === undefined)",
      },
      {
        file: `${REGISTRY}model/orders.js`,
        find: "!sameStamp(outcome.stamp, stampOf(device, leader))",
        replace: "false",
      },
    ],
  },
  {
    name: "free-before-detached",
    mistake: "a removed device counts as detached before its agent has confirmed it",
    withinSeeds: 50,
    edits: [
      {
        file: `${REGISTRY}model/attach-states.js`,
        find: 'ATTACHED: to("CLOSING", "next")',
        replace: 'ATTACHED: to("DETACHED", "next")',
        count: 2,
      },
    ],
  },
  {
    name: "leave-unerased",
    mistake: "a removed device leaves before it is erased",
    withinSeeds: 100,
    edits: [
      {
        file: `${REGISTRY}model/removal-erase.js`,
        find: "return isHeld && device.dirty && !device.keepData;",
        replace: "return false;",
      },
    ],
  },
  {
    name: "wish-stops-erase",
    mistake: "a device that is to be removed is not erased any more",
    withinSeeds: 100,
    edits: [
      {
        file: `${REGISTRY}model/schema.js`,
        find: '"ERROR" && !device.keepData',
        replace: '"ERROR" && !device.removalRequested',
      },
    ],
  },
  {
    name: "erase-what-is-kept",
    mistake: "a device that is to leave as it is is erased all the same",
    withinSeeds: 200,
    edits: [{ file: `${REGISTRY}model/schema.js`, find: '"ERROR" && !device.keepData', replace: '"ERROR"' }],
  },
  {
    name: "conceal-unerased",
    mistake: "a removal does not say what was not erased",
    withinSeeds: 150,
    edits: [
      {
        file: `${REGISTRY}model/removal-erase.js`,
        find: 'devices.filter((device) => device.dirty || device.diskId !== "")',
        replace: "[]",
      },
    ],
  },
  {
    name: "remove-while-serving",
    mistake: "a host is removed while disks are published to it",
    withinSeeds: 200,
    edits: [
      {
        file: `${REGISTRY}model/remove-action.js`,
        find: "servedDiskIds: disksServedBy(tx, hostId)",
        replace: "servedDiskIds: []",
      },
    ],
  },
  {
    name: "publish-to-leaving",
    mistake: "a disk is published to a host that is to be removed, or was",
    withinSeeds: 150,
    edits: [{ file: `${REGISTRY}model/publications.js`, find: "if (host.removalRequested)", replace: "if (false)" }],
  },
  {
    name: "purge-leaves-open",
    mistake: "a purged device is not ordered detached",
    withinSeeds: 50,
    edits: [
      {
        file: `${REGISTRY}model/purge-action.js`,
        find: "eraseSessionNumber: 0, removalRequested: false }",
        replace: "eraseSessionNumber: 0, removalRequested: false, detachConfirmed: true }",
      },
    ],
  },
  {
    name: "believe-attached",
    mistake: "a device stays ATTACHED although its agent registers without holding it",
    withinSeeds: 400,
    edits: [
      {
        file: `${REGISTRY}model/reported-devices.js`,
        find: 'if (merged.attachState === "ATTACHED" && !held)',
        replace: "if (false)",
      },
    ],
  },
  {
    name: "allocate-dirty",
    mistake: "a device is allocated before it is erased",
    withinSeeds: 50,
    edits: [{ file: `${REGISTRY}model/schema.js`, find: "!device.dirty && device.health", replace: "device.health" }],
  },
  {
    name: "trust-swapped-drives",
    mistake: "a free device stays clean though nobody can tell whether its drive is still the same",
    withinSeeds: 1200,
    scenario: "swapped while off",
    edits: [
      {
        file: `${REGISTRY}model/reported-devices.js`,
        find: "return { ...device, dirty: true, eraseSessionNumber: 0 };",
        replace: "return device;",
      },
    ],
  },
  {
    name: "publish-before-granted",
    mistake: "a disk counts as published, or as fenced off, before its devices have granted the session",
    withinSeeds: 100,
    edits: [
      {
        file: `${REGISTRY}workers/publication-worker.js`,
        find: "await this.#openSessions(plan, signal);",
        replace: "",
        count: 2,
      },
    ],
  },
  {
    name: "forget-purged-silently",
    mistake: "a device that was purged while its host was silent is never asked for again",
    withinSeeds: 250,
    scenario: "purged while silent",
    edits: [{ file: `${REGISTRY}model/purge-action.js`, find: "if (!host.mustRegister)", replace: "if (false)" }],
  },
  {
    name: "act-before-durable",
    mistake: "the registry answers, and orders, before the change is durable",
    withinSeeds: 50,
    edits: [{ file: "packages/tablet/dist/tablet.js", find: "await this.#barrier();", replace: "", count: 5 }],
  },
  {
    name: "forget-counter",
    mistake: "the registry's counters start anew when it restarts",
    withinSeeds: 100,
    edits: [
      {
        file: "test/dist/sim/store.js",
        find: "for (const [table, key, text] of stored)",
        replace: 'for (const [table, key, text] of stored.filter(([name]) => name !== "counters"))',
      },
    ],
  },
];
