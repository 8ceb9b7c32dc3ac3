import type { JsonObject } from "@diskmesh/domain";
import { KeptCalls } from "@diskmesh/driver/host";
import type { JobOf } from "../store/task.js";

type CallJob = JobOf<"call_vendor_method">;

/**
 * In-memory state of asynchronous calls: secret arguments, and the calls begun by the director's own drivers. The state
 * ends with this process, as the driver processes do.
 */
export class CallMemory {
  readonly #secrets = new Map<number, JsonObject>();
  readonly kept = new KeptCalls();

  keepSecrets(taskId: number, secrets: JsonObject): void {
    if (Object.keys(secrets).length > 0) this.#secrets.set(taskId, secrets);
  }

  /**
   * Returns the arguments with their secrets; undefined when the secrets were held by a director process that has
   * ended.
   */
  argsOf(taskId: number, { args, secretArgs }: CallJob): JsonObject | undefined {
    if (secretArgs.length === 0) return args;
    const secrets = this.#secrets.get(taskId);
    return secrets && { ...args, ...secrets };
  }

  forget(taskId: number): void {
    this.#secrets.delete(taskId);
    this.kept.forget(String(taskId));
  }
}
