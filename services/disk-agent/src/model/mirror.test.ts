import { leaveToVerify } from "@diskmesh/testkit";
import { expect } from "chai";
import {
  ask,
  type CopyName,
  isAlive,
  isHolding,
  MIRROR_BEGUN,
  type MirrorAnswer,
  type MirrorRequest,
  type MirrorState,
  newRequest,
  nextStep,
  noteAnswer,
  noteCopied,
  noteDecided,
  noteFailure,
  noteOverdue,
  noteSent,
  noteSettled,
} from "./mirror.js";

/** Content that nobody wrote: of the target at first, and of the source once it is released. */
const GARBAGE = 9;
const COPIES = ["source", "target"] as const;

interface Copy {
  /** Value that a read returns. */
  readonly value: number;
  /** Value that is left after a power failure. */
  readonly durable: number;
}

interface Request {
  readonly progress: MirrorRequest;
  /** Value that a write writes. */
  readonly value: number;
  /** Values at the send of a flush, and read ones. */
  readonly seen: Readonly<Partial<Record<CopyName, number>>>;
  readonly answer: "none" | "acknowledged" | "failed";
  /** Values of the block that an acknowledged change or flush excludes; values that a read may return. */
  readonly known: readonly number[];
}

/** A part of one block with a client, the holder and the registry. */
interface World {
  readonly mirror: MirrorState;
  readonly source: Copy;
  readonly target: Copy;
  readonly requests: readonly Request[];
  /** Values that the block may have: the last acknowledged one, then those of later writes. */
  readonly allowed: readonly number[];
  readonly allowedDurable: readonly number[];
  readonly copying: "due" | "reading" | "writing" | "done" | "settling" | "settled";
  readonly copied: number;
  readonly asked: number;
  /** Answer that the registry has heard. */
  readonly heard: MirrorAnswer | undefined;
  /** Copy that counts in the registry's store. */
  readonly stored: CopyName | undefined;
}

/** Requests that a run makes, in this order: a write has a value above 0. */
type Script = readonly { readonly kind: MirrorRequest["kind"]; readonly value: number }[];

function begin(): World {
  const requests: Request[] = [];
  const source = { value: 0, durable: 0 };
  const target = { value: GARBAGE, durable: GARBAGE };
  const copy = { copying: "due" as const, copied: GARBAGE, asked: 0, heard: undefined, stored: undefined };
  return { mirror: MIRROR_BEGUN, source, target, requests, allowed: [0], allowedDurable: [0], ...copy };
}

const isRunning = ({ answer }: Request) => answer === "none";
const isSent = ({ progress }: Request) => COPIES.some((at) => progress[at] === "sent");
const withRequest = (world: World, index: number, change: Partial<Request>): World => ({
  ...world,
  requests: world.requests.map((request, at) => (at === index ? { ...request, ...change } : request)),
});

/** Does what the model says, until it waits for an event. */
function stepped(world: World): World {
  let now = world;
  for (let index = 0; index < now.requests.length; index += 1)
    for (;;) {
      const request = now.requests[index] as Request;
      if (request.answer !== "none") break;
      const step = nextStep(now.mirror, request.progress);
      if (step.does === "wait") break;
      if (step.does === "send")
        for (const to of step.to) {
          const { progress, seen } = now.requests[index] as Request;
          now = withRequest(now, index, {
            progress: noteSent(now.mirror, progress, to),
            seen: progress.kind === "write" ? {} : { ...seen, [to]: now[to].value },
          });
        }
      else now = answered(now, index, step.does === "acknowledge" ? step.by : undefined);
    }
  return now;
}

function answered(world: World, index: number, by: CopyName | undefined): World {
  const { progress, seen, known } = world.requests[index] as Request;
  const answer = by === undefined ? "failed" : "acknowledged";
  // A flush may still end late on the other copy.
  const next = withRequest(world, index, { answer, known: [], ...(progress.kind !== "flush" && { seen: {} }) });
  if (by === undefined) return next;
  const left = (values: readonly number[]) => values.filter((each) => !known.includes(each));
  if (progress.kind === "write") return { ...next, allowed: left(next.allowed) };
  if (progress.kind === "flush") return { ...next, allowedDurable: left(next.allowedDurable) };
  must([...known, ...world.allowed].includes(seen[by] ?? GARBAGE), "a read returns what was written", world);
  return next;
}

