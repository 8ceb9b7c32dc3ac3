import { inPlaceOf, type Modules, type Mutation } from "./mutation.js";

type Holder = Parameters<Modules["disk-agent/model/copies/holder"]["isServing"]>[0];
type HolderPart = Holder["parts"][number];
type Leg = HolderPart["legs"][number];

const COPIES = { simulation: "copies", withinSeeds: 3_000 } as const;

/** Returns the holder without the copies that are not kept. */
const without = (holder: Holder, isKept: (leg: Leg) => boolean): Holder => ({
  ...holder,
  parts: holder.parts.map((part) => ({ ...part, legs: part.legs.filter(isKept) })),
});

const isHeard = ({ failure }: Leg): boolean => failure !== "silent" && failure !== "given up";
const hasNotFailed = ({ failure }: Leg): boolean => failure === undefined;

/** Mistakes of the holder of a disk with several copies. */
export const HOLDER_MUTATIONS: readonly Mutation[] = [
  {
    ...COPIES,
    name: "copies-acknowledge-before-drop",
    foundBy: 8,
    mistake: "a write is acknowledged without a failed copy before the registry has dropped it",
    replaced: [
      inPlaceOf(
        "disk-agent/model/copies/requests",
        "nextStep",
        ({ nextStep }) =>
          (holder, request, nowMs) =>
            nextStep(without(holder, hasNotFailed), request, nowMs),
      ),
    ],
  },
  {
    ...COPIES,
    name: "copies-serve-before-record",
    foundBy: 2,
    mistake: "a layout is served before the records of its copies say so",
    replaced: [
      inPlaceOf(
        "disk-agent/model/copies/holder",
        "isRecorded",
        ({ isRecorded }) =>
          (leg, layout) =>
            leg.use === "COUNTS" || isRecorded(leg, layout),
      ),
      inPlaceOf(
        "disk-agent/model/copies/holder",
        "isServing",
        ({ isServing }) =>
          (holder, part) =>
            isServing(holder, { ...part, legs: part.legs.map((leg) => ({ ...leg, recordedLayout: part.layout })) }),
      ),
      inPlaceOf(
        "disk-agent/model/copies/requests",
        "nextStep",
        ({ nextStep }) =>
          (holder, request, nowMs) =>
            nextStep(
              {
                ...holder,
                parts: holder.parts.map((part) => ({
                  ...part,
                  legs: part.legs.map((leg) => ({ ...leg, recordedLayout: part.layout })),
                })),
              },
              request,
              nowMs,
            ),
      ),
    ],
  },
  {
    ...COPIES,
    name: "copies-one-record-slot",
    foundBy: 5,
    mistake: "a record is written over the latest one, so that a torn write loses it",
    replaced: [
      inPlaceOf("disk-agent/model/copies/copy-record", "slotToWrite", ({ slotToWrite }) => (slots) => ({
        ...slotToWrite(slots),
        index: 0,
      })),
    ],
  },
  {
    ...COPIES,
    name: "copies-fill-from-any",
    foundBy: 3,
    mistake: "a copy is filled from one that does not count",
    replaced: [
      inPlaceOf(
        "disk-agent/model/copies/legs",
        "readLeg",
        ({ readLeg }) =>
          (holder, part) =>
            holder.parts[part]?.legs.find(({ use, failure }) => use === "COPYING" && failure === undefined) ??
            readLeg(holder, part),
      ),
    ],
  },
  {
    ...COPIES,
    name: "copies-equal-too-early",
    foundBy: 1,
    mistake: "a copy is said to be equal while it is being filled",
    replaced: [
      inPlaceOf(
        "disk-agent/model/copies/legs",
        "bind",
        ({ bind }) =>
          (holder) =>
            bind({
              ...holder,
              parts: holder.parts.map((part) => ({
                ...part,
                legs: part.legs.map(
                  (leg): Leg => (leg.copiedBlocks > 0 && leg.use === "COPYING" ? { ...leg, filling: "synced" } : leg),
                ),
              })),
            }),
      ),
    ],
  },
  {
    ...COPIES,
    name: "copies-equal-unflushed",
    foundBy: 6,
    mistake: "a copy is said to be equal before it was flushed",
    replaced: [
      inPlaceOf(
        "disk-agent/model/copies/legs",
        "noteCopied",
        ({ noteCopied, noteSettled }) =>
          (holder, part, deviceId, done) =>
            noteSettled(noteCopied(holder, part, deviceId, done), part, deviceId),
      ),
    ],
  },
  {
    ...COPIES,
    name: "copies-equal-unnamed",
    foundBy: 167,
    scenario: "leaving",
    mistake: "a copy is said to be equal before the records of those that count name it",
    replaced: [
      inPlaceOf("disk-agent/model/copies/holder", "recordFor", ({ recordFor }) => (holder, part, leg) => ({
        ...recordFor(holder, part, leg),
        copying: [],
      })),
    ],
  },
  {
    ...COPIES,
    name: "copies-clean-unflushed",
    foundBy: 23,
    mistake: "an end is said to be clean before the copies are flushed",
    replaced: [inPlaceOf("disk-agent/model/copies/holder", "isCleanEnd", () => (holder) => !holder.hasFailed)],
  },
  {
    ...COPIES,
    name: "copies-clean-after-failure",
    foundBy: 2742,
    scenario: "partitions",
    mistake: "an end is said to be clean after a user was told of a failure, with the copies that have not failed",
    replaced: [
      inPlaceOf(
        "disk-agent/model/copies/holder",
        "isCleanEnd",
        ({ isCleanEnd }) =>
          (holder) =>
            isCleanEnd({ ...without(holder, hasNotFailed), hasFailed: false }),
      ),
    ],
  },
  {
    ...COPIES,
    name: "copies-dead-before-resume",
    foundBy: 2704,
    scenario: "agents",
    mistake: "an agent that restarted between the load of a table and its resume takes the table for recorded",
    replaced: [
      inPlaceOf("disk-agent/model/copies/holder", "recovered", () => (holder) => ({
        ...holder,
        parts: holder.parts.map((part) => ({
          ...part,
          legs: part.legs.map((leg) => ({ ...leg, recordedLayout: part.layout })),
        })),
      })),
    ],
  },
  {
    ...COPIES,
    name: "copies-trust-rebooted",
    foundBy: 71,
    mistake: "a copy counts on whose machine restarted between a write and its flush",
    replaced: [
      inPlaceOf(
        "disk-agent/model/copies/legs",
        "noteHeard",
        ({ noteHeard }) =>
          (holder, part, deviceId, heard) =>
            noteHeard(holder, part, deviceId, { ...heard, bootId: "boot" }),
      ),
    ],
  },
  {
    ...COPIES,
    name: "copies-write-after-cut",
    foundBy: 5,
    mistake: "the targets of a snapshot are written after the cut was said",
    replaced: [
      inPlaceOf("disk-agent/model/copies/cut", "cut", ({ cut }) => (holder, writesInFlight) => {
        const after = cut(holder, writesInFlight);
        return after === holder ? holder : { ...after, parts: holder.parts };
      }),
    ],
  },
  {
    ...COPIES,
    name: "copies-cut-amid-writes",
    foundBy: 1156,
    scenario: "moves",
    mistake: "a snapshot is cut while writes are in flight",
    replaced: [
      inPlaceOf(
        "disk-agent/model/copies/cut",
        "cut",
        ({ cut }) =>
          (holder) =>
            cut(holder, 0),
      ),
    ],
  },
  {
    ...COPIES,
    name: "copies-cut-part-by-part",
    foundBy: 15,
    mistake: "each part of a snapshot is cut at its own moment",
    replaced: [
      inPlaceOf("disk-agent/model/copies/cut", "beginDraining", ({ beginDraining }) => (holder) => {
        const after = beginDraining(holder);
        if (holder.snapshot?.phase !== "copying" || after !== holder) return after;
        const isDone = ({ use, filling }: Leg): boolean => use === "SNAPSHOT" && filling === "synced";
        return {
          ...holder,
          parts: holder.parts.map((part) => ({
            ...part,
            legs: part.legs.map((leg): Leg => (isDone(leg) ? { ...leg, copiedBlocks: 0 } : leg)),
          })),
        };
      }),
    ],
  },
  {
    ...COPIES,
    name: "copies-discard-on-one",
    foundBy: 5,
    mistake: "some changes of bytes go to one copy alone",
    replaced: [
      inPlaceOf("disk-agent/model/copies/requests", "nextStep", ({ nextStep }) => (holder, request, nowMs) => {
        if (request.kind !== "write" || request.block !== 2) return nextStep(holder, request, nowMs);
        const first = holder.parts[request.part]?.counting[0];
        return nextStep(
          without(holder, ({ deviceId }) => deviceId === first),
          request,
          nowMs,
        );
      }),
    ],
  },
  {
    ...COPIES,
    name: "copies-cut-off-writes",
    foundBy: 8,
    mistake: "a holder that hears none but its own copy acknowledges writes on it alone",
    replaced: [
      inPlaceOf(
        "disk-agent/model/copies/requests",
        "nextStep",
        ({ nextStep }) =>
          (holder, request, nowMs) =>
            nextStep(without(holder, isHeard), request, nowMs),
      ),
    ],
  },
  {
    ...COPIES,
    name: "copies-cut-off-reads",
    foundBy: 8,
    mistake: "a holder reads its own copy although it does not hear the others",
    replaced: [
      inPlaceOf(
        "disk-agent/model/copies/requests",
        "nextStep",
        ({ nextStep }) =>
          (holder, request, nowMs) =>
            nextStep(request.kind === "read" ? without(holder, isHeard) : holder, request, nowMs),
      ),
    ],
  },
  {
    ...COPIES,
    name: "copies-taken-back",
    foundBy: 71,
    mistake: "a copy that has failed is taken for equal again when it answers",
    replaced: [
      inPlaceOf("disk-agent/model/copies/legs", "noteHeard", ({ noteHeard }) => (holder, part, deviceId, heard) => {
        const parts = holder.parts.map((each, index) => ({
          ...each,
          legs: each.legs.map((leg): Leg => {
            if (index !== part || leg.deviceId !== deviceId) return leg;
            const { failure: __, ...well } = leg;
            return well;
          }),
        }));
        return noteHeard({ ...holder, parts }, part, deviceId, heard);
      }),
    ],
  },
];
