import { InvalidArgumentError } from "@diskmesh/domain";
import { changed, inPlaceOf, type Mutation } from "./mutation.js";
import { readingHosts } from "./mutations-registry.js";

/** Mistakes in a registry's handling of hosts that are gone. */
export const HOST_MUTATIONS: readonly Mutation[] = [
  {
    name: "fence-without-asking",
    mistake: "a fence counts as complete while devices could not be asked",
    withinSeeds: 2700,
    foundBy: 968,
    scenario: "hosts die",
    replaced: [
      inPlaceOf("disk-registry/model/disks/session-plan", "planSession", ({ planSession }) => (tables, diskId) => {
        const plan = planSession(tables, diskId);
        return plan?.publication.state === "UNPUBLISHING" ? { ...plan, blocked: undefined } : plan;
      }),
    ],
  },
  {
    name: "revive-by-registration",
    mistake: "a DEAD host that is heard is not DEAD any more",
    withinSeeds: 3900,
    foundBy: 104,
    scenario: "hosts die",
    replaced: [
      inPlaceOf(
        "disk-registry/model/hosts/registration",
        "registerAgent",
        ({ registerAgent }) =>
          (tx, registration, ...given) => {
            const host = tx.hosts.get(registration.hostId);
            if (host?.state === "DEAD") tx.hosts.put({ ...host, state: "UNAVAILABLE", saidDead: undefined });
            return registerAgent(tx, registration, ...given);
          },
      ),
    ],
  },
  {
    name: "place-on-the-dead",
    mistake: "disks are placed on DEAD hosts",
    withinSeeds: 16200,
    foundBy: 9392,
    scenario: "hosts die",
    replaced: [
      inPlaceOf(
        "disk-registry/model/disks/placement",
        "isPlaceable",
        ({ isPlaceable }) =>
          (host, whySuspected) =>
            host.state === "DEAD" || isPlaceable(host, whySuspected),
      ),
    ],
  },
  {
    name: "publish-with-the-dead",
    mistake: "a disk is published with a device on a DEAD host, or to one",
    withinSeeds: 6900,
    foundBy: 2264,
    scenario: "hosts die",
    replaced: [
      inPlaceOf(
        "disk-registry/model/disks/publications",
        "requestPublish",
        ({ requestPublish }) =>
          (tx, ...given) =>
            requestPublish(readingHosts(tx, { state: "ONLINE", mustRegister: undefined }), ...given),
      ),
    ],
  },
  {
    name: "leave-fenced-exports",
    mistake: "a host that was not told so serves a disk on that was taken from it",
    withinSeeds: 8100,
    foundBy: 2840,
    scenario: "hosts die",
    replaced: [
      inPlaceOf(
        "disk-registry/model/disks/publications",
        "completeUnpublish",
        ({ completeUnpublish }) =>
          (tx, diskId, seen) =>
            completeUnpublish(tx, diskId, seen, true),
      ),
    ],
  },
  {
    name: "forget-that-it-was-asked",
    mistake: "a publication is taken back without a fence although its session was asked for",
    withinSeeds: 9300,
    foundBy: 2120,
    scenario: "hosts die",
    replaced: [
      inPlaceOf(
        "disk-registry/model/disks/publications",
        "markAsked",
        ({ markAsked }) =>
          (tx, ...given) =>
            markAsked(changed(tx, { disks: changed(tx.disks, { put: () => {} }) }), ...given),
      ),
    ],
  },
  {
    name: "refuse-all-for-a-device",
    mistake: "a registration is refused as a whole for one device that cannot be read",
    withinSeeds: 900,
    foundBy: 215,
    scenario: "refused registrations",
    replaced: [
      inPlaceOf(
        "disk-registry/requests/registration-request",
        "parseRegistration",
        ({ parseRegistration }) =>
          (...given) => {
            const registration = parseRegistration(...given);
            const [refused] = registration.refusedDevices ?? [];
            if (refused !== undefined) throw new InvalidArgumentError(refused.reason);
            return registration;
          },
      ),
    ],
  },
  {
    name: "silent-while-refused",
    mistake: "an agent whose later registration is refused sends no heartbeats until one is taken",
    withinSeeds: 900,
    foundBy: 71,
    scenario: "refused registrations",
    replaced: [
      inPlaceOf(
        "disk-agent/workers/heartbeats",
        "Heartbeats",
        ({ Heartbeats }) =>
          class extends Heartbeats {
            readonly #signal: AbortSignal;
            readonly #sleep: (ms: number, signal: AbortSignal) => Promise<void>;

            constructor(options: ConstructorParameters<typeof Heartbeats>[0]) {
              super(options);
              const { clock } = options;
              this.#signal = options.signal;
              this.#sleep = (ms, signal) => clock.sleep(ms, signal);
            }

            override during<T>(registration: Promise<T>): Promise<T> {
              return registration;
            }

            override pause(pauseMs: number): Promise<void> {
              return this.#sleep(pauseMs, this.#signal).catch(() => undefined);
            }
          },
      ),
    ],
  },
];