/** Returns all worlds that may come next. */
function* nextWorlds(world: World, script: Script): Generator<World> {
  const { mirror, copying, requests } = world;
  yield* newRequests(world, script);
  for (const index of requests.keys())
    for (const at of COPIES) if (requests[index]?.progress[at] === "sent") yield* answers(world, index, at);
  const isLocked = requests.some((each) => isRunning(each) && each.progress.kind === "write");
  if (isAlive(mirror)) {
    if (copying === "due" && !isLocked) yield { ...world, copying: "reading" };
    if (copying === "reading") yield { ...world, copying: "writing", copied: world.source.value };
    if (copying === "writing") yield { ...world, copying: "done", target: { ...world.target, value: world.copied } };
    if (copying === "done") yield { ...world, copying: "settling", mirror: noteCopied(mirror) };
    if (copying === "settling" && !isLocked) yield { ...world, copying: "settled", copied: world.target.value };
    if (copying === "settled" && mirror.phase === "settling")
      yield { ...world, target: flushed(world.target, world.copied), mirror: noteSettled(mirror) };
    yield { ...world, mirror: noteFailure(mirror, "target", "the target does not answer") };
  }
  if (isHolding(mirror))
    for (const [index, request] of requests.entries())
      if (isRunning(request)) yield withRequest(world, index, { progress: noteOverdue(request.progress) });
  yield* registrySteps(world);
}

function* newRequests(world: World, script: Script): Generator<World> {
  const { requests, mirror, copying } = world;
  const next = script[requests.length];
  if (next === undefined) return;
  // The shell excludes writes from each other and from the copy, while both copies matter.
  const isCopied = copying === "reading" || copying === "writing";
  const isLocked = isCopied || requests.some((each) => isRunning(each) && each.progress.kind === "write");
  if (next.kind === "write" && isLocked && isAlive(mirror)) return;
  const known = knownTo(world, next.kind);
  const request: Request = { progress: newRequest(next.kind), value: next.value, seen: {}, answer: "none", known };
  const written = next.kind === "write" ? [next.value] : [];
  yield {
    ...world,
    requests: [...requests, request],
    allowed: [...world.allowed, ...written],
    allowedDurable: [...world.allowedDurable, ...written],
  };
}

function knownTo({ allowed, allowedDurable, requests }: World, kind: MirrorRequest["kind"]): readonly number[] {
  if (kind === "read") return allowed;
  if (kind === "flush") return allowedDurable.filter((each) => !allowed.includes(each));
  // A write that is still under way somewhere may land after this one.
  const mayLand = (each: Request) => isSent(each) && (!each.progress.isOverdue || each.progress.source === "refused");
  const inFlight = requests.filter((each) => isRunning(each) || mayLand(each));
  return allowed.filter((each) => !inFlight.some(({ value }) => value === each));
}

function* answers(world: World, index: number, at: CopyName): Generator<World> {
  const { progress, value, seen } = world.requests[index] as Request;
  for (const is of ["done", "failed", "refused"] as const) {
    const noted = noteAnswer(world.mirror, progress, at, { is, message: `the ${at} has failed` });
    const next = { ...withRequest(world, index, { progress: noted.request }), mirror: noted.state };
    // A failed write may have been done.
    const isDone = is === "done" ? [true] : is === "failed" && progress.kind === "write" ? [true, false] : [false];
    for (const each of isDone) {
      if (!each) yield next;
      else if (progress.kind === "write") yield { ...next, [at]: { ...world[at], value } };
      else if (progress.kind === "flush") yield { ...next, [at]: flushed(world[at], seen[at] ?? GARBAGE) };
      else yield withRequest(next, index, { seen: { ...seen, [at]: world[at].value } });
    }
  }
}

/** A flush that ends late takes nothing back: writes have rising values. */
function flushed(copy: Copy, value: number): Copy {
  return { ...copy, durable: copy.durable === GARBAGE ? value : Math.max(copy.durable, value) };
}

function* registrySteps(world: World): Generator<World> {
  const { mirror, heard, stored } = world;
  if (world.asked < 2 && mirror.counts === undefined) {
    const { state, answer } = ask(mirror);
    if (answer.is !== "copying") yield { ...world, mirror: state, asked: world.asked + 1, heard: answer };
  }
  if (stored === undefined) {
    yield { ...world, stored: "source" };
    const maySwap = heard?.is === "equal" || (heard?.is === "failed" && heard.at === "source");
    if (maySwap) yield { ...world, stored: "target" };
  } else if (mirror.counts === undefined) {
    const released = stored === "target" ? "source" : "target";
    yield { ...world, mirror: noteDecided(mirror, stored), [released]: { value: GARBAGE, durable: GARBAGE } };
  }
}

function must(holds: boolean, rule: string, world: World): void {
  if (!holds) throw new Error(`${rule}: ${JSON.stringify(world)}`);
}

