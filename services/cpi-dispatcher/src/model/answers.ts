import { type CidKind, cidRule, InvalidCpiResponseError, isCid } from "@diskmesh/cpi";
import { isJsonObject, type JsonObject, MAX_JSON_DEPTH, messageOf, parseJson } from "@diskmesh/domain";
import type { CpiError } from "./cpi-errors.js";
import type { CpiMethod } from "./methods.js";
import type { Negotiated } from "./negotiation.js";

/** A CPI's answer on standard output. */
export interface CpiAnswer {
  readonly result: unknown;
  readonly error: CpiError | undefined;
  readonly log: string;
}

/** Reads an answer; all three keys must be there. Its text is not quoted in errors: it may hold secrets. */
export function parseAnswer(text: string): CpiAnswer {
  let answer: unknown;
  try {
    answer = parseJson("it", text, MAX_JSON_DEPTH);
  } catch (error) {
    throw invalid(messageOf(error));
  }
  if (!isJsonObject(answer)) throw invalid("it is no JSON object");
  for (const key of ["result", "error", "log"]) if (!Object.hasOwn(answer, key)) throw invalid(`it has no '${key}'`);
  const { result, error, log } = answer;
  if (typeof log !== "string") throw invalid("its 'log' is no string");
  return { result, error: error === null ? undefined : parseError(error), log };
}

function parseError(error: unknown): CpiError {
  if (!isJsonObject(error)) throw invalid("its 'error' is neither null nor an object");
  const { type, message, ok_to_retry: okToRetry } = error;
  if (typeof type !== "string") throw invalid("its error's 'type' is no string");
  if (typeof message !== "string") throw invalid("its error's 'message' is no string");
  if (typeof okToRetry !== "boolean") throw invalid("its error's 'ok_to_retry' is neither true nor false");
  return { type, message, okToRetry };
}

/** The VM that create_vm made. */
export interface MadeVm {
  readonly vmCid: string;
  /** Undefined when the CPI does not say. */
  readonly networks: JsonObject | undefined;
}

/** A CPI's info. */
export interface AnsweredInfo {
  readonly apiVersion: number | undefined;
  readonly stemcellFormats: readonly string[];
  readonly needsVmSpec: boolean;
}

/** The kinds of the ids that methods answer. */
const ANSWERED = {
  create_vm: "vm",
  create_disk: "disk",
  get_disks: "disk",
  update_disk: "disk",
  create_stemcell: "stemcell",
  snapshot_disk: "snapshot",
} as const satisfies Partial<Record<CpiMethod, CidKind>>;

type MethodOfCids = keyof typeof ANSWERED;

/** Far above any, and what our own messages can carry. */
const MAX_API_VERSION = 1_000_000;

function isVersion(value: unknown): boolean {
  return Number.isInteger(value) && (value as number) >= 1 && (value as number) <= MAX_API_VERSION;
}

/** The shapes of the results, by method; what a CPI returns for methods without a result is not looked at. */
export const resultOf = {
  info(result: unknown): AnsweredInfo {
    if (!isJsonObject(result)) throw invalid("the result of 'info' is no object");
    const { api_version: apiVersion, stemcell_formats: formats = [], needs_vm_spec: needsVmSpec } = result;
    if (apiVersion !== undefined && apiVersion !== null && !isVersion(apiVersion))
      throw invalid(`the 'api_version' of 'info' is no whole number from 1 to ${MAX_API_VERSION}`);
    if (formats !== null && !isStrings(formats))
      throw invalid("the 'stemcell_formats' of 'info' are no list of strings");
    return {
      apiVersion: (apiVersion as number | null) ?? undefined,
      stemcellFormats: (formats as string[] | null) ?? [],
      // Not of BOSH's contract: whatever else is there is somebody else's word.
      needsVmSpec: needsVmSpec !== false,
    };
  },

  cid: cidIn,

  createVm(result: unknown, expected: Negotiated["createVmResult"]): MadeVm {
    if (Array.isArray(result) && expected !== "cid") {
      // The networks are taken where they are an object; stock directors ignore them altogether.
      const [vmCid, networks] = result;
      return { vmCid: cidIn("create_vm", vmCid), networks: isJsonObject(networks) ? networks : undefined };
    }
    if (expected === "cid_and_networks") throw invalid("the result of 'create_vm' is no list of VM CID and networks");
    return { vmCid: cidIn("create_vm", result), networks: undefined };
  },

  flag(method: CpiMethod, result: unknown): boolean {
    if (typeof result !== "boolean") throw invalid(`the result of '${method}' is neither true nor false`);
    return result;
  },

  cids(method: MethodOfCids, result: unknown): readonly string[] {
    if (!Array.isArray(result)) throw invalid(`the result of '${method}' is no list`);
    return result.map((cid) => cidIn(method, cid));
  },

  /** Null keeps the disk's id. */
  updatedDisk(result: unknown, diskCid: string): string {
    return result === null || result === undefined ? diskCid : cidIn("update_disk", result);
  },

  object(method: CpiMethod, result: unknown): JsonObject {
    if (!isJsonObject(result)) throw invalid(`the result of '${method}' is no object`);
    return result;
  },
};

function cidIn(method: MethodOfCids, result: unknown): string {
  const kind = ANSWERED[method];
  if (isCid(kind, result)) return result;
  throw invalid(`the result of '${method}' holds no CID: a ${kind}'s has ${cidRule(kind)}`);
}

function isStrings(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((one) => typeof one === "string");
}

export function invalid(what: string): InvalidCpiResponseError {
  return new InvalidCpiResponseError(`Invalid CPI response - ${what}`);
}
