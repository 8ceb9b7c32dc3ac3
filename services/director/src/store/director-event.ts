/** An audit event. An action has a start event and an end event, which names the start event as its parent. */
export interface DirectorEvent {
  readonly timeMs: number;
  /** The start event of an end event, or the enclosing event; 0 for none. */
  readonly parentId: number;
  readonly user: string;
  /** E.g. "create". */
  readonly action: string;
  /** E.g. "vm". */
  readonly objectType: string;
  /** The object's id; empty while the object has none. */
  readonly objectName: string;
  /** 0 for none. */
  readonly taskId: number;
  readonly deployment: string;
  /** The instance as group/instance_id. */
  readonly instance: string;
  readonly context: Readonly<Record<string, string>>;
  /** The error of an end event; empty for success. */
  readonly error: string;
  /** The answer of an end event or a call: "OK", or an error reason. */
  readonly answer: string;
  readonly requestId: string;
  readonly traceId: string;
  /** The caller's authentication method. */
  readonly authentication: string;
}

export type Asker = Pick<DirectorEvent, "user" | "requestId" | "traceId" | "authentication">;

/**
 * An event recorded in the transaction of its call. The event moves to the event log once the transaction is durable.
 */
export interface UntoldEvent {
  readonly noteId: number;
  readonly event: string;
}

export interface NumberedEvent extends DirectorEvent {
  /** Counts up from 1. */
  readonly eventId: number;
}
