import type { CpiCall } from "../store/cpi-call.js";

/** The object of a record that stands for all calls at a dispatcher. */
export const ANYTHING = "anything";

/** Returns the record for all calls at the only dispatcher of a director. Such calls are not recorded individually. */
export function callsOfOnly(dispatcher: string, directorGeneration: number, sinceMs: number): CpiCall {
  const nobody = { taskId: 0, requestId: "", method: "" };
  return { ...nobody, callId: "all", dispatcher, directorGeneration, things: [ANYTHING], sinceMs };
}

/** The objects that a request may name. */
export interface NamedThings {
  readonly agentId?: string;
  readonly vmCid?: string;
  readonly diskCid?: string;
  readonly token?: string;
  readonly snapshotCid?: string;
  readonly stemcellCid?: string;
  readonly imagePath?: string;
}

/**
 * The request fields that name the changed objects, by method. The VM that createDisk names is only a hint and is not
 * changed. Read-only methods have no entry.
 */
const CHANGED: Readonly<Record<string, readonly (keyof NamedThings)[]>> = {
  createVm: ["agentId"],
  deleteVm: ["vmCid"],
  rebootVm: ["vmCid"],
  setVmMetadata: ["vmCid"],
  createDisk: ["token"],
  deleteDisk: ["diskCid"],
  attachDisk: ["diskCid", "vmCid"],
  detachDisk: ["diskCid", "vmCid"],
  setDiskMetadata: ["diskCid"],
  resizeDisk: ["diskCid"],
  updateDisk: ["diskCid"],
  setDiskLimits: ["diskCid"],
  snapshotDisk: ["diskCid"],
  deleteSnapshot: ["snapshotCid"],
  createStemcell: ["imagePath"],
  deleteStemcell: ["stemcellCid"],
};

/** Returns the objects that a call changes; undefined for a read-only call. */
export function thingsChanged(method: string, request: NamedThings): readonly string[] | undefined {
  return CHANGED[method]?.flatMap((field) => (request[field] ? [`${field} ${request[field]}`] : []));
}

/** A call that has failed and is tried again. */
export interface RetriedCall {
  readonly taskId: number;
  readonly method: string;
  /** Error of the latest attempt. */
  why: string;
  /** Time of the first failure. */
  readonly sinceMs: number;
}

/** Returns a sentence that the result of the call is unknown. */
export function callText({ method, cpi, things }: Pick<CpiCall, "method" | "cpi" | "things">): string {
  const whose = cpi ? `CPI ${cpi}` : "the default CPI";
  const what = things.length === 0 ? "" : ` for ${things.join(", ")}`;
  return `${whose} has not answered ${method}${what}`;
}

/** Returns the reason why the objects of a call are blocked, with the operator's remedies. */
export function whyHeldUp({ dispatcher, method, taskId, sinceMs }: CpiCall, nowMs: number): string {
  const ageSeconds = Math.max(0, Math.round((nowMs - sinceMs) / 1_000));
  const what =
    method === ""
      ? "unrecorded calls of an earlier director"
      : `${method} of task ${taskId}, started ${ageSeconds} s ago`;
  return (
    `dispatcher ${dispatcher} may still run ${what}: ` +
    "start that dispatcher; if its machine is off for good, remove its address from dispatcher.address and restart the director"
  );
}
