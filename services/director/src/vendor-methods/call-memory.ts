import type { JsonObject } from "@diskmesh/domain";
import { KeptCalls } from "@diskmesh/driver/host";
import type { JobOf } from "../store/task.js";

type CallJob = JobOf<"call_vendor_method">;

/**
 * Asynchronous calls' unwritten state: secret arguments, and calls that the director's own drivers have begun. It ends
 * with this director, as the processes of its drivers do.
 */
export class CallMemory {
  readonly #secrets = new Map<number, JsonObject>();
  readonly kept = new KeptCalls();

  keepSecrets(taskId: number, secrets: JsonObject): void {
    if (Object.keys(secrets).length > 0) this.#secrets.set(taskId, secrets);
  }

  /** With those that are secret; undefined when these were known to a director that has ended. */
  argsOf(taskId: number, { args, secretArgs }: CallJob): JsonObject | undefined {
    // Former versions recorded them all.
    if (secretArgs.every((name) => Object.hasOwn(args, name))) return args;
    const secrets = this.#secrets.get(taskId);
    return secrets && { ...args, ...secrets };
  }

  /** The task has ended. */
  forget(taskId: number): void {
    this.#secrets.delete(taskId);
    this.kept.forget(String(taskId));
  }
}
