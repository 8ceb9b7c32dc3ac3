/**
 * State of a device file's descriptor.
 *     closed    no descriptor, and no open in progress
 *     opening   an open is in progress
 *     open      I/O may use the descriptor
 *     draining  running I/O may use it, new I/O may not
 *     closing   a close is in progress
 */
export type HoldingPhase = "closed" | "opening" | "open" | "draining" | "closing";

/** `changed`: the wanted devices or the I/O in flight may have changed. */
export type HoldingEvent = "changed" | "opened" | "open_failed" | "closed";

export interface HoldingFacts {
  /** True when a device on the file needs it open. */
  readonly wanted: boolean;
  /** True when no I/O uses the descriptor. */
  readonly idle: boolean;
}

/**
 * Returns the next phase of a device file, and the action that leads there. Throws for an event that is impossible in
 * the phase. Ensures that opens and closes never overlap, and that the file is not closed while I/O uses it.
 */
export function nextHolding(
  phase: HoldingPhase,
  event: HoldingEvent,
  facts: HoldingFacts,
): { phase: HoldingPhase; effect?: "open" | "close" } {
  switch (`${phase}/${event}` as const) {
    case "closed/changed":
    case "closing/closed":
      return facts.wanted ? { phase: "opening", effect: "open" } : { phase: "closed" };
    case "opening/open_failed":
      return { phase: "closed" };
    case "opening/changed":
    case "closing/changed":
      return { phase };
    case "opening/opened":
    case "open/changed":
    case "draining/changed":
      if (facts.wanted) return { phase: "open" };
      return facts.idle ? { phase: "closing", effect: "close" } : { phase: "draining" };
    default:
      throw new Error(`a device file in phase ${phase} got the impossible event ${event}`);
  }
}
