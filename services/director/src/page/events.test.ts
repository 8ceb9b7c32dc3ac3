import { expect } from "chai";
import type { NumberedEvent } from "../store/director-event.js";
import { eventsOf } from "./events.js";

type Context = Parameters<typeof eventsOf>[0];
type Filters = Parameters<typeof eventsOf>[1];

const FILTERS: Filters = {
  ...{ thing: "", user: "", action: "", answer: "", afterTime: undefined, beforeTime: undefined },
  isBrief: false,
};
const DISK = { name: "scratch", diskCid: "cid-1" };

/** Events at these times, newest first. */
const ownEvents = (timesMs: readonly number[], thing = ""): NumberedEvent[] =>
  timesMs.map((timeMs, index) => {
    const texts = { user: "", action: "a", objectType: "disk", objectName: thing, deployment: "", instance: "" };
    return { ...texts, eventId: timesMs.length - index, timeMs, taskId: 0, context: {}, error: "", answer: "OK" };
  }) as never;

interface RegistryRequest {
  readonly pageToken: string;
  readonly pageSize: number;
  readonly thing: string;
  readonly beforeTime: Date | undefined;
}

function contextOf(own: readonly NumberedEvent[], registryTimesMs: readonly number[] | Error, thing = "") {
  const asked: string[] = [];
  const listEvents = async ({ pageToken, pageSize, beforeTime, ...request }: RegistryRequest) => {
    asked.push(request.thing);
    if (registryTimesMs instanceof Error) throw registryTimesMs;
    const matching = registryTimesMs
      .map((timeMs, index) => ({ eventId: registryTimesMs.length - index, timeMs }))
      .filter(({ timeMs }) => timeMs < (beforeTime?.getTime() ?? Infinity) && ["", thing].includes(request.thing));
    const first = Number(pageToken);
    const events = matching.slice(first, first + pageSize).map(({ eventId, timeMs }) => {
      const things = { diskIds: [], hostIds: [], deviceIds: [] };
      return { ...things, eventId, time: new Date(timeMs), user: "", action: "b", answer: "S_OK", message: "" };
    });
    const next = first + pageSize;
    return { events, nextPageToken: next < matching.length ? String(next) : "" };
  };
  const disks = { get: (name: string) => (name === DISK.name ? DISK : undefined), by: () => [DISK] };
  const context = {
    tablet: { read: async (work: (tables: object) => unknown) => work({ disks, persistentDisks: disks }) },
    events: {
      bounds: async () => ({ first: 0, next: own.length }),
      readBelow: async (index: number) => own.filter(({ eventId }) => eventId <= index),
    },
    registries: { named: () => [{ name: "disk-registry", clients: { registry: { listEvents } } }] },
  } as unknown as Context;
  return { context, asked };
}

const { signal } = new AbortController();
const timesOf = async (context: Context, filters: Partial<Filters> = {}) => {
  const { entries, beforeMs } = await eventsOf(context, { ...FILTERS, ...filters }, signal);
  return { times: entries.map(({ timeMs }) => timeMs), beforeMs };
};

describe("events of the director and its registries", () => {
  it("are listed newest first, each once, and none is missed between two answers", async () => {
    const own = Array.from({ length: 250 }, (_, index) => 10_000 - 10 * index);
    // All events of one millisecond are in one answer, even more than a page has.
    const others = [...Array.from({ length: 150 }, () => 9_805), ...Array.from({ length: 150 }, (_, i) => 9_800 - i)];
    const { context } = contextOf(ownEvents(own), others);
    const all: number[] = [];
    let answers = 0;
    for (let beforeMs: number | undefined = Number.MAX_SAFE_INTEGER; beforeMs !== undefined; answers++) {
      const beforeTime = beforeMs > 8e15 ? undefined : new Date(beforeMs);
      const answer: Awaited<ReturnType<typeof timesOf>> = await timesOf(context, { beforeTime });
      all.push(...answer.times);
      ({ beforeMs } = answer);
    }
    expect(all).to.deep.equal([...own, ...others].sort((a, b) => b - a));
    expect(answers).to.be.within(3, 6);
  });

  it("a disk -> the events under its name and under its cid, each once; brief -> the first page of each source", async () => {
    const { context, asked } = contextOf(ownEvents([500, 400], "scratch"), [450], "cid-1");
    expect((await timesOf(context, { thing: "scratch" })).times).to.deep.equal([500, 450, 400]);
    expect(asked).to.deep.equal(["scratch", "cid-1"]);
    const many = contextOf(
      [],
      Array.from({ length: 250 }, (_, index) => 1_000 - index),
    );
    expect((await timesOf(many.context, { isBrief: true })).times).to.have.length(100);
    expect(many.asked).to.have.length(1);
  });

  it("a registry is away -> the events of the others, and what is missing", async () => {
    const { context } = contextOf(ownEvents([500]), new Error("no connection"));
    const { entries, missing } = await eventsOf(context, FILTERS, signal);
    expect(entries.map(({ id }) => id)).to.deep.equal(["director 1"]);
    expect(missing).to.deep.equal(["disk-registry: no connection"]);
  });
});
