import { changed, inPlaceOf, type Mutation } from "./mutation.js";
import { erasing, readingHosts } from "./mutations-registry.js";

/** Mistakes that only show when a registry is rewound, or an agent lies. */
export const REWIND_MUTATIONS: readonly Mutation[] = [
  {
    name: "ignore-incarnation",
    mistake: "the agent obeys orders of a registry that was restored elsewhere since",
    withinSeeds: 1500,
    foundBy: 95,
    scenario: "two registries",
    replaced: [
      inPlaceOf("disk-agent/model/orders", "acceptRequest", ({ acceptRequest }) => (memory, bootId, request) => {
        const { tabletId, incarnation } = memory;
        const stamps = request.stamps.map((stamp) => ({ ...stamp, tabletId, incarnation }));
        return acceptRequest(memory, bootId, { ...request, stamps });
      }),
    ],
  },
  {
    name: "obey-whoever-answers",
    mistake: "an agent goes back to a former incarnation, whose registry takes it for its own",
    withinSeeds: 600,
    foundBy: 23,
    scenario: "two registries",
    replaced: [
      inPlaceOf(
        "disk-agent/model/registration",
        "decideRegistration",
        ({ decideRegistration }) =>
          (memory, known, answer) => {
            const { tabletId, incarnation } = memory;
            const formerIncarnations = memory.formerIncarnations.filter((each) => each !== answer.incarnation);
            const predecessors = [...answer.predecessors, { tabletId, incarnation }];
            return decideRegistration({ ...memory, formerIncarnations }, known, { ...answer, predecessors });
          },
      ),
      inPlaceOf("disk-registry/model/disks/remembered", "originOf", ({ originOf }) => (...given) => {
        const origin = originOf(...given);
        return origin === "own" ? "own" : "predecessor";
      }),
    ],
  },
  {
    name: "ignore-remembered",
    mistake: "the registry does not mind that agents remember more than it gave",
    withinSeeds: 750,
    foundBy: 20,
    scenario: "copied back",
    replaced: [inPlaceOf("disk-registry/model/disks/remembered", "judgeNumbers", () => () => ({ verdict: "known" }))],
  },
  {
    name: "believe-any-number",
    mistake: "one agent's lie makes the registry go on above what nobody gave",
    withinSeeds: 7200,
    foundBy: 317,
    scenario: "lies",
    replaced: [
      inPlaceOf(
        "disk-registry/model/disks/remembered",
        "judgeNumbers",
        ({ judgeNumbers }) =>
          (tables, own, remembered, origin, believed, nowMs) =>
            judgeNumbers(
              tables,
              own,
              remembered,
              origin,
              { ...believed, believedAhead: Number.POSITIVE_INFINITY },
              nowMs,
            ),
      ),
    ],
  },
  {
    name: "ignore-unknown-disks",
    mistake: "the registry does not mind that a device has a session that it never gave",
    withinSeeds: 750,
    foundBy: 92,
    scenario: "copied back",
    replaced: [inPlaceOf("disk-registry/model/devices/unknown-disks", "markUnknown", () => (_tx, device) => device)],
  },
  {
    name: "erase-unknown-disks",
    mistake: "what an unknown disk has on a device is erased",
    withinSeeds: 450,
    foundBy: 20,
    scenario: "copied back",
    replaced: erasing((isErasable) => (device) => isErasable({ ...device, unknownSession: undefined })),
  },
  {
    name: "tell-before-registered",
    mistake: "a host is told orders before it has registered with a registry that was restored",
    withinSeeds: 1200,
    foundBy: 20,
    scenario: "copied back",
    replaced: [
      inPlaceOf(
        "disk-registry/model/devices/orders",
        "whyNotTold",
        ({ whyNotTold }) =>
          (host) =>
            whyNotTold({ ...host, mustRegister: undefined }),
      ),
      inPlaceOf(
        "disk-registry/model/devices/orders",
        "planOrders",
        ({ planOrders }) =>
          (tables, ...given) =>
            planOrders(readingHosts(tables, { mustRegister: undefined }), ...given),
      ),
    ],
  },
  {
    name: "tell-before-asked",
    mistake: "a new leader gives orders before it has heard what the agent remembers",
    withinSeeds: 150,
    foundBy: 1,
    replaced: [
      inPlaceOf(
        "disk-registry/agents/agent-clients",
        "AgentClients",
        ({ AgentClients }) =>
          class extends AgentClients {
            constructor(...[connect, fleet, checkLease]: ConstructorParameters<typeof AgentClients>) {
              super(connect, changed(fleet, { knows: () => true }), checkLease);
            }
          },
      ),
    ],
  },
];
