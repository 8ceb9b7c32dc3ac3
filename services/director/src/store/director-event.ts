/** One line of what was done, by whom: as it begins, and, naming that one as its parent, as it ends. */
export interface DirectorEvent {
  readonly timeMs: number;
  /** The event that this one ends, or is a part of; 0 for none. */
  readonly parentId: number;
  readonly user: string;
  /** E.g. "create". */
  readonly action: string;
  /** E.g. "vm". */
  readonly objectType: string;
  /** The thing's id; empty while it has none. */
  readonly objectName: string;
  /** 0 for none. */
  readonly taskId: number;
  readonly deployment: string;
  /** The instance as group/instance_id. */
  readonly instance: string;
  /** Further fields of the event. */
  readonly context: Readonly<Record<string, string>>;
  /** The error of an end event; empty for success. */
  readonly error: string;
  /** The answer of an end event or a call: "OK", or a reason. */
  readonly answer: string;
  readonly requestId: string;
  readonly traceId: string;
  /** How the caller has shown who it is. */
  readonly authentication: string;
}

/** The caller and the call. */
export type Asker = Pick<DirectorEvent, "user" | "requestId" | "traceId" | "authentication">;

/** An event noted in the transaction of its call; it joins the other events once that is durable. */
export interface UntoldEvent {
  readonly noteId: number;
  readonly event: string;
}

export interface NumberedEvent extends DirectorEvent {
  /** Counts up from 1. */
  readonly eventId: number;
}
