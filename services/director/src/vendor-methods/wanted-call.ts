import type { JsonObject } from "@diskmesh/domain";
import type { Task } from "../store/task.js";
import type { VendorMethod } from "./vendor-method.js";

export type Target =
  | { readonly kind: "node"; readonly nodeId: string }
  | { readonly kind: "driver"; readonly driver: string };

/** A requested method call. */
export interface WantedCall {
  readonly target: Target;
  readonly method: string;
  readonly httpMethod: string;
  readonly args: JsonObject;
  /** Waits for the node's lock instead of failing. */
  readonly wait: boolean;
  /** A repeated call with the caller's id gets the task of the first call. Empty for none. */
  readonly requestId: string;
  /** Throws unless the caller may call the method. Called before anything is begun. */
  readonly authorise: (method: VendorMethod) => void;
}

export type PassthruOutcome =
  /** The value is JSON or a Buffer. */
  | { readonly async: false; readonly value: unknown; readonly method: VendorMethod }
  | { readonly async: true; readonly task: Task };
