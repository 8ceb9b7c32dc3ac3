import { type Cell, DURATION_BUCKETS_SECONDS, histogramOf, metric } from "@diskmesh/metrics";
import { status } from "@grpc/grpc-js";

const STATUSES = Object.keys(status).filter((name) => Number.isNaN(Number(name)));

const labels = {
  "rpc.system.name": "grpc",
  "rpc.method": "the methods of the protos",
  "rpc.status_code": STATUSES,
  "error.type": "the status of a call that failed; absent for others",
};

/** Call metrics with the names of OpenTelemetry's semantic conventions 1.45, as the attributes of spans. */
export const rpcMetrics = {
  server: metric({
    kind: "histogram",
    name: "rpc.server.call.duration",
    unit: "s",
    description:
      "Duration of the gRPC calls served by this process, by method and status. A stream is recorded when it ends.",
    labels,
    buckets: DURATION_BUCKETS_SECONDS,
  }),
  client: metric({
    kind: "histogram",
    name: "rpc.client.call.duration",
    unit: "s",
    description:
      "Duration of the gRPC calls made by this process, by method and status. A stream is recorded when it ends.",
    labels,
    buckets: DURATION_BUCKETS_SECONDS,
  }),
};

type Side = keyof typeof rpcMetrics;

/** End of a call. A call that its caller cancelled, or that a standby redirected, has not failed. */
export interface CallOutcome {
  readonly code: status;
  readonly hasFailed: boolean;
}

/** Returns the outcome as attributes of a span or labels of a metric. */
export function outcomeAttributes({ code, hasFailed }: CallOutcome) {
  const name = status[code] ?? "UNKNOWN";
  return { "rpc.status_code": name, ...(hasFailed && { "error.type": name }) };
}

// Cached by method and outcome, which bounds the number of cells.
const cells: { readonly [Name in Side]: Map<string, Cell[]> } = { server: new Map(), client: new Map() };

/** Records an ended call of `/service/method`. */
export function recordCall(side: Side, path: string, outcome: CallOutcome, durationMs: number): void {
  let byOutcome = cells[side].get(path);
  if (byOutcome === undefined) {
    byOutcome = [];
    cells[side].set(path, byOutcome);
  }
  const index = 2 * outcome.code + Number(outcome.hasFailed);
  byOutcome[index] ??= histogramOf(rpcMetrics[side]).cellOf({
    "rpc.system.name": "grpc",
    "rpc.method": path.slice(1),
    ...outcomeAttributes(outcome),
  });
  byOutcome[index].record(durationMs / 1_000);
}
