import { inPlaceOf, type Modules, type Mutation } from "./mutation.js";

type Disk = Parameters<Modules["disk-registry/model/copies/publications"]["completeSession"]>[0];
type Copy = Disk["parts"][number]["copies"][number];

const COPIES = { simulation: "copies", withinSeeds: 3_000 } as const;

const changeCopies = (disk: Disk, change: (copy: Copy) => Copy): Disk => ({
  ...disk,
  parts: disk.parts.map((part) => ({ ...part, copies: part.copies.map(change) })),
});

/** Returns the disk as if its holder followed the present revision. */
const asFollowed = (disk: Disk): Disk =>
  disk.publication === undefined
    ? disk
    : { ...disk, publication: { ...disk.publication, confirmedRevision: disk.publication.revision } };

/** Mistakes of the registry about disks with several copies. */
export const COPY_REGISTRY_MUTATIONS: readonly Mutation[] = [
  {
    ...COPIES,
    name: "copies-believe-the-store",
    foundBy: 7,
    mistake: "a restored store is believed before the highest record was heard",
    replaced: [
      inPlaceOf("disk-registry/model/copies/records", "prove", ({ prove }) => (disk, heard) => {
        const proof = prove(disk, heard);
        if (proof.is === "proven") return proof;
        const isHeard = disk.parts.every(({ copies }) =>
          copies.some(({ deviceId }) => heard.get(deviceId)?.own === "COUNTS"),
        );
        const proven = { ...disk, isUnclean: true, isUnproven: undefined } as const;
        return isHeard ? { is: "proven", highestNumber: disk.lastSession, disk: proven } : proof;
      }),
    ],
  },
  {
    ...COPIES,
    name: "copies-believe-the-dropped",
    foundBy: 14,
    mistake: "a dropped copy counts again once its host is back",
    replaced: [
      inPlaceOf(
        "disk-registry/model/copies/publications",
        "completeSession",
        ({ completeSession }) =>
          (disk, grants) => {
            const back = (copy: Copy): Copy =>
              copy.state === "DROPPED" && grants.granted.size > 0 ? { deviceId: copy.deviceId, state: "COUNTS" } : copy;
            const after = completeSession(disk, grants);
            return after && disk.publication?.state === "FENCING" ? changeCopies(after, back) : after;
          },
      ),
    ],
  },
  {
    ...COPIES,
    name: "copies-drop-the-last",
    foundBy: 9,
    mistake: "the last copy is dropped, too",
    replaced: [
      inPlaceOf("disk-registry/model/copies/drops", "dropCopy", ({ dropCopy, withDropped }) => (disk, request, at) => {
        const answer = dropCopy(disk, request, at);
        if (answer.is !== "refused" || answer.why !== "LAST_COPY") return answer;
        const parts = disk.parts.map((part, index) =>
          index === request.part ? withDropped(part, request.deviceId, at) : part,
        );
        return { is: "dropped", disk: { ...disk, parts } };
      }),
      inPlaceOf("disk-agent/model/copies/legs", "wordsOf", ({ wordsOf }) => (holder) => [
        ...wordsOf(holder),
        ...holder.parts.flatMap(({ legs }, part) =>
          legs.flatMap(({ deviceId, failure, use }) =>
            failure !== undefined && use === "COUNTS" ? [{ says: "DROP", part, deviceId } as const] : [],
          ),
        ),
      ]),
    ],
  },
  {
    ...COPIES,
    name: "copies-no-choice",
    foundBy: 11,
    mistake: "after an unclean end all copies count on",
    replaced: [
      inPlaceOf(
        "disk-registry/model/copies/publications",
        "completeSession",
        ({ completeSession }) =>
          (disk, grants) =>
            completeSession({ ...disk, isUnclean: undefined }, grants),
      ),
    ],
  },
  {
    ...COPIES,
    name: "copies-choose-again",
    foundBy: 47,
    mistake: "a copy that was not chosen counts again in the next session",
    replaced: [
      inPlaceOf(
        "disk-registry/model/copies/publications",
        "completeSession",
        ({ completeSession }) =>
          (disk, grants) => {
            const after = completeSession(disk, grants);
            const isBack = after !== undefined && disk.publication?.state === "FENCING";
            return isBack
              ? changeCopies(after, (copy) =>
                  copy.state === "RESYNC" ? { deviceId: copy.deviceId, state: "COUNTS" } : copy,
                )
              : after;
          },
      ),
    ],
  },
  {
    ...COPIES,
    name: "copies-renewed-as-clean",
    foundBy: 11,
    mistake: "a publication that is renewed for the same host is taken for clean",
    replaced: [
      inPlaceOf(
        "disk-registry/model/copies/publications",
        "beginPublication",
        ({ beginPublication }) =>
          (disk, wish, session) => {
            const begun = beginPublication(disk, wish, session);
            return disk.publication?.state === "PUBLISHED" ? { ...begun, isUnclean: undefined } : begun;
          },
      ),
    ],
  },
  {
    ...COPIES,
    name: "copies-late-clean-end",
    foundBy: 23,
    mistake: "a clean end of another session or revision is believed",
    replaced: [
      inPlaceOf("disk-registry/model/copies/publications", "noteCleanEnd", () => (disk) => ({
        ...disk,
        isUnclean: undefined,
      })),
      inPlaceOf("disk-agent/model/copies/holder", "isCleanEnd", () => () => true),
    ],
  },
  {
    ...COPIES,
    name: "copies-drop-of-old-session",
    foundBy: 76,
    scenario: "moves",
    mistake: "a drop of an earlier session or revision is obeyed",
    replaced: [
      inPlaceOf("disk-registry/model/copies/drops", "dropCopy", ({ dropCopy }) => (disk, request, at) => {
        const { session = 0, revision = 0 } = disk.publication ?? {};
        return dropCopy(disk, { ...request, session, revision }, at);
      }),
    ],
  },
  {
    ...COPIES,
    name: "copies-lost-export-goes-on",
    foundBy: 11,
    mistake: "a node agent that restarted with writes in flight goes on in the same session",
    replaced: [inPlaceOf("disk-registry/model/copies/publications", "isExportLost", () => () => false)],
  },
  {
    ...COPIES,
    name: "copies-drop-at-once",
    foundBy: 658,
    mistake: "a copy that does not grant is dropped before its former holder has stopped to read it",
    replaced: [
      inPlaceOf(
        "disk-registry/model/copies/publications",
        "mayDropUnheard",
        ({ mayDropUnheard }) =>
          (unheard, limits) =>
            mayDropUnheard(unheard, { ...limits, readLeaseMs: 0 }),
      ),
    ],
  },
  {
    ...COPIES,
    name: "copies-free-too-early",
    foundBy: 6,
    mistake: "a copy is erased before its holder follows a layout without it",
    replaced: [
      inPlaceOf(
        "disk-registry/model/copies/adding",
        "freeable",
        ({ freeable }) =>
          (disk, index) =>
            freeable(asFollowed(disk), index),
      ),
    ],
  },
  {
    ...COPIES,
    name: "copies-on-one-host",
    foundBy: 7,
    mistake: "a repair chooses the host that has the other copy",
    replaced: [
      inPlaceOf(
        "disk-registry/model/copies/repairs",
        "planRepairs",
        ({ planRepairs }) =>
          (disks, facts) =>
            planRepairs(disks, {
              ...facts,
              free: facts.free.map((each) => ({ ...each, hostId: each.deviceId as never })),
              placeOf: (deviceId) => ({ hostId: deviceId as never, rack: "" }),
            }),
      ),
    ],
  },
  {
    ...COPIES,
    name: "copies-proof-without-fence",
    foundBy: 3,
    mistake: "records prove a restored store while a holder of a lost order goes on",
    replaced: [inPlaceOf("disk-registry/model/copies/records", "asUnproven", () => (disk) => disk)],
  },
  {
    ...COPIES,
    name: "copies-layout-issued-twice",
    foundBy: 104,
    mistake: "another set of copies gets the layout number of the former one",
    replaced: [
      inPlaceOf(
        "disk-registry/model/copies/drops",
        "dropCopy",
        ({ dropCopy }) =>
          (disk, request, at) =>
            dropCopy(disk, request, { ...at, layout: disk.parts[request.part]?.layout ?? 0 }),
      ),
    ],
  },
  {
    ...COPIES,
    name: "copies-fence-without-leaving",
    foundBy: 78,
    scenario: "fences",
    mistake: "a fence does not ask a copy that leaves, and that its former holder reads on",
    replaced: [
      inPlaceOf(
        "disk-registry/model/copies/publications",
        "askedDevices",
        ({ askedDevices }) =>
          (part) =>
            askedDevices({ ...part, copies: part.copies.filter(({ state }) => state !== "LEAVING") }),
      ),
      inPlaceOf(
        "disk-registry/model/copies/publications",
        "completeSession",
        ({ completeSession }) =>
          (disk, grants) => {
            const leaving = disk.parts.flatMap(({ copies }) => copies.filter(({ state }) => state === "LEAVING"));
            const excused = new Set([...grants.excused, ...leaving.map(({ deviceId }) => deviceId)]);
            return completeSession(disk, { ...grants, excused });
          },
      ),
    ],
  },
];
