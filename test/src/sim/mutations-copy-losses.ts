import { inPlaceOf, type Mutation } from "./mutation.js";

const COPIES = { simulation: "copies", withinSeeds: 3_000 } as const;

/** Mistakes where drives fail for good, and where hosts come and go. */
export const COPY_LOSS_MUTATIONS: readonly Mutation[] = [
  {
    ...COPIES,
    name: "copies-remove-the-last",
    foundBy: 1,
    mistake: "a device is forgotten that has the last copy that counts",
    replaced: [
      inPlaceOf("disk-registry/model/copies/removing", "removeDevice", ({ removeDevice }) => (disk, deviceId, at) => {
        const answer = removeDevice(disk, deviceId, at);
        if (answer.is === "removed" || answer.why !== "LAST_COPY") return answer;
        const parts = disk.parts.map((part) => ({
          ...part,
          layout: at.layout,
          copies: part.copies.filter((copy) => copy.deviceId !== deviceId),
        }));
        return { is: "removed", disk: { ...disk, parts } };
      }),
    ],
  },
  {
    ...COPIES,
    name: "copies-remove-unheard",
    foundBy: 803,
    mistake: "a device is forgotten of an old store before those were heard that may know of a later set of copies",
    replaced: [
      inPlaceOf(
        "disk-registry/model/copies/removing",
        "removeDevice",
        ({ removeDevice }) =>
          (disk, deviceId, at) =>
            removeDevice(disk, deviceId, { ...at, awaited: [] }),
      ),
    ],
  },
  {
    ...COPIES,
    name: "copies-accept-unbelieved",
    foundBy: 233,
    mistake: "a person's word on a copy does not stand against the copy's own record",
    replaced: [
      inPlaceOf(
        "disk-registry/model/copies/accept",
        "acceptDroppedCopy",
        ({ acceptDroppedCopy }) =>
          (disk, named, at) => {
            const answer = acceptDroppedCopy(disk, named, at);
            if (answer.is === "refused") return answer;
            const parts = answer.disk.parts.map((part) => ({
              ...part,
              copies: part.copies.map(({ isUnrecorded: _, ...copy }) => copy),
            }));
            return { is: "accepted", disk: { ...answer.disk, parts } };
          },
      ),
    ],
  },
  {
    ...COPIES,
    name: "copies-proven-unbelieved",
    foundBy: 1063,
    mistake: "a copy that counts by another's record does not once a restore has lost that its own was not written",
    replaced: [
      inPlaceOf("disk-registry/model/copies/records", "prove", ({ prove }) => (disk, heard) => {
        const proof = prove(disk, heard);
        const parts = proof.disk.parts.map((part) => ({
          ...part,
          copies: part.copies.map(({ isUnrecorded: _, ...copy }) => copy),
        }));
        return { ...proof, disk: { ...proof.disk, parts } };
      }),
    ],
  },
  {
    ...COPIES,
    name: "copies-offer-the-erased",
    foundBy: 1_299,
    scenario: "flaps",
    mistake:
      "a person is offered a copy that an old store remembers, although its device was heard and has other bytes",
    replaced: [
      inPlaceOf("disk-registry/model/copies/records", "prove", ({ prove }) => (disk, heard) => {
        const proof = prove(disk, heard);
        const isLater = proof.disk.parts.some(({ layout }, index) => layout !== disk.parts[index]?.layout);
        return proof.is === "proven" || isLater ? proof : { ...proof, disk };
      }),
    ],
  },
  {
    ...COPIES,
    name: "copies-accept-the-worst",
    foundBy: 61,
    mistake: "a person is told that a copy which is being filled loses nothing",
    replaced: [
      inPlaceOf("disk-registry/model/copies/accept", "offers", ({ offers }) => (disk, index, hostOf) => [
        ...(disk.parts[index]?.copies ?? [])
          .filter(({ state }) => state === "COPYING")
          .map(({ deviceId }) => ({
            deviceId,
            hostId: hostOf(deviceId),
            state: "DROPPED" as const,
            sinceMs: Number.MAX_SAFE_INTEGER,
            isMixed: false,
          })),
        ...offers(disk, index, hostOf),
      ]),
      inPlaceOf(
        "disk-registry/model/copies/accept",
        "acceptDroppedCopy",
        ({ acceptDroppedCopy }) =>
          (disk, named, at) =>
            acceptDroppedCopy(
              {
                ...disk,
                parts: disk.parts.map((part) => ({
                  ...part,
                  copies: part.copies.map((copy) => (copy.state === "COPYING" ? { ...copy, state: "DROPPED" } : copy)),
                })),
              },
              named,
              at,
            ),
      ),
    ],
  },
  {
    ...COPIES,
    name: "copies-often-dropped",
    scenario: "flaps",
    foundBy: 79,
    mistake: "a device that was dropped three times gets copies on and on",
    replaced: [inPlaceOf("disk-registry/model/copies/steadiness", "isTrouble", () => () => false)],
  },
  {
    ...COPIES,
    name: "copies-on-flapping-host",
    foundBy: 19,
    scenario: "flaps",
    mistake: "a host gets a copy as soon as it is heard again",
    replaced: [inPlaceOf("disk-registry/model/copies/steadiness", "isSteady", () => () => true)],
  },
  {
    ...COPIES,
    name: "copies-steady-too-early",
    foundBy: 19,
    scenario: "flaps",
    mistake: "a host that comes and goes proves itself for no longer each time",
    replaced: [
      inPlaceOf(
        "disk-registry/model/copies/steadiness",
        "noteSilent",
        ({ noteSilent }) =>
          (was, nowMs, limits) =>
            noteSilent(was, nowMs, { ...limits, longestMs: limits.shortestMs }),
      ),
    ],
  },
];