function check(world: World): void {
  const { mirror, requests, stored } = world;
  // A released copy belongs to somebody else, so that late answers there do not matter.
  const counting = world[stored ?? "source"];
  must(world.allowed.includes(counting.value), "the copy that counts has the acknowledged writes", world);
  must(world.allowedDurable.includes(counting.durable), "the copy that counts has the flushed writes", world);
  const isQuiet = !requests.some(isSent);
  must(!isQuiet || isHolding(mirror) || !requests.some(isRunning), "no request waits for nothing", world);
  const waits = requests.some((each) => isRunning(each) && each.progress.isOverdue === true);
  must(!isQuiet || !waits, "no request waits for ever for a decision", world);
}

/** Visits every world that a run of the script can reach. Returns their number. */
function explore(script: Script): number {
  const seen = new Set<string>();
  const due: World[] = [begin()];
  for (let world = due.pop(); world !== undefined; world = due.pop())
    for (const next of nextWorlds(world, script)) {
      const reached = stepped(next);
      const key = JSON.stringify(reached);
      if (seen.has(key)) continue;
      seen.add(key);
      check(reached);
      due.push(reached);
    }
  return seen.size;
}

describe("the mirror of a part, in every order of events", () => {
  const write = (value: number) => ({ kind: "write" as const, value });
  const flush = { kind: "flush" as const, value: 0 };
  const read = { kind: "read" as const, value: 0 };
  for (const [name, script] of Object.entries({
    "two writes": [write(1), write(2)],
    "a write and a flush": [write(1), flush],
    "a write and a read": [write(1), read],
  }))
    it(`${name}: the copy that counts has what was acknowledged, and nothing waits for ever`, function () {
      if (script.some(({ kind }) => kind === "flush")) leaveToVerify(this);
      expect(explore(script)).to.be.above(1_000);
    });
});

describe("the mirror of a part", () => {
  const settled = noteSettled(noteCopied(MIRROR_BEGUN));
  const bound = ask(settled).state;

  it("is EQUAL only after copy and flush, and stays bound", () => {
    expect(ask(MIRROR_BEGUN).answer).to.deep.equal({ is: "copying" });
    expect(ask(noteCopied(MIRROR_BEGUN)).answer).to.deep.equal({ is: "copying" });
    expect(ask(settled).answer).to.deep.equal({ is: "equal" });
    expect(ask(bound)).to.deep.equal({ state: bound, answer: { is: "equal" } });
  });

  it("never becomes EQUAL after a failure", () => {
    const failed = noteFailure(MIRROR_BEGUN, "target", "gone");
    expect(ask(noteSettled(noteCopied(failed))).answer).to.deep.equal({ is: "failed", at: "target", message: "gone" });
    expect(ask(noteFailure(failed, "source", "late")).answer).to.deep.include({ at: "target" });
  });

  it("names the source only once EQUAL was answered", () => {
    expect(ask(noteFailure(settled, "source", "gone")).answer).to.deep.include({ is: "failed", at: undefined });
    expect(ask(noteFailure(bound, "source", "gone")).answer).to.deep.include({ is: "failed", at: "source" });
  });

  it("goes on without the target before EQUAL, and holds all requests back after it", () => {
    const request = newRequest("write");
    expect(nextStep(noteFailure(settled, "target", "gone"), request)).to.deep.equal({ does: "send", to: ["source"] });
    for (const at of COPIES)
      for (const kind of ["read", "write", "flush"] as const)
        expect(nextStep(noteFailure(bound, at, "gone"), newRequest(kind))).to.deep.equal({ does: "wait" });
  });

  it("flushes the source alone while bytes are copied, and both copies later", () => {
    expect(nextStep(MIRROR_BEGUN, newRequest("flush"))).to.deep.equal({ does: "send", to: ["source"] });
    for (const state of [noteCopied(MIRROR_BEGUN), settled, bound])
      expect(nextStep(state, newRequest("flush"))).to.deep.equal({ does: "send", to: ["source", "target"] });
  });

  it("repeats on the copy that counts what failed there before the decision, once", () => {
    const state = noteDecided(noteFailure(bound, "source", "gone"), "source");
    const failed = { ...newRequest("write"), source: "failed" as const, target: "done" as const };
    expect(nextStep(state, failed)).to.deep.equal({ does: "send", to: ["source"] });
    const again = noteSent(state, failed, "source");
    expect(nextStep(state, { ...again, source: "failed" })).to.deep.equal({ does: "fail", by: "source" });
  });

  it("gives an export's client the refusal of the source at once, and holds for that of the target", () => {
    const write = newRequest("write");
    const bySource = noteAnswer(bound, write, "source", { is: "refused", message: "a later session" });
    expect(bySource.state).to.equal(bound);
    expect(nextStep(bySource.state, bySource.request)).to.deep.equal({ does: "fail", by: "source" });
    const byTarget = noteAnswer(bound, write, "target", { is: "refused", message: "a later session" });
    expect(nextStep(byTarget.state, byTarget.request)).to.deep.equal({ does: "wait" });
  });
});
