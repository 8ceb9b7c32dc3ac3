import { requestIdOfCall } from "@diskmesh/cpi";
import { DomainError, messageOf } from "@diskmesh/domain";

/** The fields of requests and answers that name objects. No other field is shown, because it may be secret. */
interface Cids {
  readonly vmCid?: string;
  readonly diskCid?: string;
  readonly snapshotCid?: string;
  readonly stemcellCid?: string;
  /** The CPI that made the object. */
  readonly cpi?: string;
  readonly stemcells?: readonly Cids[];
}

export interface DebuggedCall {
  readonly method: string;
  readonly requestId: string;
  readonly callId: string;
  /** Empty for the default CPI. */
  readonly cpi: string;
  /** True when all CPIs are asked. */
  readonly unknownId: boolean;
  readonly request: object;
  readonly durationMs: number;
}

/** Returns the line of a task's debug output about an answered call. */
export function doneLine(call: DebuggedCall, response: object): string {
  const { stemcells = [], ...one }: Cids = response;
  const made = [one, ...stemcells].flatMap((each) => [...cidsIn(each), ...(each.cpi ? [`CPI ${each.cpi}`] : [])]);
  return `${lineOf(call)}: done${made.length === 0 ? "" : `, ${made.join(", ")}`}`;
}

/** Returns the line of a task's debug output about a failed call. */
export function failedLine(call: DebuggedCall, error: unknown): string {
  const outcome = error instanceof DomainError ? error.outcome : "unknown";
  return `${lineOf(call)}: ${outcome === "not_done" ? "not done" : "outcome unknown"}: ${messageOf(error)}`;
}

function lineOf({ method, requestId, callId, cpi, unknownId, request, durationMs }: DebuggedCall): string {
  const whose = cpi === "" ? "the default CPI" : `CPI ${cpi}`;
  const cids = cidsIn(request).map((cid) => `, ${cid}`);
  const name = method.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  const id = requestIdOfCall(requestId, callId);
  return `${name} with ${unknownId ? "all CPIs" : whose}${cids.join("")}, request ${id}, ${Math.round(durationMs)} ms`;
}

function cidsIn({ vmCid, diskCid, snapshotCid, stemcellCid }: Cids): string[] {
  const named = { VM: vmCid, disk: diskCid, snapshot: snapshotCid, stemcell: stemcellCid };
  return Object.entries(named).flatMap(([kind, cid]) => (cid ? [`${kind} ${cid}`] : []));
}
