import { readFileSync } from "node:fs";
import { join } from "node:path";
import { repositoryFolder } from "../repository-folder.js";

/** One place in the built code, found by its text, and what is there instead. */
export interface Edit {
  /** Below the repository's folder. */
  readonly file: string;
  readonly find: string;
  readonly replace: string;
  /** How often it is there; 1 unless told. */
  readonly count?: number;
}

/** A mistake that somebody could make, for proof that the simulator would find it. */
export interface Mutation {
  readonly name: string;
  readonly mistake: string;
  /** It is found within so many seeds, from 1 on. */
  readonly withinSeeds: number;
  readonly edits: readonly Edit[];
}

const AGENT = "services/disk-agent/dist/";
const REGISTRY = "services/disk-registry/dist/";

/**
 * The mistakes are made in the built files as they are loaded: the services know nothing of them, and one whose text has
 * changed so that it no longer applies is reported as an error.
 */
export const MUTATIONS: readonly Mutation[] = [
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
    withinSeeds: 100,
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
    edits: [{ file: `${AGENT}agent.js`, find: "openNothing: cacheIsLost", replace: "openNothing: false" }],
  },
  {
    name: "empty-cache-for-a-lost-one",
    mistake: "an agent that has lost its cache writes an empty one, which its next start takes for whole",
    withinSeeds: 300,
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
    edits: [{ file: `${REGISTRY}model/schema.js`, find: "!device.keepData", replace: "!device.removalRequested" }],
  },
  {
    name: "erase-what-is-kept",
    mistake: "a device that is to leave as it is is erased all the same",
    withinSeeds: 200,
    edits: [{ file: `${REGISTRY}model/schema.js`, find: "&& !device.keepData", replace: "" }],
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
    withinSeeds: 400,
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
    name: "erase-outlives-drive",
    mistake: "an erase counts for whatever drive is at the path when the device is attached again",
    withinSeeds: 150,
    edits: [
      { file: `${AGENT}devices/eraser.js`, find: "known.handle === handle", replace: "true" },
      { file: `${AGENT}devices/eraser.js`, find: "if (device.file.handle !== job.handle)", replace: "if (false)" },
    ],
  },
  {
    name: "forget-purged-silently",
    mistake: "a device that was purged while its host was silent is never asked for again",
    withinSeeds: 100,
    edits: [{ file: `${REGISTRY}model/purge-action.js`, find: "if (!host.mustRegister)", replace: "if (false)" }],
  },
  {
    name: "two-streams-of-a-session",
    mistake: "a stream that takes over does not wait for the writes of the one before",
    withinSeeds: 150,
    edits: [
      {
        file: `${AGENT}block-io/serve-stream.js`,
        find: "device.isQuietBelow(sessionNumber + 1) ||",
        replace: "true ||",
      },
    ],
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

export function findMutation(name: string): Mutation {
  const mutation = MUTATIONS.find((each) => each.name === name);
  if (mutation === undefined) throw new Error(`there is no mutation ${JSON.stringify(name)}: see --list-mutations`);
  return mutation;
}

/** Throws when the code has changed so that the mistake cannot be made there any more. */
export function requireApplicable(mutation: Mutation): void {
  for (const { file, find, count = 1 } of mutation.edits) {
    const found = readFileSync(join(repositoryFolder, file), "utf8").split(find).length - 1;
    if (found !== count)
      throw new Error(
        `mutation ${mutation.name} no longer applies: ${JSON.stringify(find)} is ${found} times in ${file}, not ${count}: adapt it to the code`,
      );
  }
}
