import { DURATION_BUCKETS_SECONDS, histogramOf, metric } from "@diskmesh/metrics";
import { status } from "@grpc/grpc-js";

const labels = {
  "rpc.method": "the methods of the protos",
  "rpc.response.status_code": Object.keys(status).filter((name) => Number.isNaN(Number(name))),
};

/** Calls, as OpenTelemetry names them. */
export const rpcMetrics = {
  server: metric({
    kind: "histogram",
    name: "rpc.server.call.duration",
    unit: "s",
    description: "gRPC calls that were served here, by method and status. A stream counts when it has ended.",
    labels,
    buckets: DURATION_BUCKETS_SECONDS,
  }),
  client: metric({
    kind: "histogram",
    name: "rpc.client.call.duration",
    unit: "s",
    description: "gRPC calls that were made from here, by method and status. A stream counts when it has ended.",
    labels,
    buckets: DURATION_BUCKETS_SECONDS,
  }),
};

type CallLabels = { readonly [Name in keyof typeof labels]: string };

// Made once: as many as methods and statuses.
const labelsOf = new Map<string, CallLabels[]>();

/** Counts a call of `/service/method` that has ended. */
export function recordCall(side: keyof typeof rpcMetrics, path: string, code: status, durationMs: number): void {
  let byCode = labelsOf.get(path);
  if (byCode === undefined) {
    byCode = [];
    labelsOf.set(path, byCode);
  }
  byCode[code] ??= { "rpc.method": path.slice(1), "rpc.response.status_code": status[code] ?? "UNKNOWN" };
  histogramOf(rpcMetrics[side]).record(durationMs / 1_000, byCode[code]);
}
