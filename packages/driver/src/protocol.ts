import type { JsonObject } from "@diskmesh/domain";
import type { FailureKind, MethodKind } from "./method.js";

/** The pipe of the driver's process that carries its answers. */
export const ANSWERS_FD = 3;

/** A message from a host to a driver's process, a line of JSON each. */
export type ToDriver =
  | {
      readonly type: "load";
      readonly package: string;
      readonly settings: JsonObject;
      readonly nodeId: string;
      readonly maxAnswerBytes: number;
    }
  | {
      readonly type: "call";
      readonly id: number;
      readonly kind: MethodKind;
      readonly method: string;
      readonly httpMethod: string;
      readonly args: JsonObject;
      readonly nodeId: string;
      /** Looks at the arguments, and does nothing. */
      readonly validateOnly: boolean;
    }
  | { readonly type: "cancel"; readonly id: number; readonly why: string }
  | { readonly type: "ping" }
  | { readonly type: "told"; readonly id: number; readonly value?: unknown; readonly error?: string };

/** A message from a driver's process to its host. */
export type FromDriver =
  | { readonly type: "loaded"; readonly listing: unknown }
  /** It will end: it could not be loaded, or something was thrown that nobody caught. */
  | { readonly type: "fatal"; readonly reason: string }
  | { readonly type: "answer"; readonly id: number; readonly value: unknown }
  | { readonly type: "failure"; readonly id: number; readonly kind: FailureKind; readonly message: string }
  | { readonly type: "pong" }
  /** Asks what only the service can do. */
  | { readonly type: "ask"; readonly id: number; readonly what: string; readonly args: unknown };
