import type { DiskId } from "@diskmesh/domain";
import type { HolderRun } from "./holder-run.js";
import { BLOCKS, type BlockAt, type CopyWorld } from "./parts.js";
import type { Watch } from "./watch.js";

const MOST_REQUESTS = 4;

/** Users of all disks: they read, write and flush wherever a disk is served, also where it should not be any more. */
export class Users {
  #value = 0;
  /** Holders of which a write has failed. */
  readonly #failed = new WeakSet<HolderRun>();
  readonly #pending = new WeakMap<HolderRun, Set<string>>();

  constructor(
    private readonly world: CopyWorld,
    private readonly watch: Watch,
    /** Writes that wait before users only read and flush. */
    private readonly writesAtOnce: number,
  ) {}

  act(diskId: DiskId, run: HolderRun): void {
    const { random } = this.world;
    const parts = run.holder.parts.length;
    const at = { diskId, part: random.below(parts), block: random.below(BLOCKS) };
    const what = random.next();
    // A file system is read-only after an error.
    if (what < 0.45 && !this.#failed.has(run) && this.#writes(run) < this.writesAtOnce) this.write(run, at);
    else if (what < 0.8) this.read(run, at);
    else this.flush(run, at.part);
  }

  /** Returns whether the user waits for requests. */
  isBusy(run: HolderRun): boolean {
    return this.#of(run).size > 0;
  }

  #writes(run: HolderRun): number {
    return [...this.#of(run)].filter((key) => key.startsWith("write")).length;
  }

  #of(run: HolderRun): Set<string> {
    const pending = this.#pending.get(run) ?? new Set();
    this.#pending.set(run, pending);
    return pending;
  }

  #begin(run: HolderRun, key: string, begin: (done: () => void) => void): void {
    const pending = this.#of(run);
    if (pending.size >= MOST_REQUESTS || pending.has(key)) return;
    pending.add(key);
    begin(() => pending.delete(key));
  }

  write(run: HolderRun, at: BlockAt): void {
    const { part, block } = at;
    this.#begin(run, `write ${part} ${block}`, (done) => {
      const value = ++this.#value;
      const use = this.watch.blockAt(at)?.begin("write", value, this.watch.moment(), run);
      run.request("write", part, block, value, (answer) => {
        done();
        // A write that failed may still come to a copy, until another session begins.
        if (answer === undefined) this.#failed.add(run);
        if (answer === undefined || use === undefined) return;
        use.endsAt = this.watch.moment();
        use.isOptional = false;
        if (this.world.isTraced) this.world.trace(`user: ${at.diskId} ${part}/${block} wrote ${value}`);
      });
    });
  }

  read(run: HolderRun, at: BlockAt): void {
    this.#begin(run, `read ${at.part} ${at.block}`, (done) => this.#read(run, at, done));
  }

  /** Reads, however many requests are under way. */
  readLast(run: HolderRun, at: BlockAt): void {
    const pending = this.#of(run);
    const key = `last ${at.part} ${at.block}`;
    pending.add(key);
    this.#read(run, at, () => pending.delete(key));
  }

  #read(run: HolderRun, at: BlockAt, done: () => void): void {
    const { part, block } = at;
    {
      const use = this.watch.blockAt(at)?.begin("read", 0, this.watch.moment());
      run.request("read", part, block, 0, (value) => {
        done();
        if (value === undefined || use === undefined) return;
        use.endsAt = this.watch.moment();
        use.value = value;
        use.isOptional = false;
        if (this.world.isTraced) this.world.trace(`user: ${at.diskId} ${part}/${block} read ${value}`);
      });
    }
  }

  flush(run: HolderRun, part: number): void {
    this.#begin(run, `flush ${part}`, (done) => {
      const beganAt = this.watch.moment();
      run.request("flush", part, 0, 0, (answer) => {
        done();
        if (answer === undefined) return;
        for (const block of this.watch.histories.get(run.diskId)?.parts[part] ?? [])
          block.flushed(beganAt, this.world.timeline.nowMs);
        if (this.world.isTraced) this.world.trace(`user: ${run.diskId} ${part} flushed`);
      });
    });
  }
}
