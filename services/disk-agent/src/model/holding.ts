/**
 * How far a device file is from being open. Each phase says what is known of the descriptor:
 * closed: there is none, and no open is under way. opening: one may come. open: one is there and I/O may use it.
 * draining: one is there, but nothing new may use it. closing: it is being given back.
 */
export type HoldingPhase = "closed" | "opening" | "open" | "draining" | "closing";

/** `changed`: what is wanted, or what is in flight, may differ from before. */
export type HoldingEvent = "changed" | "opened" | "open_failed" | "closed";

export interface HoldingFacts {
  /** A device on the file is to be held. */
  readonly wanted: boolean;
  /** No I/O uses the descriptor. */
  readonly idle: boolean;
}

/**
 * The next phase of a device file, and what to do to get there. What the table lacks cannot happen and throws: above
 * all, nothing is opened while an open or a close is under way, and nothing is closed while I/O uses it.
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
