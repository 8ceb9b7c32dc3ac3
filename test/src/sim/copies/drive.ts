import { latestRecord, type RecordSlots, slotToWrite } from "@diskmesh/disk-agent/simulation";
import type { CopyRecord, DeviceId, DiskId, HostId } from "@diskmesh/domain";
import { BLOCKS, type CopyWorld, ERASED, type Io, type IoAnswer } from "./parts.js";

/** Record of a drive that has no bytes of a disk. */
const NOBODYS: CopyRecord = {
  diskId: "none" as DiskId,
  part: 0,
  layout: 0,
  session: 0,
  counting: [],
  remembered: [],
  copying: [],
  own: "FREED",
};

/** A drive of a machine: its page cache, its records, and the session that its agent remembers. */
export class Drive {
  contents: number[] = Array.from({ length: BLOCKS }, () => ERASED);
  durable: number[] = [...this.contents];
  slots: RecordSlots = [undefined, undefined];
  session = 0;
  #eraseSession = 0;
  #connection = 0;
  /** Requests that hang, in their order. */
  #hanging: (() => void)[] = [];
  isHanging = false;
  isFailing = false;
  /** Time of the failure that lasts for good: no order is carried out, and no request. */
  diedAtMs: number | undefined;

  constructor(
    private readonly world: CopyWorld,
    readonly deviceId: DeviceId,
    readonly hostId: HostId,
    private readonly boot: () => string,
  ) {}

  get bootId(): string {
    return this.boot();
  }

  /** Runs the work after all that hangs on the drive before it. */
  #inTurn(work: () => void): void {
    if (this.diedAtMs !== undefined) return;
    if (this.isHanging) this.#hanging.push(work);
    else work();
  }

  look(answered: (record: CopyRecord | undefined) => void): void {
    this.#inTurn(() => answered(this.ownRecord));
  }

  die(): void {
    this.goOn();
    this.diedAtMs = this.world.timeline.nowMs;
  }

  hang(): void {
    this.isHanging = true;
  }

  goOn(): void {
    this.isHanging = false;
    const hanging = this.#hanging;
    this.#hanging = [];
    for (const work of hanging) work();
  }

  get record(): CopyRecord | undefined {
    return latestRecord(this.slots);
  }

  /** Returns the record of a disk's bytes; undefined where no disk has any. */
  get ownRecord(): CopyRecord | undefined {
    return this.record?.diskId === NOBODYS.diskId ? undefined : this.record;
  }

  /** Lets nobody but the holder of the session touch the bytes, once what was begun before has ended. */
  open(session: number, answered: (granted: boolean, highest: number) => void): void {
    this.#inTurn(() => {
      if (session < this.session) {
        answered(false, this.session);
        return;
      }
      if (session > this.session) this.#connection = 0;
      this.session = session;
      // The session lies beside the bytes, so that an agent without its memory keeps the fence.
      this.writeRecord({ ...(this.record ?? NOBODYS), session });
      answered(true, session);
    });
  }

  io(session: number, connection: number, io: Io, answered: (answer: IoAnswer) => void): void {
    if (this.diedAtMs !== undefined) answered({ is: "failed", bootId: this.bootId });
    this.#inTurn(() => {
      const { bootId } = this;
      if (session !== this.session) {
        answered({ is: "superseded", bootId });
        return;
      }
      // A new connection ends the former one, so that nothing lands that was sent again meanwhile.
      if (connection < this.#connection) return;
      this.#connection = connection;
      if (this.isFailing && io.kind !== "ping") {
        answered({ is: "failed", bootId });
        return;
      }
      answered({ is: "done", value: this.#do(io), bootId });
    });
  }

  #do(io: Io): number {
    switch (io.kind) {
      case "read":
        return this.contents[io.block] ?? ERASED;
      case "write":
        this.contents[io.block] = io.value;
        return io.value;
      case "flush":
        this.durable = [...this.contents];
        return 0;
      case "record":
        this.durable = [...this.contents];
        this.writeRecord(io.record);
        return 0;
      case "ping":
        return 0;
    }
  }

  writeRecord(record: CopyRecord): void {
    const { index, written } = slotToWrite(this.slots);
    const slot = { written, record };
    this.slots = index === 0 ? [slot, this.slots[1]] : [this.slots[0], slot];
  }

  /**
   * Erases the bytes and, last, the records, under a session for nobody. A store that was copied back may issue the number of
   * a holder anew, so no session that was opened for another purpose erases.
   */
  erase(session: number, answered: (isErased: boolean, highest: number) => void): void {
    if (session === this.session && session !== this.#eraseSession) {
      answered(false, this.session);
      return;
    }
    this.#eraseSession = session;
    this.open(session, (granted, highest) => {
      if (!granted) {
        answered(false, highest);
        return;
      }
      const { record } = this;
      if (record !== undefined) this.writeRecord({ ...record, own: "FREED" });
      this.contents = this.contents.map(() => ERASED);
      this.durable = [...this.contents];
      this.writeRecord({ ...NOBODYS, session });
      answered(true, session);
    });
  }

  /** The machine loses its power: of what was not flushed, any block may be lost. A record may be torn. */
  losePower(): void {
    const { random } = this.world;
    this.goOn();
    this.world.watch.losesPower(this);
    this.durable = this.contents.map((value, block) => (random.chance(0.5) ? value : (this.durable[block] ?? value)));
    this.contents = [...this.durable];
    if (random.chance(0.3)) this.#tear();
  }

  #tear(): void {
    const { index } = slotToWrite(this.slots);
    this.slots = index === 0 ? [undefined, this.slots[1]] : [this.slots[0], undefined];
  }

  /** The agent has lost its memory: what the record says is left. */
  forget(): void {
    this.session = this.record?.session ?? 0;
  }
}
