import {
  beginDraining,
  bind,
  type CopyRequest,
  cut,
  endOfFailed,
  type Holder,
  type HolderOrder,
  type HolderWord,
  isCleanEnd,
  isRecorded,
  isServing,
  type Leg,
  nextFilling,
  nextStep,
  noteCopied,
  noteError,
  noteFlushed,
  noteHeard,
  noteRecorded,
  noteRequestFailed,
  noteSettled,
  noteSilence,
  noteSuperseded,
  noteTouched,
  readLeg,
  recordFor,
  recovered,
  takeOrder,
  wordsOf,
} from "@diskmesh/disk-agent/simulation";
import type { DeviceId, DiskId, HostId } from "@diskmesh/domain";
import { Connections } from "./connections.js";
import { mustEndFirst } from "./locks.js";
import { BLOCKS, type CopyWorld, type Io, type IoAnswer, REGISTRY, type Said } from "./parts.js";

const TICK_MS = 1_000;
const PING_AFTER_MS = 900;
const WORD_AGAIN_MS = 1_500;
/** Time after which a held request fails. */
const COPY_WAIT_TIMEOUT_MS = 12_000;

/** A request of a user, from its beginning until no copy of it is on its way. */
interface Running {
  request: CopyRequest;
  readonly value: number;
  readonly beganMs: number;
  /** Contents that a read got, by device. */
  readonly values: Map<DeviceId, number>;
  isAnswered: boolean;
  /** Undefined for a failure. */
  readonly answered: (value: number | undefined) => void;
}

/** Returns whether a leg goes on in its new use; one that counted and is to be filled begins anew. */
const isSameUse = (now: Leg["use"], before: Leg["use"]): boolean => now === before || now === "COUNTS";

type Ended = (end: { readonly revision: number; readonly isClean: boolean }) => void;

/** A holder as it runs in an agent, or in the kernel of its host. */
export class HolderRun {
  holder: Holder;
  /** False while the agent is away that tells the registry. */
  hasAgent = true;
  isGone = false;
  #running: Running[] = [];
  readonly #connections = new Connections();
  readonly #saidAtMs = new Map<string, number>();
  readonly #begun = new Set<number>();
  #confirmed = 0;
  #step = 1;
  #ending: Ended | undefined;
  /** Number of agents that have ended, and taken their records along. */
  #agents = 0;

  constructor(
    private readonly world: CopyWorld,
    readonly hostId: HostId,
    readonly diskId: DiskId,
    order: HolderOrder,
  ) {
    this.holder = takeOrder(diskId, undefined, order, world.timeline.nowMs);
    this.#tick();
  }

  get session(): number {
    return this.holder.session;
  }

  /** Returns whether users may send requests. */
  get isOpen(): boolean {
    return !this.isGone && this.#ending === undefined && !this.holder.isOver;
  }

  follow(order: HolderOrder): void {
    this.#become(takeOrder(this.diskId, this.holder, order, this.world.timeline.nowMs));
    this.#go();
  }

