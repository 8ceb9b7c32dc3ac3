import { type Cell, DURATION_BUCKETS_SECONDS, histogramOf, metric } from "@diskmesh/metrics";
import { status } from "@grpc/grpc-js";

const labels = {
  "rpc.method": "the methods of the protos",
  "rpc.response.status_code": Object.keys(status).filter((name) => Number.isNaN(Number(name))),
};

/** Call metrics with OpenTelemetry's names. */
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

// Cached by method and status, which bounds the number of cells.
const cells: { readonly [Name in Side]: Map<string, Cell[]> } = { server: new Map(), client: new Map() };

/** Records an ended call of `/service/method`. */
export function recordCall(side: Side, path: string, code: status, durationMs: number): void {
  let byCode = cells[side].get(path);
  if (byCode === undefined) {
    byCode = [];
    cells[side].set(path, byCode);
  }
  byCode[code] ??= histogramOf(rpcMetrics[side]).cellOf({
    "rpc.method": path.slice(1),
    "rpc.response.status_code": status[code] ?? "UNKNOWN",
  });
  byCode[code].record(durationMs / 1_000);
}
