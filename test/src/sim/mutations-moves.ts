import { CopyDeviceResponse, GetMirrorResponse, MirrorState, OrderOutcome } from "@diskmesh/api/internal";
import { changed, inPlaceOf, type Modules, type Mutation } from "./mutation.js";

type Moves = Modules["disk-registry/model/disks/moves"];
type Transaction = Parameters<Moves["cutOver"]>[0];
type Seen = Parameters<Moves["completeCopy"]>[1];

/** Returns tables in which the disk's session, publication and target are as they were seen. Stores the present ones. */
function asSeen(tx: Transaction, { disk: seen, sessionNumber }: Seen): Transaction {
  const { disks } = tx;
  const get: typeof disks.get = (diskId) => {
    const disk = disks.get(diskId);
    if (disk === undefined || diskId !== seen.diskId) return disk;
    const { publication, lastSessionNumber } = seen;
    const parts = disk.parts.map((part) => ({
      ...part,
      copies: part.copies.map((copy) => (copy.state === "COPYING" ? { ...copy, sessionNumber } : copy)),
    }));
    return { ...disk, publication, lastSessionNumber, parts };
  };
  const put: typeof disks.put = (disk) => {
    const now = disks.get(disk.diskId)?.publication;
    disks.put({ ...disk, publication: now && { ...now, revision: (now.revision ?? 0) + 1 } });
  };
  return changed(tx, { disks: changed(disks, { get, put }) });
}

/** Returns a replacement in which the registry believes other answers of agents about moves. */
const answeredAs = (change: {
  readonly mirror?: (answer: GetMirrorResponse) => GetMirrorResponse;
  readonly copy?: (answer: CopyDeviceResponse) => CopyDeviceResponse;
}) =>
  inPlaceOf("disk-registry/build-context", "buildContext", ({ buildContext }) => (lifecycle, options) => {
    const { edges } = options;
    const { mirror = (answer) => answer, copy = (answer) => answer } = change;
    const connectAgent: typeof edges.connectAgent = (host) => {
      const client = edges.connectAgent(host);
      const getMirror: typeof client.getMirror = async (...given) => mirror(await client.getMirror(...given));
      const copyDevice: typeof client.copyDevice = async (...given) => copy(await client.copyDevice(...given));
      return changed(client, { getMirror, copyDevice });
    };
    return buildContext(lifecycle, { ...options, edges: { ...edges, connectAgent } });
  });

/** Returns a replacement in which the registry repeats the last token of a disk and device in each later session. */
function tokensOfAllSessions() {
  return inPlaceOf("disk-registry/build-context", "buildContext", ({ buildContext }) => (lifecycle, options) => {
    const { edges } = options;
    const tokens = new Map<string, string>();
    const connectAgent: typeof edges.connectAgent = (host) => {
      const client = edges.connectAgent(host);
      const copyDevice: typeof client.copyDevice = async (request, ...given) => {
        const key = `${request.diskId} ${request.deviceId}`;
        const answer = await client.copyDevice({ ...request, resumeToken: tokens.get(key) ?? "" }, ...given);
        if (answer.resumeToken !== "") tokens.set(key, answer.resumeToken);
        return answer;
      };
      return changed(client, { copyDevice });
    };
    return buildContext(lifecycle, { ...options, edges: { ...edges, connectAgent } });
  });
}

