import { createHash } from "node:crypto";
import { AlreadyExistsError, formatIdentity, isJsonObject, type JsonObject } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import { type DirectorTables, type DirectorTransaction, taskKey, vendorCallKey } from "../store/schema.js";

/** Maximum remembered calls. It is exceeded only while more calls have unfinished tasks. */
const MAX_REMEMBERED = 10_000;

type Caller = Pick<CallContext, "identity">;

/** The parts of a call that a repetition must have in common with the first call. */
export interface RepeatableCall {
  /** Empty for a call that is not remembered. */
  readonly requestId: string;
  readonly target: object;
  readonly method: string;
  readonly httpMethod: string;
  readonly args: JsonObject;
}

/**
 * Returns the id of the task that an earlier call of the caller with the same request id started; undefined for none.
 * Throws AlreadyExistsError when the earlier call differs. Secret arguments are not compared.
 */
export function earlierTask(
  { vendorCalls }: Pick<DirectorTables, "vendorCalls">,
  caller: Caller,
  call: RepeatableCall,
): number | undefined {
  if (call.requestId === "") return undefined;
  const earlier = vendorCalls.last("byRequest", requestOf(caller, call));
  if (earlier === undefined) return undefined;
  const { taskId, digest, secretArgs } = earlier;
  if (digest === digestOf(call, secretArgs)) return taskId;
  throw new AlreadyExistsError(
    `request_id ${call.requestId} belongs to another call, which started task ${taskId}: choose another one`,
    { about: { request_id: call.requestId, task_id: String(taskId) } },
  );
}

/** Remembers the call that starts the task, and forgets the oldest calls whose tasks have ended. */
export function rememberCall(
  { vendorCalls, tasks }: Pick<DirectorTransaction, "vendorCalls" | "tasks">,
  caller: Caller,
  call: RepeatableCall,
  { taskId, secretArgs }: { readonly taskId: number; readonly secretArgs: readonly string[] },
): void {
  if (call.requestId === "") return;
  vendorCalls.put({ taskId, request: requestOf(caller, call), digest: digestOf(call, secretArgs), secretArgs });
  for (const { taskId: oldest } of vendorCalls.entries()) {
    if (vendorCalls.size <= MAX_REMEMBERED) return;
    if (!tasks.has(taskKey(oldest))) vendorCalls.delete(vendorCallKey(oldest));
  }
}

/** A request id has no spaces, so the parts cannot be confused. */
function requestOf({ identity }: Caller, { requestId }: RepeatableCall): string {
  return `${formatIdentity(identity)} ${requestId}`;
}

function digestOf({ target, method, httpMethod, args }: RepeatableCall, secretArgs: readonly string[]): string {
  const compared = Object.entries(args).filter(([name]) => !secretArgs.includes(name));
  const text = sortedJson([target, method, httpMethod, Object.fromEntries(compared)]);
  return createHash("sha256").update(text).digest("hex");
}

/** Returns JSON with sorted keys, because some clients send the fields of a google.protobuf.Struct in random order. */
function sortedJson(value: unknown): string {
  return JSON.stringify(value, (_name, inner: unknown) =>
    isJsonObject(inner) ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1))) : inner,
  );
}
