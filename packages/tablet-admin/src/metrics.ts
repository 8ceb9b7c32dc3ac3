import { allEnded, counterOf, DURATION_BUCKETS_SECONDS, histogramOf, metric, observe } from "@diskmesh/metrics";
import type { Schema, Tablet } from "@diskmesh/tablet";

/** Metrics of a tablet. The leader exports all of them; a standby exports only the edit counter. */
export const tabletMetrics = {
  commits: metric({
    kind: "histogram",
    name: "diskmesh.tablet.commit.duration",
    unit: "s",
    description: "Duration of a tablet commit until it is durable.",
    buckets: DURATION_BUCKETS_SECONDS,
  }),
  transactions: metric({
    kind: "histogram",
    name: "diskmesh.tablet.commit.transactions",
    unit: "{transaction}",
    description: "Number of transactions in a tablet commit.",
    buckets: [1, 2, 5, 10, 25, 50, 100, 250, 500, 1000],
  }),
  size: metric({
    kind: "counter",
    name: "diskmesh.tablet.commit.size",
    unit: "By",
    description: "Size of the documents written by tablet commits.",
  }),
  generation: metric({
    kind: "gauge",
    name: "diskmesh.tablet.generation",
    unit: "1",
    description: "Tablet generation of this leader. Each takeover increases it.",
  }),
  takeovers: metric({
    kind: "counter",
    name: "diskmesh.tablet.takeovers",
    unit: "{takeover}",
    description: "Number of times that this process became the leader of its tablet.",
  }),
  documentsRead: metric({
    kind: "gauge",
    name: "diskmesh.tablet.takeover.documents",
    unit: "{document}",
    description:
      "Documents and log entries that the last takeover read from the store. A standby that had caught up reads " +
      "few.",
  }),
  edited: metric({
    kind: "counter",
    name: "diskmesh.tablet.edited",
    unit: "{document}",
    description:
      "Documents edited in MongoDB by another program, and damaged files of a tablet folder, as found by the leader " +
      "or a standby. The leader rewrites them.",
  }),
  leaseLeft: metric({
    kind: "gauge",
    name: "diskmesh.tablet.lease.left",
    unit: "s",
    description:
      "Time until the leader's lease on the database expires unless it is renewed. Absent for a tablet in a folder.",
  }),
};

/** Exports the metrics of a tablet that this process leads; returns a function that ends the export. */
export function observeTablet<S extends Schema>(tablet: Tablet<S>): () => void {
  counterOf(tabletMetrics.takeovers).add(1);
  return allEnded([
    tablet.watch((_changes, { durationMs, transactions, sizeBytes }) => {
      histogramOf(tabletMetrics.commits).record(durationMs / 1_000);
      histogramOf(tabletMetrics.transactions).record(transactions);
      counterOf(tabletMetrics.size).add(sizeBytes);
    }),
    observe(tabletMetrics.generation, (say) => say(tablet.generation)),
    observe(tabletMetrics.documentsRead, (say) => {
      if (tablet.documentsRead !== undefined) say(tablet.documentsRead);
    }),
    observe(tabletMetrics.leaseLeft, (say) => {
      if (tablet.leaseLeftMs !== undefined) say(tablet.leaseLeftMs / 1_000);
    }),
  ]);
}
