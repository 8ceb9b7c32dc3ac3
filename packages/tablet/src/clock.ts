/** Time as a tablet uses it: monotonic, and injected so that a simulation can be its clock. */
export interface TabletClock {
  nowMs(): number;
  /** Calls back once when the time has passed. Returns what cancels it. */
  after(delayMs: number, action: () => void): () => void;
}

/** The process's own monotonic clock. A timer alone does not keep the process running. */
export const monotonicClock: TabletClock = {
  nowMs: () => performance.now(),
  after(delayMs, action) {
    const timer = setTimeout(action, delayMs);
    timer.unref();
    return () => clearTimeout(timer);
  },
};
