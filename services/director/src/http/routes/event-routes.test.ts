import { rejection } from "@diskmesh/domain/testing";
import { expect } from "chai";
import type { NumberedEvent } from "../../store/director-event.js";
import type { HttpCall } from "../route.js";
import { eventRoutes } from "./event-routes.js";

const READ_AT_ONCE = 500;
const PAGE_SIZE = 200;

/** Requests the newest of `count` events as a team member. `isOwn` selects the events of the team. */
function teamAsks(count: number, isOwn: (eventId: number) => boolean, signal = new AbortController().signal) {
  let reads = 0;
  const eventOf = (eventId: number): NumberedEvent => ({
    eventId,
    parentId: 0,
    timeMs: eventId,
    user: "ann",
    action: "update",
    objectType: "deployment",
    objectName: "x",
    taskId: 0,
    deployment: isOwn(eventId) ? "own" : "other",
    instance: "",
    context: {},
    error: "",
    answer: "OK",
    requestId: "",
    traceId: "",
    authentication: "",
  });
  const events = {
    bounds: async () => ({ first: 0, next: count }),
    readBelow: async (index: number) => {
      reads += 1;
      return Array.from({ length: Math.min(READ_AT_ONCE, index) }, (_, place) => eventOf(index - place));
    },
  };
  const deployments = { entries: () => [{ name: "own", teams: ["a"] }, { name: "other" }] };
  const http = {
    context: {
      events,
      tablet: { read: async (look: (tables: object) => unknown) => look({ deployments }) },
    },
    call: { signal },
    query: new URLSearchParams(),
    may: (_operation: string, teams: readonly string[]) => teams.includes("a"),
  } as unknown as HttpCall;
  const [list] = eventRoutes;
  const told = async (): Promise<number[]> => {
    const answer = await list?.serve(http);
    return (JSON.parse(String(answer?.body)) as { id: string }[]).map(({ id }) => Number(id));
  };
  return { told, reads: () => reads };
}

describe("events for a team", () => {
  it("few events of the team among many others -> each event is read about once", async () => {
    const count = 5_000;
    const { told, reads } = teamAsks(count, (eventId) => eventId > count - PAGE_SIZE + 1 || eventId === 1);
    const own = Array.from({ length: PAGE_SIZE - 1 }, (_, place) => count - place);
    expect(await told()).to.deep.equal([...own, 1]);
    expect(reads()).to.be.at.most(count / READ_AT_ONCE + 2);
  });

  it("more events of the team than a page holds -> the newest", async () => {
    const { told } = teamAsks(1_000, (eventId) => eventId % 2 === 0);
    expect(await told()).to.deep.equal(Array.from({ length: PAGE_SIZE }, (_, place) => 1_000 - 2 * place));
  });

  it("the caller disconnects -> no more events are read", async () => {
    const abort = new AbortController();
    const { told, reads } = teamAsks(1_000_000, () => false, abort.signal);
    abort.abort(new Error("gone"));
    expect(await rejection(told())).to.have.property("message", "gone");
    expect(reads()).to.equal(0);
  });
});
