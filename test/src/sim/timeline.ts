import { type Clock, sleep } from "@diskmesh/domain";

/** An event of the future; `order` breaks ties. */
interface SimEvent {
  atMs: number;
  order: number;
  /** The event is dropped when this process has died. */
  readonly owner: SimProcess | undefined;
  readonly label: string;
  run: (() => void) | undefined;
}

/** Simulated time begins here; real clocks give whole milliseconds. */
const EPOCH_MS = 1_700_000_000_000;

/** All that is still to happen, by time. Time passes only from event to event. */
export class Timeline {
  nowMs = 0;
  readonly #heap: SimEvent[] = [];
  #order = 0;

  /** Has `run` called later. Returns what cancels it. */
  after(delayMs: number, owner: SimProcess | undefined, label: string, run: () => void): () => void {
    const event: SimEvent = { atMs: this.nowMs + delayMs, order: this.#order++, owner, label, run };
    this.#push(event);
    return () => {
      event.run = undefined;
    };
  }

  /** Moves to the next event and returns it; undefined when nothing will ever happen again. */
  next(): { readonly label: string; readonly run: () => void } | undefined {
    for (;;) {
      const event = this.#pop();
      if (event === undefined) return undefined;
      const { run, owner, label } = event;
      if (run === undefined || owner?.alive === false) continue;
      this.nowMs = Math.max(this.nowMs, event.atMs);
      if (owner !== undefined && owner.pausedUntilMs > this.nowMs) {
        event.atMs = owner.pausedUntilMs;
        event.order = this.#order++;
        this.#push(event);
        continue;
      }
      return { label, run };
    }
  }

  #push(event: SimEvent): void {
    const heap = this.#heap;
    let at = heap.length;
    heap.push(event);
    while (at > 0) {
      const parent = (at - 1) >> 1;
      const above = heap[parent] as SimEvent;
      if (!before(event, above)) break;
      heap[at] = above;
      at = parent;
    }
    heap[at] = event;
  }

  #pop(): SimEvent | undefined {
    const heap = this.#heap;
    const first = heap[0];
    const last = heap.pop();
    if (first === undefined || last === undefined || heap.length === 0) return first;
    let at = 0;
    for (;;) {
      const left = 2 * at + 1;
      if (left >= heap.length) break;
      const right = left + 1;
      const child = right < heap.length && before(heap[right] as SimEvent, heap[left] as SimEvent) ? right : left;
      const below = heap[child] as SimEvent;
      if (!before(below, last)) break;
      heap[at] = below;
      at = child;
    }
    heap[at] = last;
    return first;
  }
}

function before(a: SimEvent, b: SimEvent): boolean {
  return a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order);
}

/**
 * One run of a process, from its start to its crash: what it waits for never comes once it is dead, and comes late while
 * it is paused. It is the clock of the code that runs in it.
 */
export class SimProcess implements Clock {
  alive = true;
  pausedUntilMs = 0;

  constructor(
    readonly timeline: Timeline,
    /** The machine that it runs on, for partitions. */
    readonly place: string,
    /** The process's name in the trace. */
    readonly name: string,
  ) {}

  nowMs(): number {
    return EPOCH_MS + Math.floor(this.timeline.nowMs);
  }

  monotonicMs(): number {
    return this.timeline.nowMs;
  }

  after(delayMs: number, action: () => void): () => void {
    return this.timeline.after(delayMs, this, "", action);
  }

  /** Whatever else is due at this moment is another turn. */
  afterTurn(action: () => void): void {
    // A tick that is queued among microtasks comes after all of them.
    queueMicrotask(() => process.nextTick(action));
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    // Real timers never fire at once.
    return sleep(this, Math.max(1, ms), signal);
  }
}

let ticks = 0;

/** Resolves when everything that was started has come to wait for simulated time. */
export function settled(): Promise<void> {
  return new Promise((resolve) => {
    // A tick that is queued among microtasks comes after all of them. Now and then the event loop gets a turn.
    if (++ticks % 4_096 === 0) setImmediate(resolve);
    else queueMicrotask(() => process.nextTick(resolve));
  });
}
