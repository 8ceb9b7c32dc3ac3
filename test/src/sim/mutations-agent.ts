import { AGENT, type Mutation, REGISTRY } from "./mutation.js";

/** Mistakes of an agent, or of the kernel under it. */
export const AGENT_MUTATIONS: readonly Mutation[] = [
  {
    name: "ignore-tablet-generation",
    mistake: "the agent obeys a leader that has been replaced",
    withinSeeds: 200,
    edits: [
      {
        file: `${AGENT}model/orders.js`,
        find: "if (stamp.tabletGeneration < memory.tabletGeneration)",
        replace: "if (false)",
      },
    ],
  },
  {
    name: "ignore-boot-id",
    mistake: "the agent obeys an order that was meant for an earlier run of it",
    withinSeeds: 200,
    edits: [{ file: `${AGENT}model/orders.js`, find: "if (request.bootId !== bootId)", replace: "if (false)" }],
  },
  {
    name: "obey-equal-opposite",
    mistake: "the agent obeys an order with the stamp of the last one and of the opposite kind",
    withinSeeds: 150,
    edits: [{ file: `${AGENT}model/orders.js`, find: "if (difference <= 0)", replace: "if (difference < 0)" }],
  },
  {
    name: "refuse-equal-after-failure",
    mistake: "the agent refuses the same order again, also when it had failed",
    withinSeeds: 100,
    edits: [
      {
        file: `${AGENT}model/orders.js`,
        find: "if (difference === 0 && lastKind === order.kind)",
        replace: "if (false)",
      },
    ],
  },
  {
    name: "apply-failed-registration",
    mistake: "the agent applies the readable part of a malformed registration answer",
    withinSeeds: 600,
    edits: [
      {
        file: `${AGENT}wire.js`,
        find: "unknown: message.unknownDevices.map(parse)",
        replace: "unknown: message.unknownDevices.filter((device) => device.stamp).map(parse)",
      },
    ],
  },
  {
    name: "act-before-remembered",
    mistake: "the agent acts on orders, and answers them, before its cache holds them",
    withinSeeds: 200,
    edits: [{ file: `${AGENT}handlers/order-devices.js`, find: "await ledger.durable();", replace: "" }],
  },
  {
    name: "grant-before-remembered",
    mistake: "the agent grants sessions before its cache holds them",
    withinSeeds: 200,
    edits: [
      { file: `${AGENT}devices/session-orders.js`, find: "await this.#ledger.durable();", replace: "", count: 2 },
    ],
  },
  {
    name: "cache-not-synced",
    mistake: "the agent's cache is renamed into its place before its contents are on the disk",
    withinSeeds: 200,
    edits: [{ file: `${AGENT}cache/cache-file.js`, find: "await file.handle.sync();", replace: "" }],
  },
  {
    name: "cache-folder-not-synced",
    mistake: "the agent does not wait until the new name of its cache is on the disk",
    withinSeeds: 200,
    edits: [{ file: `${AGENT}cache/cache-file.js`, find: "await folder.handle.sync();", replace: "" }],
  },
  {
    name: "open-detached-at-start",
    mistake: "an agent that starts opens the devices that were ordered detached",
    withinSeeds: 100,
    edits: [
      { file: `${AGENT}model/memory.js`, find: '?.order?.kind !== "detach"', replace: '?.order?.kind !== "never"' },
    ],
  },
  {
    name: "open-without-cache",
    mistake: "an agent that has lost its cache opens its devices before a registry has told it anything",
    withinSeeds: 300,
    scenario: "lost caches",
    edits: [{ file: `${AGENT}agent.js`, find: "openNothing: cacheIsLost", replace: "openNothing: false" }],
  },
  {
    name: "empty-cache-for-a-lost-one",
    mistake: "an agent that has lost its cache writes an empty one, which its next start takes for whole",
    withinSeeds: 1500,
    scenario: "lost caches",
    edits: [{ file: `${AGENT}cache/open-ledger.js`, find: "cacheIsLost ? now : memory", replace: "memory" }],
  },
  {
    name: "detached-while-opening",
    mistake: "a detach is confirmed while an open is under way, which succeeds after it",
    withinSeeds: 100,
    edits: [
      {
        file: `${AGENT}devices/device.js`,
        find: 'this.file.phase === "closed" ||',
        replace: 'this.file.phase !== "open" ||',
      },
    ],
  },
  {
    name: "grant-over-io-in-flight",
    mistake: "a session is granted while writes of a lower one are in flight",
    withinSeeds: 200,
    edits: [{ file: `${AGENT}devices/device.js`, find: "if (number < sessionNumber)", replace: "if (false)" }],
  },
  {
    name: "no-lock",
    mistake: "nothing keeps an agent from a file that another agent holds",
    withinSeeds: 60,
    edits: [{ file: "test/dist/sim/machine.js", find: "requireUnlocked(drive, process);", replace: "" }],
  },
  {
    name: "erase-outlives-drive",
    mistake: "an erase counts for whatever is at the path when the device is attached again, for agent and registry",
    withinSeeds: 1200,
    scenario: "turns on one file",
    edits: [
      { file: `${AGENT}devices/eraser.js`, find: "known.handle === handle", replace: "true" },
      { file: `${AGENT}devices/eraser.js`, find: "if (device.file.handle !== job.handle)", replace: "if (false)" },
      {
        file: `${REGISTRY}model/remove-action.js`,
        find: "{ ...removed, eraseSessionNumber: 0 }",
        replace: "{ ...removed }",
      },
    ],
  },
  {
    name: "two-streams-of-a-session",
    mistake: "a stream that takes over does not wait for the writes of the one before",
    withinSeeds: 200,
    scenario: "broken streams",
    edits: [
      {
        file: `${AGENT}block-io/serve-stream.js`,
        find: "device.isQuietBelow(sessionNumber + 1) ||",
        replace: "true ||",
      },
    ],
  },
];
