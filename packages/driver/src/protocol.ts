import type { JsonObject } from "@diskmesh/domain";
import type { FailureKind, MethodKind } from "./method.js";

/** The file descriptor on which a driver's process writes its answers. */
export const ANSWERS_FD = 3;

/** Maximum length of a progress's text. */
export const MAX_PROGRESS_LENGTH = 200;

/** A message from a host to a driver's process, as a line of JSON. */
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
      /** Validates the arguments without running the method. */
      readonly validateOnly: boolean;
    }
  | { readonly type: "cancel"; readonly id: number; readonly why: string }
  | { readonly type: "ping" }
  | { readonly type: "told"; readonly id: number; readonly value?: unknown; readonly error?: string };

/** A message from a driver's process to its host. */
export type FromDriver =
  | { readonly type: "loaded"; readonly listing: unknown }
  /** The process is about to end, because loading failed or an error was uncaught. */
  | { readonly type: "fatal"; readonly reason: string }
  | { readonly type: "answer"; readonly id: number; readonly value: unknown }
  | { readonly type: "bytes"; readonly id: number; readonly base64: string }
  | { readonly type: "failure"; readonly id: number; readonly kind: FailureKind; readonly message: string }
  | { readonly type: "progress"; readonly id: number; readonly percent: number; readonly text: string }
  | { readonly type: "pong" }
  /** Calls an offer of the host (see DriverOffers). */
  | { readonly type: "ask"; readonly id: number; readonly what: string; readonly args: unknown };
