import { type Clock, sleep } from "@diskmesh/domain";

/** A future event; `order` breaks ties. */
interface SimEvent {
  atMs: number;
  order: number;
  /** Process whose death drops the event; undefined for none. */
  readonly owner: SimProcess | undefined;
  readonly label: string;
  run: (() => void) | undefined;
}

/** Beginning of simulated time. Whole milliseconds, as real clocks return. */
const EPOCH_MS = 1_700_000_000_000;

/** All future events by time. Simulated time advances only from event to event. */
export class Timeline {
  nowMs = 0;
  readonly #heap: SimEvent[] = [];
  #order = 0;

  /** Calls `run` later. Returns a function that cancels the call. */
  after(delayMs: number, owner: SimProcess | undefined, label: string, run: () => void): () => void {
    const event: SimEvent = { atMs: this.nowMs + delayMs, order: this.#order++, owner, label, run };
    this.#push(event);
    return () => {
      event.run = undefined;
    };
  }

  /** Advances to the next event and returns it; undefined when there are no more events. */
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
 * One run of a process, from its start to its crash, and the clock of its code. Its timers never fire after its death,
 * and fire late while it is paused.
 */
export class SimProcess implements Clock {
  alive = true;
  pausedUntilMs = 0;

  constructor(
    readonly timeline: Timeline,
    /** Machine on which it runs, for partitions. */
    readonly place: string,
    /** Name of the process in the trace. */
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

  /** Runs the action after all other events of this moment. */
  afterTurn(action: () => void): void {
    // Queues the tick in a microtask, because such a tick runs after all microtasks.
    queueMicrotask(() => process.nextTick(action));
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    // At least 1 ms, because real timers never fire at once.
    return sleep(this, Math.max(1, ms), signal);
  }
}

let ticks = 0;

/** Resolves when all running code waits for simulated time. */
export function settled(): Promise<void> {
  return new Promise((resolve) => {
    // Queues the tick in a microtask, because such a tick runs after all microtasks. Gives the event loop a turn
    // occasionally.
    if (++ticks % 4_096 === 0) setImmediate(resolve);
    else queueMicrotask(() => process.nextTick(resolve));
  });
}