  /** Ends the connections of legs that are gone. */
  #become(holder: Holder): void {
    if (holder === this.holder) return;
    const before = this.#legs();
    this.holder = holder;
    const now = this.#legs();
    for (const { deviceId, session, use } of before)
      if (!now.some((leg) => leg.deviceId === deviceId && leg.session === session && isSameUse(leg.use, use)))
        this.#reconnect(deviceId);
  }

  request(kind: CopyRequest["kind"], part: number, block: number, value: number, answered: Running["answered"]): void {
    const request = { kind, part, block, answers: new Map() };
    const beganMs = this.world.timeline.nowMs;
    this.#running.push({ request, value, beganMs, values: new Map(), isAnswered: false, answered });
    this.#go();
  }

  /** Ends once all requests have ended and all copies are flushed. */
  end(answered: Ended): void {
    this.#ending = answered;
    this.#go();
  }

  /** The process or machine is gone: no request is answered any more. */
  vanish(): void {
    this.isGone = true;
  }

  /** The agent ends, and the kernel goes on: records that were on their way are lost. */
  loseAgent(): void {
    this.hasAgent = false;
    this.#agents += 1;
    this.#connections.loseRecords();
  }

  /** The agent has restarted, and the kernel went on. */
  recover(): void {
    this.holder = recovered(this.holder);
    this.#saidAtMs.clear();
    this.#confirmed = 0;
    this.hasAgent = true;
    this.#go();
  }

  #tick(): void {
    if (this.isGone) return;
    const { nowMs } = this.world.timeline;
    const heard = new Set(this.#legs().flatMap(({ deviceId, failure }) => (failure === undefined ? deviceId : [])));
    this.holder = noteSilence(this.holder, nowMs);
    for (const { deviceId, failure } of this.#legs())
      if (failure === "silent" && heard.has(deviceId)) this.#reconnect(deviceId);
    for (const [part, { legs }] of this.holder.parts.entries())
      for (const { deviceId, heardAtMs } of legs)
        if (nowMs - heardAtMs >= PING_AFTER_MS) this.#io(part, deviceId, { kind: "ping" }, () => {});
    for (const running of this.#running)
      if (!running.isAnswered && nowMs - running.beganMs >= COPY_WAIT_TIMEOUT_MS) {
        running.isAnswered = true;
        this.#running = this.#running.filter((each) => each !== running);
        this.holder = noteRequestFailed(this.holder);
        running.answered(undefined);
      }
    this.#go();
    this.world.after(TICK_MS, () => this.#tick());
  }

  #legs(): readonly Leg[] {
    return this.holder.parts.flatMap(({ legs }) => legs);
  }

  #legOf(part: number, deviceId: DeviceId): Leg | undefined {
    return this.holder.parts[part]?.legs.find((leg) => leg.deviceId === deviceId);
  }

  /** Begins a new connection: requests that are on their way are sent again, and never land after that. */
  #reconnect(deviceId: DeviceId): void {
    this.#connections.renew(deviceId);
    for (const running of this.#running)
      if (running.request.answers.get(deviceId) === "sent") this.#answers(running, (all) => all.delete(deviceId));
  }

  #answers(running: Running, change: (answers: Map<DeviceId, "sent" | "done">) => void): void {
    const answers = new Map(running.request.answers);
    change(answers);
    running.request = { ...running.request, answers };
  }

  #io(part: number, deviceId: DeviceId, io: Io, done: (value: number) => void): void {
    const { world } = this;
    const session = this.#legOf(part, deviceId)?.session ?? this.session;
    const connection = this.#connections.numberOf(deviceId);
    const step = ++this.#step;
    if (io.kind === "write") this.holder = noteTouched(this.holder, part, deviceId, step);
    const answered = (answer: IoAnswer): void => {
      if (this.isGone || connection !== this.#connections.numberOf(deviceId)) return;
      const before = this.#legOf(part, deviceId)?.failure;
      this.#heard(part, deviceId, io, step, answer, done);
      if (io.kind !== "ping" || this.#running.length > 0 || before !== this.#legOf(part, deviceId)?.failure) this.#go();
    };
    const drive = world.driveOf(deviceId);
    const agent = this.#agents;
    const isLost = (): boolean => io.kind === "record" && agent !== this.#agents;
    const send = (answer: (answer: IoAnswer) => void) => isLost() || drive.io(session, connection, io, answer);
    world.io(this.hostId, deviceId, send, (answer) => isLost() || answered(answer));
  }

  #heard(
    part: number,
    deviceId: DeviceId,
    io: Io,
    step: number,
    answer: IoAnswer,
    done: (value: number) => void,
  ): void {
    if (answer.is === "superseded") {
      const isUsed = this.holder.parts[part]?.legs.some((leg) => leg.deviceId === deviceId && leg.use === "COUNTS");
      this.holder = isUsed ? noteSuperseded(this.holder) : noteError(this.holder, part, deviceId);
      this.#reconnect(deviceId);
      return;
    }
    const { bootId } = answer;
    this.holder = noteHeard(this.holder, part, deviceId, { bootId, nowMs: this.world.timeline.nowMs });
    const leg = this.#legOf(part, deviceId);
    if (answer.is === "failed") this.holder = noteError(this.holder, part, deviceId);
    if (leg !== undefined && (leg.failure !== undefined || answer.is === "failed")) this.#reconnect(deviceId);
    if (leg === undefined || leg.failure !== undefined || answer.is !== "done") return;
    if (io.kind === "write") this.holder = noteTouched(this.holder, part, deviceId, ++this.#step);
    if (io.kind === "flush" || io.kind === "record") this.holder = noteFlushed(this.holder, part, deviceId, step);
    done(answer.value);
  }

  /** Does all that can be done now. */
  #go(): void {
    if (this.isGone) return;
    this.#noteServing();
    this.#become(endOfFailed(this.holder));
    this.holder = beginDraining(this.holder);
    const wasCut = this.holder.snapshot?.phase === "cut";
    const inFlight = this.#running.filter(({ request }) => request.kind === "write" && request.answers.size > 0);
    this.holder = cut(this.holder, inFlight.length);
    if (!wasCut && this.holder.snapshot?.phase === "cut")
      this.world.watch.cut(this.diskId, this.holder.snapshot.jobId, this.holder.snapshot.targets);
    const unbound = this.holder;
    this.holder = bind(unbound);
    this.world.watch.equal(unbound, this.holder, this.#running);
    if (this.hasAgent) this.#writeRecords();
    this.#fill();
    for (const running of [...this.#running]) this.#advance(running);
    if (this.hasAgent) this.#say();
    this.#endIfDone();
  }

  #writeRecords(): void {
    for (const [part, { legs, layout }] of this.holder.parts.entries())
      for (const leg of legs) {
        const { deviceId } = leg;
        if (leg.failure !== undefined || isRecorded(leg, layout)) continue;
        const record = recordFor(this.holder, part, leg);
        // One at a time: an older record must not land after a later one.
        this.#connections.once(`${deviceId} record`, (done) =>
          this.#io(part, deviceId, { kind: "record", record }, () => {
            done();
            this.holder = noteRecorded(this.holder, part, deviceId, record.layout);
          }),
        );
      }
  }

  #noteServing(): void {
    for (const [part, each] of this.holder.parts.entries())
      if (!this.#begun.has(part) && isServing(this.holder, each)) {
        this.#begun.add(part);
        this.world.watch.chosen(this.diskId, part, this);
      }
  }

  #fill(): void {
    for (const [part, { legs }] of this.holder.parts.entries())
      for (const leg of legs) {
        const next = nextFilling(this.holder, part, leg);
        if (next === "flush")
          this.#flush(part, leg, () => {
            this.holder = noteSettled(this.holder, part, leg.deviceId);
          });
        else if (next !== undefined) this.#copy(part, leg, next.block);
      }
  }

  #flush(part: number, { deviceId }: Leg, flushed: () => void): void {
    this.#connections.once(`${deviceId} flush`, (done) =>
      this.#io(part, deviceId, { kind: "flush" }, () => {
        done();
        flushed();
      }),
    );
  }

  #copy(part: number, { deviceId }: Leg, block: number): void {
    const source = readLeg(this.holder, part);
    if (source === undefined || this.#isLocked(part, block, undefined)) return;
    // Once it is read, the copy depends on its target alone: a write on its way lands whatever becomes of the source.
    const connections = this.#connections;
    const writing = `${deviceId} copy`;
    if (connections.isBegun(writing)) return;
    const connection = connections.numberOf(deviceId);
    connections.once(`${writing} ${source.deviceId}`, (noteRead) => {
      const unlockRead = connections.lock([source.deviceId, deviceId], part, block);
      this.#io(part, source.deviceId, { kind: "read", block }, (value) => {
        if (connection !== connections.numberOf(deviceId)) return;
        noteRead();
        unlockRead();
        connections.once(writing, (done) => {
          const unlock = connections.lock([deviceId], part, block);
          this.#io(part, deviceId, { kind: "write", block, value }, () => {
            done();
            unlock();
            this.holder = noteCopied(this.holder, part, deviceId, { block, blocks: BLOCKS });
          });
        });
      });
    });
  }

  #isLocked(part: number, block: number, before: Running | undefined): boolean {
    if (this.#connections.isLocked(part, block)) return true;
    const earlier = before === undefined ? this.#running : this.#running.slice(0, this.#running.indexOf(before));
    return earlier.some(({ request }) => mustEndFirst(request, { kind: before?.request.kind, part, block }));
  }

  #advance(running: Running): void {
    const { request } = running;
    const { kind, part, block, answers } = request;
    if (kind !== "flush" && answers.size === 0 && this.#isLocked(part, block, running)) return;
    const step = nextStep(this.holder, request, this.world.timeline.nowMs);
    if (step.does === "wait") return;
    if (step.does === "send") {
      for (const deviceId of step.to) this.#send(running, deviceId);
      return;
    }
    this.#running = this.#running.filter((each) => each !== running);
    if (running.isAnswered) return;
    running.isAnswered = true;
    if (step.does === "fail") this.holder = noteRequestFailed(this.holder);
    if (step.does === "acknowledge" && kind === "read") this.world.watch.readFrom(this.diskId, part, step.by);
    running.answered(step.does === "fail" ? undefined : (running.values.get(step.by) ?? 0));
  }

  #send(running: Running, deviceId: DeviceId): void {
    const { kind, part, block } = running.request;
    this.#answers(running, (answers) => answers.set(deviceId, "sent"));
    const io: Io =
      kind === "flush" ? { kind } : kind === "read" ? { kind, block } : { kind, block, value: running.value };
    this.#io(part, deviceId, io, (value) => {
      running.values.set(deviceId, value);
      this.#answers(running, (answers) => answers.set(deviceId, "done"));
    });
  }

  #say(): void {
    const { diskId, world } = this;
    const { session, revision } = this.holder;
    for (const word of wordsOf(this.holder)) {
      if (word.says === "FOLLOWING" && this.#confirmed >= revision) continue;
      const key = `${revision} ${JSON.stringify(word)}`;
      if ((this.#saidAtMs.get(key) ?? Number.NEGATIVE_INFINITY) > world.timeline.nowMs - WORD_AGAIN_MS) continue;
      this.#saidAtMs.set(key, world.timeline.nowMs);
      this.#tell({ ...word, diskId, session, revision } as Said, word);
    }
  }

  #tell(said: Said, { says }: HolderWord): void {
    const { world } = this;
    world.call<HolderOrder | undefined>(
      this.hostId,
      REGISTRY,
      (answer) => world.registry.hear(said, answer),
      (order) => {
        if (this.isGone || !this.hasAgent) return;
        if (says === "FOLLOWING") this.#confirmed = Math.max(this.#confirmed, said.revision);
        if (order !== undefined) this.follow(order);
      },
    );
  }

  #endIfDone(): void {
    if (this.#ending === undefined) return;
    if (!this.holder.isOver && this.#running.some(({ isAnswered }) => !isAnswered)) return;
    const isClean = this.#running.length === 0 && isCleanEnd(this.holder);
    if (!isClean && !this.holder.isOver && !this.holder.hasFailed) {
      for (const [part, { legs }] of this.holder.parts.entries())
        for (const leg of legs) if (leg.use === "COUNTS" && leg.flushed < leg.touched) this.#flush(part, leg, () => {});
      return;
    }
    const answered = this.#ending;
    this.#ending = undefined;
    this.isGone = true;
    answered({ revision: this.holder.revision, isClean });
  }
}