/** Mistakes in moves of disks. */
export const MOVE_MUTATIONS: readonly Mutation[] = [
  {
    name: "cut-over-before-equal",
    mistake: "the registry has the target count while its holder still copies",
    withinSeeds: 300,
    foundBy: 10,
    scenario: "disks move",
    replaced: [
      answeredAs({
        mirror: (answer) =>
          answer.state === MirrorState.COPYING
            ? GetMirrorResponse.fromPartial({ ...answer, state: MirrorState.EQUAL })
            : answer,
      }),
    ],
  },
  {
    name: "complete-before-copied",
    mistake: "the registry has the target count while its agent still copies",
    withinSeeds: 1200,
    foundBy: 100,
    scenario: "disks move",
    replaced: [
      answeredAs({
        copy: ({ outcome, ...answer }) =>
          CopyDeviceResponse.fromPartial({
            ...answer,
            outcome: outcome?.outcome === OrderOutcome.PENDING ? { ...outcome, outcome: OrderOutcome.DONE } : outcome,
          }),
      }),
    ],
  },
  {
    name: "free-source-at-cut-over",
    mistake: "the source is freed before the holder uses the new layout",
    withinSeeds: 300,
    foundBy: 10,
    scenario: "disks move",
    replaced: [
      inPlaceOf("disk-registry/model/disks/moves", "cutOver", ({ cutOver }) => (tx, seen) => {
        const isCutOver = cutOver(tx, seen);
        const [disk, source] = [tx.disks.get(seen.disk.diskId), tx.devices.get(seen.source.deviceId)];
        if (!isCutOver || disk === undefined || source === undefined) return isCutOver;
        const parts = disk.parts.map((part) => ({
          ...part,
          copies: part.copies.filter(({ state }) => state !== "LEAVING"),
        }));
        tx.disks.put({ ...disk, parts });
        tx.devices.put({ ...source, runs: [{ first: 0, diskId: "" }] });
        return isCutOver;
      }),
    ],
  },
  {
    name: "two-targets",
    mistake: "the registry chooses another target for a part that has one",
    withinSeeds: 300,
    foundBy: 10,
    scenario: "disks move",
    replaced: [
      inPlaceOf("disk-registry/model/disks/moves", "planMove", ({ planMove }) => (tables, diskId) => {
        const { disks } = tables;
        const get: typeof disks.get = (id) => {
          const disk = disks.get(id);
          const withoutTarget = disk?.parts.map((part) => ({
            ...part,
            copies: part.copies.filter(({ state }) => state !== "COPYING"),
          }));
          return disk && { ...disk, parts: withoutTarget ?? [] };
        };
        const step = planMove(tables, diskId);
        return step.kind === "begin" ? planMove(changed(tables, { disks: changed(disks, { get }) }), diskId) : step;
      }),
      inPlaceOf("disk-registry/model/disks/moves", "beginTarget", ({ beginTarget }) => (tx, moving, target) => {
        beginTarget(tx, { ...moving, disk: tx.disks.get(moving.disk.diskId) ?? moving.disk }, target);
      }),
    ],
  },
  {
    name: "believe-stale-copy",
    mistake: "the registry believes a whole copy of an earlier session, after which the disk was written",
    withinSeeds: 3000,
    foundBy: 280,
    scenario: "disks move",
    replaced: [
      inPlaceOf(
        "disk-registry/model/disks/moves",
        "completeCopy",
        ({ completeCopy }) =>
          (tx, seen) =>
            completeCopy(asSeen(tx, seen), seen),
      ),
    ],
  },
  {
    name: "believe-stale-equal",
    mistake: "the registry believes an EQUAL of an earlier session or revision",
    withinSeeds: 8400,
    foundBy: 580,
    scenario: "disks move",
    replaced: [
      inPlaceOf(
        "disk-registry/model/disks/moves",
        "cutOver",
        ({ cutOver }) =>
          (tx, seen) =>
            cutOver(asSeen(tx, seen), seen),
      ),
    ],
  },
  {
    name: "copy-goes-on-after-a-session",
    mistake: "a copy goes on where an earlier session of it was durable, although the disk was in use since",
    withinSeeds: 15_000,
    foundBy: 4930,
    scenario: "disks move",
    replaced: [
      tokensOfAllSessions(),
      inPlaceOf("disk-agent/model/copy-mark", "startOf", () => (token, _place, sizeBytes) => {
        const startBytes = Number(token.split(":")[0]);
        return startBytes <= sizeBytes ? startBytes : 0;
      }),
    ],
  },
  {
    name: "mark-outlives-a-session",
    mistake: "a copy goes on where it was before a host wrote to the source alone",
    withinSeeds: 3000,
    foundBy: 889,
    scenario: "moves go on",
    replaced: [
      inPlaceOf(
        "disk-registry/model/disks/copy-marks",
        "forPublication",
        ({ forPublication }) =>
          (tx, before, publication) => {
            const disk = forPublication(tx, before, publication);
            const markOf = (index: number, deviceId: string) =>
              before.parts[index]?.copies.find((copy) => copy.deviceId === deviceId)?.mark;
            const parts = disk.parts.map((part, index) => ({
              ...part,
              copies: part.copies.map(({ sessionNumber: _, ...copy }) => ({
                ...copy,
                mark: markOf(index, copy.deviceId),
              })),
            }));
            return { ...disk, parts };
          },
      ),
      inPlaceOf(
        "disk-agent/model/sessions",
        "decideOpenSession",
        ({ decideOpenSession }) =>
          (memory, run, wish) =>
            decideOpenSession(memory, run, wish),
      ),
    ],
  },
  {
    name: "equal-does-not-bind",
    mistake: "after EQUAL, a holder acknowledges what only the source has",
    withinSeeds: 1200,
    foundBy: 1162,
    scenario: "targets fail",
    replaced: [
      inPlaceOf(
        "disk-agent/model/mirror",
        "nextStep",
        ({ nextStep }) =>
          (state, request) =>
            nextStep(state.phase === "bound" ? { ...state, phase: "synced" } : state, request),
      ),
    ],
  },
  {
    name: "acknowledge-before-target",
    mistake: "a holder acknowledges a write that is still on its way to the target",
    withinSeeds: 1200,
    foundBy: 100,
    scenario: "disks move",
    replaced: [
      inPlaceOf("disk-agent/model/mirror", "nextStep", ({ nextStep }) => (state, request) => {
        const isOnItsWay = request.kind === "write" && request.target === "sent";
        return nextStep(state, isOnItsWay ? { ...request, target: "done" } : request);
      }),
    ],
  },
  {
    name: "equal-without-a-write",
    mistake: "a mirror goes on after a write that its target has failed",
    withinSeeds: 6000,
    foundBy: 202,
    scenario: "targets fail",
    replaced: [
      inPlaceOf(
        "disk-agent/model/mirror",
        "noteAnswer",
        ({ noteAnswer }) =>
          (state, request, at, answer) =>
            noteAnswer(state, request, at, at === "target" ? { ...answer, is: "done" } : answer),
      ),
    ],
  },
  {
    name: "copy-over-a-write",
    mistake: "the copy of a range does not exclude writes to it",
    withinSeeds: 1800,
    foundBy: 190,
    scenario: "disks move",
    replaced: [
      inPlaceOf(
        "disk-agent/mirror/range-locks",
        "RangeLocks",
        ({ RangeLocks }) =>
          class extends RangeLocks {
            override take(): Promise<() => void> {
              return Promise.resolve(() => {});
            }
          },
      ),
    ],
  },
];
