/**
 * State of a device file's descriptor.
 * closed    there is none, and no open is under way
 * opening   an open is under way
 * open      I/O may use it
 * draining  running I/O may use it, new I/O may not
 * closing   a close is under way
 */
export type HoldingPhase = "closed" | "opening" | "open" | "draining" | "closing";

/** `changed` means that the wanted devices, or the I/O in flight, may have changed. */
export type HoldingEvent = "changed" | "opened" | "open_failed" | "closed";

export interface HoldingFacts {
  /** A device on the file is to be held. */
  readonly wanted: boolean;
  /** No I/O uses the descriptor. */
  readonly idle: boolean;
}

/**
 * Returns the next phase of a device file, and the action that leads there. Throws on an event that the table lacks.
 * Above all, the file is not opened during another open or close, and not closed while I/O uses it.
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
      throw new Error(`a device file cannot be ${phase} when it is ${event}`);
  }
}
