import { AGENT, type Mutation, REGISTRY } from "./mutation.js";

/** Mistakes that show when a registry goes back in time, or an agent lies. */
export const REWIND_MUTATIONS: readonly Mutation[] = [
  {
    name: "ignore-incarnation",
    mistake: "the agent obeys orders of a registry that was restored elsewhere since",
    withinSeeds: 100,
    scenario: "two registries",
    edits: [{ file: `${AGENT}model/orders.js`, find: "refuseOtherIncarnation(memory, stamp);", replace: "" }],
  },
  {
    name: "obey-whoever-answers",
    mistake: "an agent goes back to a former incarnation, whose registry takes it for its own",
    withinSeeds: 200,
    scenario: "two registries",
    edits: [
      {
        file: `${AGENT}model/registration.js`,
        find: "if (memory.formerIncarnations.includes(answer.incarnation))",
        replace: "if (false)",
      },
      {
        file: `${AGENT}model/registration.js`,
        find: "if (answer.predecessors.some((predecessor) => isSame(predecessor, memory)))",
        replace: "if (true)",
      },
      {
        file: `${REGISTRY}model/remembered.js`,
        find: 'return isOwnTablet ? "other incarnation" : "other tablet";',
        replace: 'return "predecessor";',
      },
    ],
  },
  {
    name: "ignore-remembered",
    mistake: "the registry does not mind that agents remember more than it gave",
    withinSeeds: 250,
    scenario: "copied back",
    edits: [{ file: `${REGISTRY}model/remembered.js`, find: "if (higher.length === 0)", replace: "if (true)" }],
  },
  {
    name: "believe-any-number",
    mistake: "one agent's lie makes the registry go on above what nobody gave",
    withinSeeds: 2400,
    scenario: "lies",
    edits: [
      {
        file: `${REGISTRY}model/remembered.js`,
        find: "if (higher.some((field) => remembered[field] > own[field] + believedAhead))",
        replace: "if (false)",
      },
    ],
  },
  {
    name: "ignore-unknown-disks",
    mistake: "the registry does not mind that a device has a session that it never gave",
    withinSeeds: 250,
    scenario: "copied back",
    edits: [
      {
        file: `${REGISTRY}model/unknown-disks.js`,
        find: "if (unknownSession === undefined || (known",
        replace: "if (true || (known",
      },
    ],
  },
  {
    name: "erase-unknown-disks",
    mistake: "what an unknown disk has on a device is erased",
    withinSeeds: 150,
    scenario: "copied back",
    edits: [
      {
        file: `${REGISTRY}model/schema.js`,
        find: "isHeldEmpty(device) && device.unknownSession === undefined;",
        replace: "isHeldEmpty(device);",
      },
    ],
  },
  {
    name: "tell-before-registered",
    mistake: "a host is told orders before it has registered with a registry that was restored",
    withinSeeds: 400,
    scenario: "copied back",
    edits: [{ file: `${REGISTRY}model/orders.js`, find: "if (host.mustRegister === undefined)", replace: "if (true)" }],
  },
  {
    name: "tell-before-asked",
    mistake: "a new leader gives orders before it has heard what the agent remembers",
    withinSeeds: 50,
    edits: [
      {
        file: `${REGISTRY}agent-clients.js`,
        find: "if (!this.#fleet.knows(host.hostId, host.bootId))",
        replace: "if (false)",
      },
    ],
  },
];
