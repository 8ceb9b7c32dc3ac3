import { type CidKind, cidRule, InvalidCpiResponseError, isCid, NotSupportedError } from "@diskmesh/cpi";
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

/** Parses an answer, which must have all three keys. Errors never quote the text, because it may contain secrets. */
export function parseAnswer(text: string): CpiAnswer {
  let answer: unknown;
  try {
    answer = parseJson("it", text, MAX_JSON_DEPTH);
  } catch (error) {
    throw invalid(messageOf(error));
  }
  if (!isJsonObject(answer)) throw invalid("the answer is not a JSON object");
  for (const key of ["result", "error", "log"])
    if (!Object.hasOwn(answer, key)) throw invalid(`the answer has no '${key}'`);
  const { result, error, log } = answer;
  if (typeof log !== "string") throw invalid("its 'log' is not a string");
  return { result, error: error === null ? undefined : parseError(error), log };
}

function parseError(error: unknown): CpiError {
  if (!isJsonObject(error)) throw invalid("its 'error' is neither null nor an object");
  const { type, message, ok_to_retry: okToRetry } = error;
  if (typeof type !== "string") throw invalid("its error's 'type' is not a string");
  if (typeof message !== "string") throw invalid("its error's 'message' is not a string");
  if (typeof okToRetry !== "boolean") throw invalid("its error's 'ok_to_retry' is neither true nor false");
  return { type, message, okToRetry };
}

/** The result of create_vm. */
export interface MadeVm {
  readonly vmCid: string;
  /** Undefined when the CPI does not report them. */
  readonly networks: JsonObject | undefined;
}

/** A CPI's info. */
export interface AnsweredInfo {
  readonly apiVersion: number | undefined;
  readonly stemcellFormats: readonly string[];
  readonly needsVmSpec: boolean;
}

/** The kinds of ids in the methods' results. */
const ANSWERED = {
  create_vm: "vm",
  create_disk: "disk",
  get_disks: "disk",
  update_disk: "disk",
  create_stemcell: "stemcell",
  snapshot_disk: "snapshot",
} as const satisfies Partial<Record<CpiMethod, CidKind>>;

type MethodOfCids = keyof typeof ANSWERED;

/** Far above any real version and within the range of the wire type. */
const MAX_API_VERSION = 1_000_000;

function isVersion(value: unknown): boolean {
  return Number.isInteger(value) && (value as number) >= 1 && (value as number) <= MAX_API_VERSION;
}

/** Parsers of results by method. Results of methods without a result are ignored. */
export const resultOf = {
  info(result: unknown): AnsweredInfo {
    if (!isJsonObject(result)) throw invalid("the result of 'info' is not an object");
    const { api_version: apiVersion, stemcell_formats: formats = [], needs_vm_spec: needsVmSpec } = result;
    if (apiVersion !== undefined && apiVersion !== null && !isVersion(apiVersion))
      throw invalid(`the 'api_version' of 'info' is not a whole number from 1 to ${MAX_API_VERSION}`);
    if (formats !== null && !isStrings(formats))
      throw invalid("the 'stemcell_formats' of 'info' are not a list of strings");
    return {
      apiVersion: (apiVersion as number | null) ?? undefined,
      stemcellFormats: (formats as string[] | null) ?? [],
      // An extension of BOSH's contract, so any value other than false counts as true.
      needsVmSpec: needsVmSpec !== false,
    };
  },

  cid: cidIn,

  createVm(result: unknown, expected: Negotiated["createVmResult"]): MadeVm {
    if (Array.isArray(result) && expected !== "cid") {
      // Networks other than an object are ignored. Stock directors ignore the networks altogether.
      const [vmCid, networks] = result;
      return { vmCid: cidIn("create_vm", vmCid), networks: isJsonObject(networks) ? networks : undefined };
    }
    if (expected === "cid_and_networks")
      throw invalid("the result of 'create_vm' is not a list of VM CID and networks");
    return { vmCid: cidIn("create_vm", result), networks: undefined };
  },

  flag(method: CpiMethod, result: unknown): boolean {
    if (typeof result !== "boolean") throw invalid(`the result of '${method}' is neither true nor false`);
    return result;
  },

  cids(method: MethodOfCids, result: unknown): readonly string[] {
    if (!Array.isArray(result)) throw invalid(`the result of '${method}' is not a list`);
    return result.map((cid) => cidIn(method, cid));
  },

  /** Returns a snapshot's CID. CPIs that take no snapshots, as the warden CPI, answer an empty CID instead of an error. */
  snapshot(result: unknown): string {
    if (result === null || result === undefined || result === "")
      throw new NotSupportedError("the CPI takes no snapshots: it answered no CID");
    return cidIn("snapshot_disk", result);
  },

  /** Returns the disk's id after update_disk; null means unchanged. */
  updatedDisk(result: unknown, diskCid: string): string {
    return result === null || result === undefined ? diskCid : cidIn("update_disk", result);
  },

  object(method: CpiMethod, result: unknown): JsonObject {
    if (!isJsonObject(result)) throw invalid(`the result of '${method}' is not an object`);
    return result;
  },
};

function cidIn(method: MethodOfCids, result: unknown): string {
  const kind = ANSWERED[method];
  if (isCid(kind, result)) return result;
  throw invalid(`the result of '${method}' is not a valid CID: a ${kind} CID has ${cidRule(kind)}`);
}

function isStrings(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((one) => typeof one === "string");
}

/** The `about` of an answer that a repeated call would probably get again. */
export const LASTING = { ok_to_retry: "false" } as const;

export function invalid(what: string, about: Readonly<Record<string, string>> = {}): InvalidCpiResponseError {
  return new InvalidCpiResponseError(`Invalid CPI response - ${what}`, { about });
}
